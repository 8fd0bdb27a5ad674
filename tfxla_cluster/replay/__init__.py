"""Modules run again: from any file that holds one, on any backend, beside a reference."""
