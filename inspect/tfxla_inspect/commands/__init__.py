"""The commands of `tfxla-inspect`, one module each; `table` lists them."""
