"""Benchmark rows and their runner."""
