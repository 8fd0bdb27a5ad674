"""For tests that count what is compiled: TensorFlow under this package alone, without what other tests compiled."""

from __future__ import annotations

from collections.abc import Iterator

import tensorflow as tf

import tfxla_cluster
from tfxla_cluster import flags


def compiler() -> Iterator[None]:
    """A fixture: functions compile here or are refused, and each module for the first time."""
    tf.get_logger().setLevel("ERROR")  # it counts retraces
    tfxla_cluster.clear_cache()
    with flags.patch(tfxla_must_compile_fallback="raise"), tfxla_cluster.enable():
        yield
