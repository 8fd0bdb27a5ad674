"""Results of tuning as data: XLA's messages, files of them, a directory with a file a fusion."""
