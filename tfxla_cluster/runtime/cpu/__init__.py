"""The launcher of the CPU backend: launch plans and the pool of threads as machine code of this process."""
