"""What a further size takes, counted: one lowering, and nothing read, checked or fetched that need not be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest import mock

import pytest
import tensorflow as tf
from tensorflow.python.eager.context import Context

import tfxla_cluster
from tests.dynamic.shows import SHOWS
from tfxla_cluster import counters, flags
from tfxla_cluster.ir.proto import reader
from tfxla_cluster.tf.functions import shape_check


def counted(counts: Counter[str], name: str, of: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **named: Any) -> Any:
        counts[name] += 1
        return of(*args, **named)

    return call


@pytest.mark.parametrize("name", ["attention", "embedding", "batch norm", "ragged"])
def test_a_new_size(name: str) -> None:
    show, found = SHOWS[name], Counter[str]()
    patched = [
        (Context, "get_compiler_ir", "lowered"),
        (Context, "get_function_def", "fetched"),
        (reader._Reader, "module", "read"),
        (shape_check, "check", "checked"),
    ]
    with flags.patch(tfxla_must_compile_fallback="raise"), tfxla_cluster.enable():
        tfxla_cluster.clear_cache()  # and what other tests' functions lowered to
        function = tf.function(show.make(True).function, jit_compile=True)
        for size in show.sizes[:2]:
            function(*show.arguments(size))
        before = int(counters.snapshot()["compilations"])
        for size in show.sizes[2:5]:
            arguments = show.arguments(size)
            traced = function.get_concrete_function(*arguments)
            called = len(traced.graph.as_graph_def().library.function)
            found.clear()
            with ExitStack() as stack:
                for owner, attribute, what in patched:
                    spy = counted(found, what, getattr(owner, attribute))
                    stack.enter_context(mock.patch.object(owner, attribute, spy))
                function(*arguments)
            assert (found["lowered"], found["read"], found["checked"]) == (1, 0, 0), size
            assert found["fetched"] <= 3 + called, size  # by TensorFlow, as it is routed, and as it is lowered
        assert int(counters.snapshot()["compilations"]) == before
