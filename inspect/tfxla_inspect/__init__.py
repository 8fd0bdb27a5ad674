"""tfxla_inspect: reads a dump directory and makes a report of it; runs without TensorFlow."""

from __future__ import annotations

__version__ = "0.1.0"
