"""A value computed again elsewhere leaves its kernel with outputs of other sizes: then it stays where it was."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.fuzz.modules import program
from tests.fuzz.test_fuzz import run
from tests.hlo_contractions import GELU_GRADIENT
from tfxla_cluster import compiler
from tfxla_cluster.backends import cpu, gpu
from tfxla_cluster.fusion.build import fused
from tfxla_cluster.fusion.graph import Graph, order_of
from tfxla_cluster.fusion.machine import Machine
from tfxla_cluster.fusion.planner import fuse
from tfxla_cluster.ir import text
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.ir.rewrite import Names


def test_outputs_of_several_sizes() -> None:
    """Variadic reduces over dimensions of 1 become elementwise on rows, with scalar comparisons beside."""
    made = program(223)
    for got, want in zip(run(made, True), evaluate(made.module, made.args)):
        np.testing.assert_array_equal(got, want)


def test_a_variadic_reduce_that_is_the_result() -> None:
    """Its elements are taken by nobody, so it joins no fusion."""
    module = text.parse("""HloModule m

least {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  l = pred[] compare(a, b), direction=LT
  v = f32[] select(l, a, b)
  w = s32[] select(l, i, j)
  ROOT r = (f32[], s32[]) tuple(v, w)
}

ENTRY e {
  x = f32[4,33] parameter(0)
  y = f32[4,33] negate(x)
  n = s32[4,33] iota(), iota_dimension=1
  big = f32[] constant(inf)
  zero = s32[] constant(0)
  ROOT r = (f32[4], s32[4]) reduce(y, n, big, zero), dimensions={1}, to_apply=least
}
""")
    x = np.random.RandomState(0).permutation(132).reshape(4, 33).astype(np.float32)
    executable = compiler.compile_module(module, cpu.this_machine()).executable
    values, places = executable.run([x])
    np.testing.assert_array_equal(values, -x.max(1))
    np.testing.assert_array_equal(places, x.argmax(1))


# A row's mean is subtracted; columns are summed of the rest, of its product with another array, and of that array.
NORM = """HloModule m
plus { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
ENTRY e { x = bf16[256,96] parameter(0)
  g = bf16[256,96] parameter(1)
  zero = f32[] constant(0)
  wide = f32[256,96] convert(x)
  total = f32[256] reduce(wide, zero), dimensions={1}, to_apply=plus
  count = f32[] constant(96)
  counts = f32[256] broadcast(count), dimensions={}
  mean = f32[256] divide(total, counts)
  means = f32[256,96] broadcast(mean), dimensions={0}
  rest = f32[256,96] subtract(wide, means)
  dy = f32[256,96] convert(g)
  both = f32[256,96] multiply(rest, dy)
  scale = f32[96] reduce(both, zero), dimensions={0}, to_apply=plus
  offset = f32[96] reduce(dy, zero), dimensions={0}, to_apply=plus
  out = bf16[256,96] convert(rest)
  ROOT r = (bf16[256,96], f32[96], f32[96]) tuple(out, scale, offset) }
"""


@pytest.mark.parametrize("machine", [cpu.this_machine().machine, gpu.described().machine], ids=["cpu", "gpu"])
def test_kernels_that_came_to_read_one_array_become_one(machine: Machine) -> None:
    """Both sums over columns compute what the first kernel does for themselves, and then read `g` together."""
    decisions: list[dict[str, object]] = []
    made = fuse(text.parse(NORM), machine, decisions.append)
    found = [i for i in made.entry.instrs if i.opcode == "fusion"]
    assert len(found) == 2
    assert [str(part) for part in found[1].shape.elements] == ["f32[96]", "f32[96]"]
    assert any(d["rule"] == "recompute" for d in decisions)


@pytest.mark.parametrize(
    ("machine", "kept"),
    [(gpu.described().machine, ["d", "y"]), (cpu.this_machine().machine, ["t", "part", "y"])],
    ids=["gpu", "cpu"],
)
def test_factors_of_a_gradient_come_from_the_product(machine: Machine, kept: list[str]) -> None:
    """Three factors (up, part, slope) leave the first product's kernel no more; a CPU computes no tanh again."""
    made = fuse(text.parse(GELU_GRADIENT), machine, lambda decision: None)
    first = next(i for i in made.entry.instrs if i.opcode == "fusion")
    assert [o.name for o in first.attrs["calls"].root.operands] == kept
    heroes = [i for i in made.entry.instrs if i.opcode in ("fusion", "dot")]
    assert len(heroes) == 3  # y is an operand of the second product, so it is not computed there


def test_what_a_product_multiplies_is_not_computed_again() -> None:
    """The operand is cheap, but read once for every block of columns."""
    twice = GELU_GRADIENT.replace("up = bf16[128,96] add(ones, t)", "up = bf16[128,96] add(ones, a)").replace(
        "dot(y, v)", "dot(up, v)"
    )
    made = fuse(text.parse(twice), gpu.described().machine, lambda decision: None)
    first = next(i for i in made.entry.instrs if i.opcode == "fusion")
    assert "up" in [o.name for o in first.attrs["calls"].root.operands]


@pytest.mark.parametrize("name", ["norm", "gelu"])
def test_numbers_of_what_is_computed_again(name: str) -> None:
    module = text.parse({"norm": NORM, "gelu": GELU_GRADIENT}[name])
    rng = np.random.default_rng(0)
    shapes = [p.shape.sample_dims for p in module.entry.params]
    args = [(rng.normal(size=shape) * 0.3).astype(ml_dtypes.bfloat16) for shape in shapes]
    for got, want in zip(
        compiler.compile_module(module, cpu.this_machine()).executable.run(args), evaluate(module, args)
    ):
        np.testing.assert_allclose(got.astype(np.float32), want.astype(np.float32), rtol=2e-2, atol=1e-2)


def test_what_only_others_compute_now_is_not_made() -> None:
    """Of a group of two, of which another computes the second value itself, the first is left."""
    comp = text.parse("""HloModule m
ENTRY e { x = f32[64] parameter(0)
  s = f32[64] add(x, x)
  a = f32[64] multiply(s, x)
  b = f32[64] negate(a)
  ROOT t = (f32[64], f32[64]) tuple(s, b) }
""").entry
    graph = Graph(comp)
    order = order_of(graph)
    s, a, b = (order.group[next(i for i in comp.instrs if i.name == name)] for name in "sab")
    between = order.between(s, a)
    assert between is not None
    value = next(iter(a.members))
    order.merge(s, a, between)
    b.recomputed[value] = None
    made = fused(graph, order, Names())
    assert [i.opcode for i in made.instrs] == ["parameter", "add", "fusion", "tuple"]


def test_a_long_chain_is_not_computed_again_from_its_start() -> None:
    """Each group takes the sums of all before it; a value of more than three functions is read where it was made."""
    lines = ["z = f32[] constant(0)", "x0 = f32[128,128] parameter(0)"]
    for n in range(6):
        lines += [
            f"t{n} = f32[128,128] tanh(x{n})",
            f"s{n} = f32[128] reduce(t{n}, z), dimensions={{{n % 2}}}, to_apply=plus",
            f"b{n} = f32[128,128] broadcast(s{n}), dimensions={{{1 - n % 2}}}",
            f"x{n + 1} = f32[128,128] subtract(t{n}, b{n})",
        ]
    plus = "plus { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b) }\n"
    body = "\n ".join([*lines[:-1], f"ROOT {lines[-1]}"])
    made = fuse(text.parse(f"HloModule m\n{plus}ENTRY e {{ {body} }}\n"), gpu.described().machine, lambda record: None)
    functions = [
        sum(i.opcode == "tanh" for i in fusion.attrs["calls"].instrs)
        for fusion in made.entry.instrs
        if fusion.opcode == "fusion"
    ]
    assert max(functions) == 4  # three again, and its own
    assert sum(functions) < 1 + 2 + 3 + 4 + 5 + 6
