"""NVIDIA's libraries of kernels, by their C interfaces: found in the process, called by the launcher's machine code."""
