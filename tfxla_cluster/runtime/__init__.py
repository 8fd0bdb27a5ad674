"""Launch plan, buffers, thread pool, executables, caches."""
