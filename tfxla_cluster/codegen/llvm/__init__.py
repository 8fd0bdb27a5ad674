"""Kernel IR to LLVM IR and machine code."""
