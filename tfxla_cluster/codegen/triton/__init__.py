"""Kernel IR to Triton source."""
