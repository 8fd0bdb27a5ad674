"""Which programs become how many kernels, that fused modules stay valid HLO, and that they compute the same."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import oracle
from tests.close import assert_near
from tests.codegen.lower import programs
from tests.fusion import run_module
from tfxla_cluster.backends.cpu import Cpu
from tfxla_cluster.fusion.kernel_rules import KernelRules
from tfxla_cluster.fusion.planner import fuse
from tfxla_cluster.fusion.program import analyse_parts
from tfxla_cluster.ir import text, verifier
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.target import Target

MACHINE = Cpu(Target("cpu", "x86-64-v3")).machine
SETTINGS = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
BIG, ROW, COLUMN = "f32[512,256]", "f32[512]", "f32[256]"

# name: (body of the entry, kernels expected). XLA's HLO text; add_f32 and so on are programs.COMBINERS.
ROWS: dict[str, tuple[str, int]] = {
    "elementwise chain": (
        f"""
      x = {BIG} parameter(0)
      y = {BIG} parameter(1)
      a = {BIG} multiply(x, y)
      ROOT r = {BIG} add(a, x)""",
        1,
    ),
    "softmax": (
        f"""
      x = {BIG} parameter(0)
      z = f32[] constant(0)
      n = f32[] constant(-inf)
      m = {ROW} reduce(x, n), dimensions={{1}}, to_apply=max_f32
      mb = {BIG} broadcast(m), dimensions={{0}}
      s = {BIG} subtract(x, mb)
      e = {BIG} exponential(s)
      t = {ROW} reduce(e, z), dimensions={{1}}, to_apply=add_f32
      tb = {BIG} broadcast(t), dimensions={{0}}
      ROOT r = {BIG} divide(e, tb)""",
        1,
    ),
    "sum and sum of squares": (
        f"""
      x = {BIG} parameter(0)
      z = f32[] constant(0)
      q = {BIG} multiply(x, x)
      s = {COLUMN} reduce(x, z), dimensions={{0}}, to_apply=add_f32
      t = {COLUMN} reduce(q, z), dimensions={{0}}, to_apply=add_f32
      ROOT r = ({COLUMN}, {COLUMN}) tuple(s, t)""",
        1,
    ),
    "sum of a product": (
        f"""
      x = {BIG} parameter(0)
      y = {BIG} parameter(1)
      z = f32[] constant(0)
      p = {BIG} multiply(x, y)
      ROOT r = f32[] reduce(p, z), dimensions={{0,1}}, to_apply=add_f32""",
        1,
    ),
    "column means are used by a second kernel": (
        f"""
      x = {BIG} parameter(0)
      z = f32[] constant(0)
      s = f32[256] reduce(x, z), dimensions={{0}}, to_apply=add_f32
      b = {BIG} broadcast(s), dimensions={{1}}
      d = {BIG} subtract(x, b)
      e = {BIG} exponential(d)
      u = f32[256] reduce(e, z), dimensions={{0}}, to_apply=add_f32
      w = {BIG} broadcast(u), dimensions={{1}}
      big = f32[2,512,256] broadcast(w), dimensions={{1,2}}
      ROOT r = f32[2,512,256] exponential(big)""",
        2,
    ),
    "bias and activation after a product": (
        """
      x = f32[64,32] parameter(0)
      w = f32[32,48] parameter(1)
      b = f32[48] parameter(2)
      d = f32[64,48] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      bb = f32[64,48] broadcast(b), dimensions={1}
      a = f32[64,48] add(d, bb)
      ROOT r = f32[64,48] maximum(a, d)""",
        1,
    ),
    "heads after a product": (
        """
      x = f32[8,4,32] parameter(0)
      w = f32[32,32] parameter(1)
      b = f32[2,16] parameter(2)
      f = f32[32,32] reshape(x)
      d = f32[32,32] dot(f, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      h = f32[8,4,2,16] reshape(d)
      bb = f32[8,4,2,16] broadcast(b), dimensions={2,3}
      ROOT r = f32[8,4,2,16] add(h, bb)""",
        1,
    ),
    "two products": (
        """
      x = f32[64,32] parameter(0)
      w = f32[32,32] parameter(1)
      d = f32[64,32] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      t = f32[64,32] tanh(d)
      ROOT r = f32[64,32] dot(t, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
        2,
    ),
    "an update in place": (
        """
      x = f32[64,32] parameter(0)
      u = f32[1,32] parameter(1)
      i = s32[] parameter(2)
      z = s32[] constant(0)
      v = f32[1,32] add(u, u)
      ROOT r = f32[64,32] dynamic-update-slice(x, v, i, z)""",
        1,
    ),
}


