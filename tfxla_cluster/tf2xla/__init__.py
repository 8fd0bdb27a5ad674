"""TensorFlow functions to HLO through TensorFlow's own bridge."""

import tensorflow as tensorflow  # first, for the reason given in tfxla_cluster.tf
