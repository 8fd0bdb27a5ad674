"""Plans of whole modules against XLA, and what the buffer assigner must achieve."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests import oracle
from tests.close import assert_near
from tfxla_cluster.codegen.kernel.buffer_use import overwritable, read_inputs
from tfxla_cluster.ir import dim as dims
from tfxla_cluster.ir import proto
from tfxla_cluster.ir.builder import Builder
from tfxla_cluster.ir.builder.core import scalar_computation
from tfxla_cluster.ir.dtype import F32
from tfxla_cluster.ir.shape import array
from tfxla_cluster.ir.text import parse
from tfxla_cluster.runtime import buffers, schedule
from tfxla_cluster.runtime.plan import CopyStep, LaunchPlan, LoopStep, walk

from .compile_text import compile_module, compile_text, plan_of

STRAIGHT = """HloModule straight
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
ENTRY e { x = f32[100,37] parameter(0)
  y = f32[100,37] parameter(1)
  z = f32[100,37] parameter(2)
  m = f32[100,37] multiply(y, z)
  s = f32[100,37] add(x, m)
  c = f32[] constant(0)
  ROOT r = f32[100] reduce(s, c), dimensions={1}, to_apply=add }"""

# Outputs: a value twice, an input, a constant, a view, an empty array.
OUTPUTS = """HloModule outputs
ENTRY e { x = f32[4,3] parameter(0)
  y = f32[0,3] parameter(1)
  k = s32[3] constant({5,6,7})
  n = f32[4,3] negate(x)
  v = f32[12] reshape(n)
  w = f32[0,3] negate(y)
  b = f32[4,3] opt-barrier(x)
  ROOT t = (f32[4,3], f32[4,3], f32[4,3], s32[3], f32[12], f32[0,3], f32[4,3]) tuple(n, n, x, k, v, w, b) }"""

# State swapped each time, an invariant, a counter.
SWAP = """HloModule swap
cond { p = (s32[], f32[10], f32[10], f32[10]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(5)
  ROOT c = pred[] compare(i, n), direction=LT }
body { p = (s32[], f32[10], f32[10], f32[10]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  a = f32[10] get-tuple-element(p), index=1
  b = f32[10] get-tuple-element(p), index=2
  w = f32[10] get-tuple-element(p), index=3
  one = s32[] constant(1)
  i1 = s32[] add(i, one)
  aw = f32[10] add(a, w)
  ROOT t = (s32[], f32[10], f32[10], f32[10]) tuple(i1, b, aw, w) }
ENTRY e { z = s32[] constant(0)
  x = f32[10] parameter(0)
  y = f32[10] parameter(1)
  q = f32[10] parameter(2)
  t = (s32[], f32[10], f32[10], f32[10]) tuple(z, x, y, q)
  ROOT wh = (s32[], f32[10], f32[10], f32[10]) while(t), condition=cond, body=body }"""

# A loop that writes a row a time into a carried array: no copy of the array may be in its body.
ROWS = """HloModule rows
cond { p = (s32[], f32[50,8], f32[8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(50)
  ROOT c = pred[] compare(i, n), direction=LT }
body { p = (s32[], f32[50,8], f32[8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  a = f32[50,8] get-tuple-element(p), index=1
  b = f32[8] get-tuple-element(p), index=2
  one = s32[] constant(1)
  zero = s32[] constant(0)
  i1 = s32[] add(i, one)
  old = f32[1,8] dynamic-slice(a, i, zero), dynamic_slice_sizes={1,8}
  row = f32[1,8] reshape(b)
  new = f32[1,8] add(old, row)
  u = f32[50,8] dynamic-update-slice(a, new, i, zero)
  b2 = f32[8] add(b, b)
  bm = f32[8] tanh(b2)
  ROOT t = (s32[], f32[50,8], f32[8]) tuple(i1, u, bm) }
ENTRY e { z = s32[] constant(0)
  x = f32[50,8] parameter(0)
  y = f32[8] parameter(1)
  t = (s32[], f32[50,8], f32[8]) tuple(z, x, y)
  wh = (s32[], f32[50,8], f32[8]) while(t), condition=cond, body=body
  r = f32[50,8] get-tuple-element(wh), index=1
  y2 = f32[8] get-tuple-element(wh), index=2
  ROOT o = (f32[50,8], f32[8]) tuple(r, y2) }"""

NESTED = """HloModule nested
icond { p = (s32[], f32[6], f32[6]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT }
ibody { p = (s32[], f32[6], f32[6]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  a = f32[6] get-tuple-element(p), index=1
  w = f32[6] get-tuple-element(p), index=2
  one = s32[] constant(1)
  i1 = s32[] add(i, one)
  a1 = f32[6] multiply(a, w)
  ROOT t = (s32[], f32[6], f32[6]) tuple(i1, a1, w) }
cond { p = (s32[], f32[6], (f32[6], f32[6])) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(4)
  ROOT c = pred[] compare(i, n), direction=LT }
body { p = (s32[], f32[6], (f32[6], f32[6])) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  a = f32[6] get-tuple-element(p), index=1
  ww = (f32[6], f32[6]) get-tuple-element(p), index=2
  w = f32[6] get-tuple-element(ww), index=0
  one = s32[] constant(1)
  i1 = s32[] add(i, one)
  zero = s32[] constant(0)
  start = (s32[], f32[6], f32[6]) tuple(zero, a, w)
  in = (s32[], f32[6], f32[6]) while(start), condition=icond, body=ibody
  ia = f32[6] get-tuple-element(in), index=1
  iw = f32[6] get-tuple-element(in), index=2
  d = f32[6] subtract(ia, a)
  v = f32[6] get-tuple-element(ww), index=1
  v2 = f32[6] add(v, d)
  ww2 = (f32[6], f32[6]) tuple(iw, v2)
  ROOT t = (s32[], f32[6], (f32[6], f32[6])) tuple(i1, d, ww2) }
ENTRY e { z = s32[] constant(0)
  x = f32[6] parameter(0)
  y = (f32[6], f32[6]) parameter(1)
  t = (s32[], f32[6], (f32[6], f32[6])) tuple(z, x, y)
  wh = (s32[], f32[6], (f32[6], f32[6])) while(t), condition=cond, body=body
  a = f32[6] get-tuple-element(wh), index=1
  ww = (f32[6], f32[6]) get-tuple-element(wh), index=2
  w = f32[6] get-tuple-element(ww), index=0
  v = f32[6] get-tuple-element(ww), index=1
  s = f32[6] add(a, x)
  ROOT o = (f32[6], f32[6], f32[6]) tuple(s, w, v) }"""

# A conditional in a loop: a branch that hands its operand through, one that computes.
BRANCHES = """HloModule branches
keep { p = (f32[5], f32[5]) parameter(0)
  a = f32[5] get-tuple-element(p), index=0
  b = f32[5] get-tuple-element(p), index=1
  ROOT t = (f32[5], f32[5]) tuple(a, b) }
grow { p = (f32[5], f32[5]) parameter(0)
  a = f32[5] get-tuple-element(p), index=0
  b = f32[5] get-tuple-element(p), index=1
  s = f32[5] add(a, b)
  ROOT t = (f32[5], f32[5]) tuple(s, a) }
flip { p = (f32[5], f32[5]) parameter(0)
  a = f32[5] get-tuple-element(p), index=0
  b = f32[5] get-tuple-element(p), index=1
  n = f32[5] negate(b)
  ROOT t = (f32[5], f32[5]) tuple(n, a) }
cond { p = (s32[], f32[5], f32[5]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(7)
  ROOT c = pred[] compare(i, n), direction=LT }
body { p = (s32[], f32[5], f32[5]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  a = f32[5] get-tuple-element(p), index=1
  b = f32[5] get-tuple-element(p), index=2
  one = s32[] constant(1)
  i1 = s32[] add(i, one)
  g = (f32[5], f32[5]) tuple(a, b)
  q = (f32[5], f32[5]) conditional(i, g, g, g), branch_computations={grow, keep, flip}
  qa = f32[5] get-tuple-element(q), index=0
  qb = f32[5] get-tuple-element(q), index=1
  ab = f32[5] add(qa, a)
  ROOT t = (s32[], f32[5], f32[5]) tuple(i1, ab, qb) }
yes { p = f32[5] parameter(0)
  ROOT c = f32[5] cosine(p) }
no { p = f32[5] parameter(0)
  ROOT c = f32[5] copy(p) }
ENTRY e { z = s32[] constant(-1)
  x = f32[5] parameter(0)
  y = f32[5] parameter(1)
  f = pred[] parameter(2)
  t = (s32[], f32[5], f32[5]) tuple(z, x, y)
  wh = (s32[], f32[5], f32[5]) while(t), condition=cond, body=body
  a = f32[5] get-tuple-element(wh), index=1
  b = f32[5] get-tuple-element(wh), index=2
  k = f32[5] conditional(f, a, b), true_computation=yes, false_computation=no
  ROOT o = (f32[5], f32[5], f32[5]) tuple(a, b, k) }"""

CALLS = """HloModule calls
twice { p = f32[4] parameter(0)
  ROOT s = f32[4] add(p, p) }
ENTRY e { x = f32[4] parameter(0)
  a = f32[4] call(x), to_apply=twice
  b = f32[4] call(a), to_apply=twice
  ROOT t = (f32[4], f32[4]) tuple(b, a) }"""

MODULES = {text.split()[1]: text for text in (STRAIGHT, OUTPUTS, SWAP, ROWS, NESTED, BRANCHES, CALLS)}


def arguments(plan: LaunchPlan, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    found = []
    for shape in plan.inputs:
        value = np.asarray(rng.normal(size=shape.dims))
        found.append((value > 0) if shape.dtype.kind == "pred" else value.astype(shape.dtype.numpy))
    return found


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("name", MODULES)
def test_agrees_with_xla(name: str, fused: bool) -> None:
    executable = compile_text(MODULES[name], fused)
    flat = "nested" not in name  # the oracle takes no tuple parameters
    for seed in range(3):
        given = arguments(executable.plan, seed)
        results = executable.run(given)
        if flat:
            for mine, xla in zip(results, oracle.run(MODULES[name], given), strict=True):
                assert_near(mine, xla, 1e-5)


def test_unread_inputs_are_known() -> None:
    _, kernels = plan_of(parse(ROWS))
    assert (3, 2) in {(len(k.inputs), len(read_inputs(k))) for k in kernels.values()}  # dynamic-update-slice


def _kernels(text: str) -> list[frozenset[tuple[int, int]]]:
    return [overwritable(k) for k in plan_of(parse("HloModule m\nENTRY e {" + text + "}"))[1].values()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = f32[100] parameter(0)\n y = f32[100] parameter(1)\n ROOT s = f32[100] add(x, y)", {(0, 0), (1, 0)}),
        ("x = f32[] parameter(0)\n ROOT s = f32[] negate(x)", {(0, 0)}),
        ("x = f32[9,7] parameter(0)\n ROOT s = f32[9,7] negate(x)", {(0, 0)}),
        ("x = f32[100] parameter(0)\n ROOT s = f64[100] convert(x)", set()),
        ("x = f32[100] parameter(0)\n ROOT s = f32[100] reverse(x), dimensions={0}", set()),
        ("x = f32[8,8] parameter(0)\n ROOT s = f32[8,8] transpose(x), dimensions={1,0}", set()),
        ("x = f32[40,40] parameter(0)\n ROOT s = f32[40,40] transpose(x), dimensions={1,0}", set()),
        (
            "x = f32[64,64] parameter(0)\n ROOT s = f32[64,64] dot(x, x), lhs_contracting_dims={1}, "
            "rhs_contracting_dims={0}",
            set(),
        ),
        (
            "x = s32[100] parameter(0)\n y = f32[100] parameter(1)\n ROOT s = f32[100] gather(y, x), "
            "offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}",
            {(1, 0)},
        ),
    ],
)
def test_what_may_be_overwritten(text: str, expected: set[tuple[int, int]]) -> None:
    assert [set(k) for k in _kernels(text)] == [expected] or (not expected and not any(_kernels(text)))


def test_nested_loops_by_hand() -> None:
    executable = compile_text(NESTED)
    x, w, v = arguments(executable.plan)
    a = x
    first, second = w, v
    for _ in range(4):
        inner = a * first * first * first
        a = inner - a
        second = second + a
    for mine, want in zip(executable.run([x, w, v]), (a + x, first, second), strict=True):
        np.testing.assert_allclose(mine, want, rtol=1e-5)


@pytest.mark.parametrize("name", ["mlp_step", "recurrent"])
def test_tensorflow_programs_agree_with_xla(name: str) -> None:
    """Training steps as TensorFlow's bridge lowers them, loops included; see tests/data/make.py."""
    data = (Path(__file__).parents[1] / "data" / f"{name}.hlo.pb").read_bytes()
    executable = compile_module(proto.read(data))
    given = arguments(executable.plan)
    given = [np.abs(a) % 10 if a.dtype.kind == "i" else a * a.dtype.type(0.3) for a in given]
    for mine, xla in zip(executable.run(given), oracle.run(data, given), strict=True):
        assert_near(mine, xla, 1e-5)


def copies(plan: LaunchPlan) -> list[CopyStep]:
    return [s for s in walk(plan.steps) if isinstance(s, CopyStep)]


def test_a_carried_array_is_updated_in_place() -> None:
    planned, _ = plan_of(parse(ROWS))
    (loop,) = [s for s in planned.plan.steps if isinstance(s, LoopStep)]
    assert not [s for s in walk(loop.body) if isinstance(s, CopyStep) and s.bytes == 1600]
    assert [s.bytes for s in copies(planned.plan) if s.bytes == 1600] == [1600]  # of the input


def test_invariant_state_is_not_copied() -> None:
    planned, _ = plan_of(parse(SWAP))
    (loop,) = [s for s in planned.plan.steps if isinstance(s, LoopStep)]
    assert len([s for s in walk(loop.body) if isinstance(s, CopyStep) and s.bytes == 40]) <= 2


def test_results_are_written_in_output_buffers() -> None:
    assert not copies(plan_of(parse(STRAIGHT))[0].plan)
    assert not copies(plan_of(parse(CALLS))[0].plan)


def test_aliases_that_are_safe() -> None:
    """Parameter 0 is read after output 0 is written: that alias is dropped, the other kept."""
    text = """HloModule a, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }
    ENTRY e { x = f32[3] parameter(0)
      y = f32[3] parameter(1)
      n = f32[3] negate(y)
      s = f32[3] subtract(x, n)
      ROOT t = (f32[3], f32[3]) tuple(n, s) }"""
    assert plan_of(parse(text))[0].plan.aliases == ((1, 1),)


def _chain(length: int) -> str:
    lines = ["x = f32[1000] parameter(0)", "v0 = f32[1000] negate(x)"]
    lines += [f"v{n} = f32[1000] add(v{n - 1}, x)" for n in range(1, length)]
    return "HloModule chain\nENTRY e {" + "\n".join(lines) + f"\nROOT r = f32[1000] negate(v{length - 1}) }}"


def test_temporaries_share_memory() -> None:
    planned, _ = plan_of(parse(_chain(40)))
    assert planned.plan.arena_bytes <= 2 * 4032


def test_the_schedule_frees_early() -> None:
    """Written wide first (all products, then all sums), run narrow."""
    n = 12
    text = "HloModule wide\nENTRY e { x = f32[1000] parameter(0)\n"
    text += "".join(
        f"c{k} = f32[] constant({k})\nb{k} = f32[1000] broadcast(c{k}), dimensions={{}}\n"
        f"w{k} = f32[1000] multiply(x, b{k})\n"
        for k in range(n)
    )
    text += "".join(f"s{k} = f32[1] slice(w{k}), slice={{[0:1]}}\n" for k in range(n))
    text += f"ROOT t = ({', '.join(['f32[1]'] * n)}) tuple({', '.join(f's{k}' for k in range(n))}) }}"
    comp = parse(text).entry
    order = schedule.order(comp, lambda instr: ())
    sizes = {i: schedule.result_bytes(i) for i in comp.instrs}
    peak, written = (schedule.peak_bytes(o, comp.root, sizes) for o in (order, comp.instrs))
    assert peak < written / 3


@pytest.mark.parametrize("seed", range(5))
def test_packing_never_overlaps(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = [int(s) for s in rng.integers(1, 5000, 60)]
    begin = rng.integers(0, 100, 60)
    spans = [(int(b), int(b + life)) for b, life in zip(begin, rng.integers(1, 30, 60))]
    offsets, total = buffers._pack(sizes, spans)
    for i in range(60):
        assert offsets[i] % 64 == 0
        assert offsets[i] + sizes[i] <= total
        for j in range(i):
            alive = spans[i][0] < spans[j][1] and spans[j][0] < spans[i][1]
            apart = offsets[i] + sizes[i] <= offsets[j] or offsets[j] + sizes[j] <= offsets[i]
            assert apart or not alive


def test_symbolic_sizes_share_slots() -> None:
    n = dims.sym("n", 10)
    groups = [(0, n * 8, [(0, 3)]), (1, n * 4, [(3, 6)]), (2, n * n, [(4, 6)]), (3, n * 8, [(6, 8)])]
    slots = buffers._slots(groups)
    assert sorted(sorted(owners) for _, owners in slots) in ([[0, 1, 3], [2]], [[0, 3], [1, 2]])


@pytest.mark.parametrize("fused", [False, True])
def test_a_module_with_symbolic_sizes(fused: bool) -> None:
    """One plan for all sizes: softmax-like rows of an [n, m] array and its column sums."""
    n, m = dims.sym("n", 101), dims.sym("m", 103)
    b = Builder("symbolic")
    x = b.parameter(array(F32, (n, m)))
    e = b.exponential(b.tanh(x))
    zero, add = b.constant(np.float32(0)), scalar_computation("add", "f32")
    rows = b.reduce([e], [zero], [1], add)
    share = b.divide(e, b.broadcast(rows, (n, m), (0,)))
    columns = b.reduce([share], [zero], [0], add)
    executable = compile_module(b.module(share, columns, b.negate(rows)), fused)
    assert {s.symbol for s in executable.plan.sizes} == {"n", "m"}
    for shape in ((1, 1), (5, 7), (0, 3), (64, 1000), (333, 17)):
        given = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        e_ = np.exp(np.tanh(given))
        want = e_ / e_.sum(1, keepdims=True), (e_ / e_.sum(1, keepdims=True)).sum(0), -e_.sum(1)
        for mine, expected in zip(executable.run([given]), want, strict=True):
            np.testing.assert_allclose(mine, expected, rtol=1e-4)
