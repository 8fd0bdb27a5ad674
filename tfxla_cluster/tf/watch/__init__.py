"""--tfxla_watch_numerics: compiled functions are also run op by op in eager TensorFlow, and what parts is named."""
