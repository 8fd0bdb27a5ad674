"""Kernels: kernel/ is target neutral, llvm/ and triton/ generate code from it."""
