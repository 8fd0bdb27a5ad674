"""Rewrites of graphs and functions into forms that compile to TensorFlow's own values."""
