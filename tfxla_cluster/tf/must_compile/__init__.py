"""Functions with jit_compile=True: the hooks that run them, nested ones, the direct call."""