def module_of(body: str) -> str:
    return f"HloModule m\n{programs.COMBINERS}\nENTRY main {{{body}\n}}\n"


def fused(module: str, record: list[dict[str, Any]] | None = None) -> Any:
    """The fused module; it is valid for our verifier and for XLA's parser."""
    result = fuse(text.parse(module), MACHINE, (record if record is not None else []).append)
    verifier.verify(result)
    oracle.parse(text.render(result))
    return result


def arguments(module: Any) -> list[np.ndarray]:
    seed = np.random.RandomState(0)
    return [seed.randint(-4, 5, p.shape.dims).astype(p.shape.dtype.numpy) for p in module.entry.params]


@pytest.mark.parametrize("name", ROWS)
def test_kernels(name: str) -> None:
    body, count = ROWS[name]
    module = fused(module_of(body))
    assert len(run_module.kernels(module)) == count, text.render(module)
    args = arguments(module)
    for got, want in zip(run_module.run(module, args), oracle.run(module_of(body), args)):
        assert_near(got, want, 1e-5)


def test_every_decision_has_a_reason() -> None:
    record: list[dict[str, Any]] = []
    fused(module_of(ROWS["two products"][0]), record)
    assert {r["rule"] for r in record if not r["ok"]} == {"two-heroes"}
    assert all(r["reason"] and r["a"] and r["b"] for r in record)


def places(count: int, levels: int) -> str:
    """Where the elements that are not 0 of `count` go, else `count`, as TensorFlow's bridge computes it for tf.where:
    sums of each four of 4**levels, of these each four, and so on; then back, each four sums taken apart again."""
    lines = [f"given = s32[{count}] parameter(0)", "zero = s32[] constant(0)", "one = s32[] constant(1)"]
    lines.append(f"most = s32[] constant({count})")

    def add(name: str, n: int, opcode: str, *operands: str, rest: str = "", dtype: str = "s32") -> str:
        lines.append(f"{name} = {dtype}[{n}] {opcode}({', '.join(operands)}){rest}")
        return name

    n, parts = 4**levels, []
    x = add("x", n, "pad", "given", "zero", rest=f", padding=0_{n - count}")
    for level in range(levels):
        n //= 4
        cut = [add(f"cut_{level}_{k}", n, "slice", x, rest=f", slice={{[{k}:{4 * n}:4]}}") for k in range(4)]
        parts.append(cut)
        x = cut[0]
        for k in range(1, 4):
            x = add(f"sum_{level}_{k}", n, "add", x, cut[k])
    for level, cut in reversed(list(enumerate(parts))):
        sums = [x]
        for k in (3, 2, 1):
            sums.append(add(f"rest_{level}_{k}", n, "subtract", sums[-1], cut[k]))
        n *= 4
        pads = [f", padding={k}_{3 - k}_3" for k in range(4)]
        wide = [add(f"wide_{level}_{k}", n, "pad", sums[3 - k], "zero", rest=pads[k]) for k in range(4)]
        x = wide[0]
        for k in range(1, 4):
            x = add(f"all_{level}_{k}", n, "add", x, wide[k])
    first = f", slice={{[0:{count}]}}"
    running = add("running", count, "slice", x, rest=first)
    shifted = add("shifted", count + 1, "pad", running, "zero", rest=", padding=1_0")
    before = add("before", count, "slice", shifted, rest=first)
    counted = add("counted", count, "compare", running, before, rest=", direction=NE", dtype="pred")
    ones, mosts = (add(f"{of}s", count, "broadcast", of, rest=", dimensions={}") for of in ("one", "most"))
    place = add("place", count, "subtract", running, ones)
    add("ROOT r", count, "select", counted, place, mosts)
    return "\n".join(["", *lines])


