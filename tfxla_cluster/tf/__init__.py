"""What TensorFlow is about to execute: hooks, clustering, must-compile."""
