"""The launcher of the CPU backend: launch plans and the pool of threads as machine code of this process.

Apart from `runtime`, whose plans, buffers and stores are data for every machine and need no LLVM.
"""
