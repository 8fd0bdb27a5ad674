"""TensorFlow functions to HLO through TensorFlow's own bridge."""

import tensorflow as tensorflow  # noqa: PLC0414 - first, for the reason given in tfxla_cluster.tf
