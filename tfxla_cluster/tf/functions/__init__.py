"""A TensorFlow function as one native program: its variables, its compilation at the sizes seen."""
