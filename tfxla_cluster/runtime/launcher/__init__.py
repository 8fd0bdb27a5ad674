"""What the launchers of all machines share: words of plans and records, and the machine code that walks them.

Apart from `runtime`, whose plans, buffers and stores are data and need no LLVM.
"""
