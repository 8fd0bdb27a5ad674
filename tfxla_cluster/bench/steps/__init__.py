"""Training and decoding steps of whole models as plain TensorFlow programs, timed beside stock TensorFlow."""
