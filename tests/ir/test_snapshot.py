"""Snapshots of a module with its arguments: those that XLA writes, and what is cut off."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tfxla_cluster.errors import ParseError
from tfxla_cluster.ir import proto, text
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.ir.proto.schema import MESSAGES
from tfxla_cluster.ir.proto.shapes import write_literal, write_shape

PROGRAM = """
import jax, jax.numpy as jnp, numpy as np
jax.jit(lambda x, y: (jnp.tanh(x @ y), y.sum(0)))(np.arange(12, dtype="f").reshape(4, 3), np.full((3, 5), 0.25, "f"))
"""
MODULE = text.parse("""HloModule m
ENTRY e {
  x = f32[2,3] parameter(0)
  y = s4[3] parameter(1)
  ROOT r = (f32[2,3], s4[3]) tuple(x, y)
}
""")
X, Y = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([-8, 0, 7], MODULE.param_shapes[1].element_type.numpy)


@pytest.mark.parametrize(
    "flag", ["--xla_dump_hlo_snapshots --xla_dump_hlo_as_proto", "--xla_dump_hlo_unoptimized_snapshots"]
)
def test_what_xla_writes(flag: str, tmp_path: Path) -> None:
    environment = {**os.environ, "XLA_FLAGS": f"--xla_dump_to={tmp_path} {flag}", "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", PROGRAM], env=environment, check=True, timeout=120)
    (path,) = (p for p in tmp_path.glob("*lambda*snapshot*.pb"))
    found = proto.read_snapshot(path.read_bytes())
    assert found is not None
    np.testing.assert_array_equal(found.arguments[0], np.arange(12, dtype="f").reshape(4, 3))
    np.testing.assert_array_equal(found.arguments[1], np.full((3, 5), 0.25, "f"))
    if "unoptimized" not in flag:
        for mine, theirs in zip(evaluate(found.module, found.arguments), found.results, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-6)


def in_parts(arguments: list[np.ndarray], layout: tuple[int, ...] | None = None) -> bytes:
    """The form for large arguments."""
    message = MESSAGES["HloUnoptimizedSnapshot"]()
    message.hlo_module.ParseFromString(proto.write(MODULE))
    head = message.SerializeToString()
    data = bytes((len(head) & 127 | 128, len(head) >> 7)) + head
    for value, shape in zip(arguments, MODULE.param_shapes):
        written = MESSAGES["ShapeProto"]()
        write_shape(shape, written)
        if layout and shape.rank == 2:
            written.layout.minor_to_major[:] = layout
        raw = written.SerializeToString()
        data += len(raw).to_bytes(8, "little") + raw + value.tobytes("F" if layout else "C")
    return data


@pytest.mark.parametrize("layout", [None, (0, 1)])
def test_the_form_in_parts(layout: tuple[int, ...] | None) -> None:
    found = proto.read_snapshot(in_parts([X, Y], layout))
    assert found is not None
    np.testing.assert_array_equal(found.arguments[0], X)
    np.testing.assert_array_equal(found.arguments[1], Y)


def test_what_is_cut_off_says_so() -> None:
    whole = in_parts([X, Y])
    for cut in (1, 3, 4, 20):
        with pytest.raises(ParseError, match="cut off"):
            proto.read_snapshot(whole[:-cut])


def test_results_and_the_module_of_a_snapshot() -> None:
    message = MESSAGES["HloSnapshot"]()
    message.hlo.hlo_module.ParseFromString(proto.write(MODULE))
    for value, shape in zip((X, Y), MODULE.param_shapes):
        write_literal(value, shape, message.arguments.add())
    write_literal((X, Y), MODULE.entry.root.shape, message.result)
    data = message.SerializeToString()
    found = proto.read_snapshot(data)
    assert found is not None
    assert [a.tobytes() for a in found.arguments] == [a.tobytes() for a in found.results] == [X.tobytes(), Y.tobytes()]
    assert text.render(proto.read(data)) == text.render(MODULE)


@pytest.mark.parametrize("data", [b"", b"\x00", b"text", proto.write(MODULE), b"\x05" + proto.write(MODULE)])
def test_what_is_none(data: bytes) -> None:
    assert proto.read_snapshot(data) is None
