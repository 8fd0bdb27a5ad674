"""tfxla_inspect: reads a dump directory and makes a report of it; runs without TensorFlow."""

from __future__ import annotations

from tfxla_cluster import __version__ as __version__
