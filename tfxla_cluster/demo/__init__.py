"""The main job: an unchanged Keras program, its worker process, and the comparison that tfxla-demo prints."""