def test_kernels_of_values_at_several_indices_stay_small() -> None:
    record: list[dict[str, Any]] = []
    module = fused(module_of(places(10_001, 7)), record)
    assert "too-often" in {r["rule"] for r in record}
    for fusion in (i for i in module.entry.instrs if i.opcode == "fusion"):
        comp = fusion.called[0]
        outputs = comp.root.operands if comp.root.opcode == "tuple" else [comp.root]
        inside = [i for i in comp.instrs if i.opcode not in ("parameter", "tuple")]
        program = analyse_parts(outputs, inside)
        assert len(program.accesses) <= MACHINE.costs.max_repeats + len(comp.instrs)


def test_values_at_several_indices_are_right() -> None:
    for count, levels in ((61, 3), (1023, 5)):
        x = (np.arange(count) % 3 == 1).astype(np.int32)
        (got,) = run_module.run(fused(module_of(places(count, levels))), [x])
        np.testing.assert_array_equal(got, np.where(x > 0, np.cumsum(x) - 1, count))


def long_chain(rng: random.Random) -> str:
    """250 elementwise operations on equal dims, some of whose values are turned or widened before they are read."""
    lines = [f"p{k} = f32[16,16] parameter({k})" for k in range(60)]
    values = [f"p{k}" for k in range(4)]
    for k in range(250):
        x, y = rng.choice(values[-6:]), rng.choice([*values[-3:], f"p{rng.randrange(60)}"])
        if rng.random() < 0.03:
            lines += [f"n{k} = bf16[16,16] convert({x})", f"w{k} = f32[16,16] convert(n{k})"]
            x = f"w{k}"
        elif rng.random() < 0.03:
            lines += [f"f{k} = f32[256] reshape({x})", f"t{k} = f32[16,16] reshape(f{k})"]
            x = f"t{k}"
        lines.append(f"v{k} = f32[16,16] {rng.choice(['add', 'multiply', 'maximum'])}({x}, {y})")
        values.append(f"v{k}")
    return module_of("\n".join([*lines, "ROOT r = f32[16,16] tanh(v249)"]))


@pytest.mark.parametrize("seed", range(6))
def test_elementwise_work_is_decided_without_its_indices(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with them; the long way is taken where a value of the group is read at another place alone."""
    text_of = long_chain(random.Random(seed))
    found: list[list[dict[str, Any]]] = [[], []]
    quick = fused(text_of, found[0])
    monkeypatch.setattr(KernelRules, "plain", KernelRules.together)
    assert text.render(quick) == text.render(fused(text_of, found[1]))
    assert found[0] == found[1]
    assert any(not row["ok"] for row in found[0])


def test_nothing_to_fuse_is_the_same_module() -> None:
    module = text.parse(
        module_of("""
      x = f32[4] parameter(0)
      ROOT r = f32[4] negate(x)""")
    )
    assert fuse(module, MACHINE, lambda r: None) is module


def test_loop_bodies_are_fused() -> None:
    module = text.parse("""HloModule m
body { s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  a = f32[8] add(x, x)
  b = f32[8] multiply(a, x)
  ROOT t = (s32[], f32[8]) tuple(j, b) }
cond { s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT p = pred[] compare(i, n), direction=LT }
ENTRY main { x = f32[8] parameter(0)
  z = s32[] constant(0)
  t = (s32[], f32[8]) tuple(z, x)
  w = (s32[], f32[8]) while(t), condition=cond, body=body
  ROOT r = f32[8] get-tuple-element(w), index=1 }""")
    result = fuse(module, MACHINE, lambda r: None)
    verifier.verify(result)
    bodies = [c for c in result.computations() if c.name == "body"]
    assert [i.opcode for i in bodies[0].instrs].count("fusion") == 1


def as_entry(module: str) -> str:
    """A program of tests.codegen.lower.programs with the fused computation as the entry."""
    head, rest = module.split("fused {")
    return head + "ENTRY main {" + rest.split("ENTRY main")[0]


@given(st.randoms(use_true_random=False), st.booleans())
@SETTINGS
def test_random_programs(rng: random.Random, rows: bool) -> None:
    module, args = programs.row_program(rng) if rows else programs.loop_program(rng)
    module = as_entry(module)
    result = fused(module)
    for got, want in zip(run_module.run(result, args), evaluate(text.parse(module), args)):
        np.testing.assert_array_equal(np.asarray(got).reshape(want.shape), want, err_msg=module)
