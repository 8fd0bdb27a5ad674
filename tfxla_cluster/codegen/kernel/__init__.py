"""Kernel IR, the form from which every target is generated, and lowering of HLO instructions to it."""
