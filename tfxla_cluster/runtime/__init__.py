"""Buffer assignment, launch plans, the native interpreter and its thread pool, executables, caches."""
