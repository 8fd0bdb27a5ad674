"""Shape-generic modules: one module for all sizes of a dimension, from modules lowered at some of them."""
