"""What TensorFlow is about to execute: hooks, clustering, must-compile."""

# First, and whole: where the .pth watches for this import, `enable` runs at its end and needs our modules, which
# would else be half imported.
import tensorflow as tensorflow
