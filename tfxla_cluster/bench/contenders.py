"""Each row as callables: ours and the peers, on the same inputs, each returning when its result is there."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from .measure import Contender
from .row import Row
from .torch_process import TORCH, Peer

OURS, FLOOR = "ours", "copy"


def make(row: Row, torch: Peer | None) -> tuple[dict[str, Contender], int, dict[str, str]]:
    """(name -> contender, bytes a call moves, peer -> why it has no figure); PyTorch's process, where there is one."""
    import tensorflow as tf

    import tfxla_cluster

    tf.get_logger().setLevel("ERROR")  # autograph cannot read two lambdas in a line, nor need it
    arrays = row.make()
    tensors = [tf.constant(a) for a in arrays]
    calls: dict[str, Contender] = {}
    failed: dict[str, str] = {}
    ours = tfxla_cluster.jit(row.tf_fn)
    result = ours(*tensors)
    calls[OURS] = lambda: ours(*tensors)
    graph, jit = (tf.function(row.tf_fn, jit_compile=compiled, autograph=False) for compiled in (None, True))
    calls["graph"] = lambda: _wait(graph(*tensors))
    calls["stock jit"] = lambda: _wait(jit(*tensors))
    calls["jax"] = _jax(row, arrays)
    if row.np_fn is not None:
        calls["numpy"] = functools.partial(row.np_fn, *arrays)
    expected = jit(*tensors)
    check(row, result, expected)
    if torch is not None:
        reason = torch.make(row, arrays, [np.asarray(t) for t in tf.nest.flatten(expected)])
        if reason:
            failed[TORCH] = reason
        else:
            calls[TORCH] = torch
    moved = sum(a.nbytes for a in arrays) + sum(np.asarray(t).nbytes for t in tf.nest.flatten(result))
    calls[FLOOR] = copier(moved)
    return calls, moved, failed


def _wait(value: Any) -> Any:
    """CPU kernels of TensorFlow end before the call returns; nothing to wait for."""
    return value


def _jax(row: Row, arrays: list[Any]) -> Callable[[], object]:
    import jax

    wide = any(a.dtype == np.float64 for a in arrays)
    with jax.enable_x64(wide):
        placed = [jax.device_put(a) for a in arrays]
        fn = jax.jit(row.jax_fn)
        jax.block_until_ready(fn(*placed))

    def call() -> object:
        with jax.enable_x64(wide):  # part of what jit looks its code up by
            return jax.block_until_ready(fn(*placed))

    return call


def check(row: Row, found: Any, expected: Any) -> None:
    """A fast wrong kernel is no result: AssertionError where ours and stock differ."""
    import tensorflow as tf

    bf16 = any(t.dtype == tf.bfloat16 for t in tf.nest.flatten(expected))
    for ours, theirs in zip(tf.nest.flatten(found), tf.nest.flatten(expected)):
        a, b = (np.asarray(tf.cast(t, tf.float64)) for t in (ours, theirs))
        np.testing.assert_allclose(a, b, rtol=2e-2 if bf16 else 2e-3, atol=(0.5 if bf16 else 2e-3), err_msg=row.case)


def copier(moved: int) -> Callable[[], object]:
    """A copy that moves `moved` bytes (read plus written) with two threads; libc's copy of large blocks
    stores past the caches."""
    half = max(moved // 2, 16)
    source, target = np.ones(half, np.uint8), np.empty(half, np.uint8)
    cut = half // 2

    def run() -> None:
        other = threading.Thread(target=np.copyto, args=(target[cut:], source[cut:]))
        other.start()
        np.copyto(target[:cut], source[:cut])
        other.join()

    return run if half > 1 << 20 else lambda: np.copyto(target, source)
