"""Scoped flags: `with tfxla_cluster.config.patch(tf_xla_min_cluster_size=1): ...`, also a decorator."""

from __future__ import annotations

from .flags import get, patch, set_values, values

__all__ = ["get", "patch", "set_values", "values"]
