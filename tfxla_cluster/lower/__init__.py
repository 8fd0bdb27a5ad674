"""TensorFlow functions to HLO through TensorFlow's own bridge."""
