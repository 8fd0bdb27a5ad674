"""Unchanged TensorFlow programs, each run with stock TensorFlow and with this package, and compared."""
