"""Kernels made once for a symbolic size, run at several sizes, against the evaluator at each."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from tests.codegen import run_kernel, run_unit
from tests.codegen.lower import programs
from tfxla_cluster.codegen.kernel import lower
from tfxla_cluster.codegen.kernel.lower.recompute import MAX_ROW
from tfxla_cluster.ir import dim, text
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.ir.node import Computation, Instr
from tfxla_cluster.ir.shape import Shape

SAMPLE = 101  # stands for B where a program is parsed; products of it become expressions
B = dim.sym("B", SAMPLE)

# The fused computation; N, 2N, 3N, 8N are the size and its multiples.
PROGRAMS = {
    "softmax": """
      x = f32[N,33] parameter(0)
      z = f32[] constant(0)
      n = f32[] constant(-inf)
      m = f32[N] reduce(x, n), dimensions={1}, to_apply=max_f32
      mb = f32[N,33] broadcast(m), dimensions={0}
      s = f32[N,33] subtract(x, mb)
      t = f32[N] reduce(s, z), dimensions={1}, to_apply=add_f32
      tb = f32[N,33] broadcast(t), dimensions={0}
      ROOT r = f32[N,33] maximum(s, tb)""",
    "rows of symbolic length": """
      x = f32[5,N] parameter(0)
      z = f32[] constant(0)
      t = f32[5] reduce(x, z), dimensions={1}, to_apply=add_f32
      tb = f32[5,N] broadcast(t), dimensions={0}
      ROOT r = f32[5,N] subtract(x, tb)""",
    "column sum": """
      x = f32[N,33] parameter(0)
      z = f32[] constant(0)
      ROOT r = f32[33] reduce(x, z), dimensions={0}, to_apply=add_f32""",
    "sum of symbolic columns": """
      x = f32[9,N] parameter(0)
      z = f32[] constant(0)
      ROOT r = f32[N] reduce(x, z), dimensions={0}, to_apply=add_f32""",
    "full sum in parts": """
      x = f32[N,2048] parameter(0)
      z = f32[] constant(5)
      ROOT r = f32[] reduce(x, z), dimensions={0,1}, to_apply=add_f32""",
    "merge and split": """
      x = f32[N,3,8] parameter(0)
      b = f32[8] parameter(1)
      m = f32[3N,8] reshape(x)
      bb = f32[3N,8] broadcast(b), dimensions={1}
      a = f32[3N,8] add(m, bb)
      ROOT r = f32[N,24] reshape(a)""",
    "transpose": """
      x = f32[N,40] parameter(0)
      y = f32[N,40] add(x, x)
      ROOT r = f32[40,N] transpose(y), dimensions={1,0}""",
    "concatenate": """
      x = f32[4,N] parameter(0)
      y = f32[4,N] parameter(1)
      ROOT r = f32[4,2N] concatenate(x, y), dimensions={1}""",
    "reverse": """
      x = f32[N,3] parameter(0)
      ROOT r = f32[N,3] reverse(x), dimensions={0,1}""",
}


def substitute(comp: Computation, sizes: Mapping[int, dim.Dim]) -> Computation:
    """The computation with dims that `sizes` knows replaced by expressions."""
    done: dict[Instr, Instr] = {}
    for instr in comp.instrs:
        shape: Shape = instr.shape
        if shape.is_array:
            shape = shape.with_dims(tuple(sizes.get(d, d) if isinstance(d, int) else d for d in shape.dims))
        done[instr] = instr.replace(shape=shape, operands=tuple(done[o] for o in instr.operands))
    return Computation(comp.name, tuple(done.values()), done[comp.root])


def module_text(body: str, size: int) -> str:
    for factor in (8, 3, 2):
        body = body.replace(f"{factor}N", str(factor * size))
    return f"HloModule m\n{programs.COMBINERS}\nENTRY fused {{{body.replace('N', str(size))}\n}}\n"


@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes(name: str) -> None:
    body = PROGRAMS[name]
    generic = substitute(
        text.parse(module_text(body, SAMPLE)).entry, {f * SAMPLE: dim.make("mul", B, f) for f in (1, 2, 3, 8)}
    )
    fusion = Instr("f", "fusion", generic.root.shape, generic.params, {"kind": "kLoop", "calls": generic})
    for size in (1, 2, 7, 101, 300):
        module = text.parse(module_text(body, size))
        seed = np.random.RandomState(size)
        args = [seed.randint(-5, 6, p.shape.dims).astype(np.float32) for p in module.entry.params]
        got = run_unit.run(fusion, args, {"B": size})
        want = evaluate(module, args)  # XLA adds an initial value of 5 many times over
        for g, w in zip(got, want):
            np.testing.assert_array_equal(g, w, err_msg=f"{name} at {size}")


KEPT = """
      x = f32[3,N] parameter(0)
      z = f32[] constant(0)
      squares = f32[3,N] multiply(x, x)
      less = f32[3,N] subtract(squares, x)
      cubes = f32[3,N] multiply(less, x)
      costly = f32[3,N] add(cubes, squares)
      t = f32[3] reduce(costly, z), dimensions={1}, to_apply=add_f32
      tb = f32[3,N] broadcast(t), dimensions={0}
      ROOT r = f32[3,N] subtract(costly, tb)"""


def test_rows_of_a_size_keep_what_they_compute_twice_up_to_a_length() -> None:
    generic = substitute(text.parse(module_text(KEPT, SAMPLE)).entry, {SAMPLE: B})
    fusion = Instr("f", "fusion", generic.root.shape, generic.params, {"kind": "kLoop", "calls": generic})
    (step,) = lower.lower(fusion, run_kernel.host_target()).steps
    assert [buffer.elements for buffer in step.kernel.scratch] == [MAX_ROW]
    for size in (1, 9, MAX_ROW, MAX_ROW + 1):
        arg = np.random.RandomState(size).randint(-5, 6, (3, size)).astype(np.float32)
        (got,), (want,) = run_unit.run(fusion, [arg], {"B": size}), evaluate(text.parse(module_text(KEPT, size)), [arg])
        np.testing.assert_array_equal(got, want, err_msg=str(size))
