"""Attention kernels: in Triton's interpreter and in that of kernel IR, against the evaluator of the plain program."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.close import assert_near
from tests.codegen.triton import gpu_module
from tests.fusion.attention_text import Attention, backward
from tests.fusion.test_attention import (
    CAUSAL,
    CAUSAL_BACK,
    DO,
    DROPOUT,
    FOUND,
    HEADS_LAST,
    MASK,
    TRAINED,
    arguments,
    custom,
)
from tfxla_cluster import compiler
from tfxla_cluster.backends import gpu
from tfxla_cluster.codegen.kernel import attention_ir, ir
from tfxla_cluster.codegen.kernel.choice import DEFAULT, Choice, Given
from tfxla_cluster.codegen.kernel.lower.gpu import attention_rows
from tfxla_cluster.codegen.kernel.lower.wide_emit import is_narrow
from tfxla_cluster.codegen.kernel.unit import Unit, UnitKernel
from tfxla_cluster.codegen.triton import attention as triton_attention
from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.codegen.triton.source import render
from tfxla_cluster.fusion import planner
from tfxla_cluster.ir import proto, text
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.options import DEFAULT as OPTIONS
from tfxla_cluster.target import Target

pytestmark = pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")
BACKENDS = (gpu_module.Interpreted(), gpu_module.Checked())


@pytest.fixture(autouse=True)
def _always_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small programs too have kernels before the blocks, unless a test says otherwise."""
    monkeypatch.setattr(attention_rows, "WORTH", 0)


CLOSE = {"f32": 1e-5, "f16": 4e-3, "bf16": 3e-2}  # parts of the largest element
HALF = """h = $T convert(d)
  three = $t[] constant(3)
  threes = $T broadcast(three), dimensions={}
  scaled = $T multiply(h, threes)
  m = $T broadcast(bias), dimensions={0,3}
  b = $T add(scaled, m)
  s = $S convert(b)"""
ODD = Attention(batch=1, heads=2, queries=70, keys=150, depth=20, width=24)
CASES = {
    **FOUND,
    **TRAINED,
    **{
        f"{name} over blocks": replace(a, queries=70, keys=100, depth=20, width=20)
        for name, a in TRAINED.items()
        if "and" in name or "dropout" in name
    },
    "blocks partly filled": ODD,
    "whole blocks": Attention(batch=1, heads=1, queries=128, keys=128, depth=16, width=16),
    "one query": replace(ODD, queries=1),
    "mask over blocks": replace(ODD, score=MASK, extra={"mask": "f32[$B,$M]"}),
    "causal over blocks": replace(ODD, queries=150, score=CAUSAL),
    "dropout over blocks": replace(ODD, weight=DROPOUT, extra={"keep": "$P"}),
    "bf16 over blocks": replace(ODD, dtype="bf16", score=MASK, extra={"mask": "f32[$B,$M]"}, after=HEADS_LAST),
}
CASES["shared keys over blocks"] = replace(FOUND["shared keys"], queries=40, keys=150, depth=20, width=24)
CASES["heads last"] = replace(CASES["heads last"], keys=70)


SEEN = """i = $I iota(), iota_dimension=2
  n = s32[] constant({offset})
  ns = $I broadcast(n), dimensions={{}}
  i2 = $I add(i, ns)
  j = $I iota(), iota_dimension=3
  g = $P compare(i2, j), direction={direction}
  far = f32[] constant({far})
  fars = $S broadcast(far), dimensions={{}}
  s = $S select(g, d, fars)"""
LONG = Attention(batch=1, heads=1, queries=150, keys=210, depth=16, width=16)


def masked(far: str, offset: int = 0, direction: str = "GE", gradient: bool = False) -> Attention:
    score = SEEN.format(far=far, offset=offset, direction=direction)
    extra = {"extra": DO, "after": backward(CAUSAL_BACK)} if gradient else {}
    return replace(LONG, score=score, **extra)


def run(source: str, args: list[np.ndarray], backend: gpu_module.Interpreted) -> list[np.ndarray]:
    made = gpu_module.compiled(text.parse(source), backend)
    assert custom(made.module), "no attention was found"
    return made.executable.run(args)


def compare(attention: Attention, args: list[np.ndarray], scores: float = 1.0) -> None:
    """Scores so many times an ordinary one are known to as many times its error, as are their exponentials."""
    want = evaluate(text.parse(attention.text), args)
    for backend in BACKENDS:
        for one, other in zip(run(attention.text, args, backend), want, strict=True):
            assert_near(one, other, CLOSE[attention.dtype] * scores)


@pytest.mark.parametrize("name", CASES)
def test_kernel(name: str) -> None:
    compare(CASES[name], arguments(CASES[name].text))


@pytest.mark.parametrize("name", ["mask over blocks", "causal over blocks", "gradient, scaled and masked over blocks"])
def test_the_fast_form_alone_is_right_for_ordinary_values(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_attention._Template, "_condition", lambda self, text: "True")
    attention, args = CASES[name], arguments(CASES[name].text)
    found = run(attention.text, args, gpu_module.Interpreted())
    for one, other in zip(found, evaluate(text.parse(attention.text), args), strict=True):
        assert_near(one, other, CLOSE[attention.dtype])


def test_the_exact_form_alone_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_attention._Template, "_condition", lambda self, text: "False")
    attention = CASES["gradient, scaled and masked over blocks"]
    args = arguments(attention.text)
    found = run(attention.text, args, gpu_module.Interpreted())
    for one, other in zip(found, evaluate(text.parse(attention.text), args), strict=True):
        assert_near(one, other, CLOSE[attention.dtype])


def units_of(attention: Attention, **choice: int) -> list[Unit]:
    return lowered(attention.text, Choice(choice))


def lowered(source: str, choice: Choice = DEFAULT) -> list[Unit]:
    backend = gpu.described()
    module = compiler.optimise(text.parse(source), backend.target, OPTIONS)
    return [backend.lower(f, choice) for f in custom(planner.fuse(module, backend.machine, lambda record: None))]


def statement(unit: Unit) -> attention_ir.Attention:
    step = unit.steps[-1]  # before it, what there is a value a row of
    assert isinstance(step, UnitKernel)
    (found,) = [s for s in step.kernel.body if isinstance(s, attention_ir.Attention)]
    return found


def test_compiles_to_matrix_instructions_and_keeps_no_score() -> None:
    large = Attention(queries=512, keys=512, depth=64, width=64, dtype="bf16", score=MASK, extra={"mask": "f32[$B,$M]"})
    (unit,) = units_of(large)
    assert not unit.temps
    (step,) = unit.steps
    assert isinstance(step, UnitKernel)
    (made,) = workers.compile_sources([render(step.kernel)], Target("gpu", "sm_90"), 1)
    assert "wgmma.mma_async" in made.texts["ptx"]
    assert made.shared_bytes < 228 * 1024


@pytest.mark.parametrize(
    ("far", "offset", "direction", "gradient"),
    [
        ("-1e9", 0, "GE", False),
        ("-5", 60, "GT", False),
        ("-inf", -70, "GE", False),
        ("-5", 0, "LT", False),
        ("-1e9", 0, "GE", True),
        ("-5", 60, "GT", True),
        ("-inf", -70, "GE", True),
        ("-1e9", 0, "LT", True),
    ],
)
def test_rows_that_a_diagonal_hides(far: str, offset: int, direction: str, gradient: bool) -> None:
    """Left out where they add nothing; not where they do (-5), nor where a query sees no key (-70)."""
    attention = masked(far, offset, direction, gradient)
    cuts = [statement(u).cut is not None for u in units_of(attention)]
    assert cuts == ([True, far != "-5", far != "-5"] if gradient else [True])
    compare(attention, arguments(attention.text))


@pytest.mark.parametrize("hidden", [0, 7])
def test_a_causal_mask_may_be_joined_with_one_of_keys(hidden: int) -> None:
    """As Keras does it; where that hides the first keys, some queries see none."""
    score = SEEN.format(far="-1e9", offset=0, direction="GE").replace("select(g,", "select(both,")
    score = score.replace("far =", "kept = $P broadcast(keep), dimensions={0,3}\n  both = $P and(kept, g)\n  far =")
    back = CAUSAL_BACK.replace("select(g,", "select(both,")
    attention = replace(LONG, score=score, extra={**DO, "keep": "pred[$B,$M]"}, after=backward(back))
    assert all(statement(u).cut is not None for u in units_of(attention))
    args = arguments(attention.text)
    args[4][:, :hidden], args[4][:, hidden] = False, True
    compare(attention, args)


def test_a_causal_mask_that_tensorflow_folded_hides_rows() -> None:
    rows = ", ".join("{" + ", ".join(str(int(i >= j)) for j in range(210)) + "}" for i in range(150))
    score = SEEN.format(far="-1e9", offset=0, direction="GE")
    at, end = score.index("i = "), score.index("far = ")
    mask = f"gs = pred[150,210] constant({{{rows}}})\n  g = $P broadcast(gs), dimensions={{2,3}}\n  "
    attention = replace(LONG, score=score[:at] + mask + score[end:])
    (unit,) = units_of(attention)
    assert statement(unit).cut is not None
    compare(attention, arguments(attention.text))


@pytest.mark.parametrize(("parameter", "value"), [(0, np.nan), (1, np.inf), (2, np.inf), (3, np.nan)])
def test_a_hidden_row_that_is_not_finite_counts(parameter: int, value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all but an infinite gradient: its sum over a row may be infinite where the plain program has NaN."""
    monkeypatch.setattr(attention_rows, "_PROGRAM", 256)  # so that several programs look for it
    attention = masked("-1e9", gradient=True)
    args = arguments(attention.text)
    args[parameter][0, 0, 140, 3] = value
    compare(attention, args)


def test_scores_of_halves_are_never_rounded() -> None:
    """What XLA calls excess precision: of the score's region all floats are f32."""
    attention = Attention(dtype="bf16", score=HALF, extra={"bias": "$t[$B,$M]"})
    (unit,) = units_of(attention)
    stmt = statement(unit)
    for between in (stmt.exact, stmt.fast):
        assert between is not None
        assert between.score is not None
        assert not [s for s in between.score.body if isinstance(s, ir.Op) and is_narrow(s.out.dtype)]
    args = arguments(attention.text)
    exact = evaluate(text.parse(replace(attention, dtype="f32").text), [a.astype(np.float32) for a in args])[0]
    for backend in BACKENDS:
        assert_near(run(attention.text, args, backend)[0], exact, 1e-2)


@pytest.mark.parametrize("choice", [{"fixed": 64, "looped": 32}, {"looped": 128, "warps": 8, "stages": 3}], ids=str)
def test_chosen_blocks_give_the_same(choice: dict[str, int]) -> None:
    attention = CASES["mask over blocks"]
    args = arguments(attention.text)
    module = text.parse(attention.text)
    made = compiler.compile_module(module, BACKENDS[0], choices=Given("fusion", Choice(choice)))
    assert_near(made.executable.run(args)[0], evaluate(module, args)[0], 1e-5)


@pytest.mark.parametrize(
    ("dtype", "width", "after"),
    [("f32", 256, Attention().after), ("f32", 128, backward()), ("bf16", 256, backward())],
    ids=["f32 forward", "f32 gradient", "bf16 gradient"],
)
def test_default_blocks_fit_into_shared_memory(dtype: str, width: int, after: str) -> None:
    """Compiled, not by the rule that chose them: sm_90 has 227 KiB for a program."""
    extra = {} if after == Attention().after else DO
    large = Attention(1, 2, 512, 512, width, width, dtype, after=after, extra=extra)
    kernels = [unit.steps[-1] for unit in units_of(large)]
    sources = [render(k.kernel) for k in kernels[-2:] if isinstance(k, UnitKernel)]
    for made in workers.compile_sources(sources, Target("gpu", "sm_90"), 1):
        assert made.shared_bytes <= 227 * 1024


MATRICES = {
    "mask": replace(CASES["mask over blocks"], depth=24),
    "bf16, heads last": replace(CASES["bf16 over blocks"], depth=24),
    "shared keys": replace(CASES["shared keys over blocks"], depth=16),
    "causal": replace(CASES["causal over blocks"], depth=24),
    "gradient": replace(CASES["gradient, scaled and masked over blocks"], depth=24, width=24),
}


@pytest.mark.parametrize("name", MATRICES)
def test_operands_read_by_blocks_give_the_same(name: str) -> None:
    attention = MATRICES[name]
    assert all(m is not None for unit in units_of(attention, descriptors=1) for m in _matrices(unit))
    args, module = arguments(attention.text), text.parse(attention.text)
    (first, *_) = custom(planner.fuse(module, gpu.described().machine, lambda record: None))
    want = evaluate(module, args)
    for number in range(len(units_of(attention))):
        choices = Given(first.name + f".{number}" * (number > 0), Choice({"descriptors": 1}))
        made = compiler.compile_module(module, BACKENDS[0], choices=choices)
        for one, other in zip(made.executable.run(args), want, strict=True):
            assert_near(one, other, CLOSE[attention.dtype])


def _matrices(unit: Unit) -> list[ir.Var | None]:
    stmt = statement(unit)
    return [s.matrix for s in (*stmt.scores, *stmt.sums)]


TOKEN = Attention(batch=1, heads=4, queries=1, keys=4095, depth=64, width=64)


@pytest.mark.parametrize(
    "attention", [TOKEN, replace(TOKEN, keys=4096, queries=17), replace(TOKEN, keys=4096, heads=33)]
)
def test_few_rows_by_many_are_a_kernel_unless_most_of_the_machine_is_idle(attention: Attention) -> None:
    assert custom(planner.fuse(text.parse(attention.text), gpu.described().machine, lambda _: None))


def test_what_has_no_kernel_is_refused_with_the_reason() -> None:
    """Fusion asks first: such programs keep their scores, and run."""
    for attention, rule in (
        (Attention(depth=300), "attention-width"),
        (Attention(width=300), "attention-width"),
        (Attention(keys=1), "attention-rows"),
        (replace(TOKEN, keys=4096), "attention-few"),
    ):
        record: list[dict[str, Any]] = []
        module = planner.fuse(text.parse(attention.text), gpu.described().machine, record.append)
        assert not custom(module)
        assert rule in {r["rule"] for r in record}


def test_small_programs_have_one_kernel_each(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("causal over blocks", "gradient, scaled and masked over blocks", "gradient, causal"):
        monkeypatch.undo()
        assert [len(unit.steps) for unit in units_of(CASES[name])] in ([1], [1, 1, 1])
        compare(CASES[name], arguments(CASES[name].text))


PROGRAMS = sorted((Path(__file__).parents[2] / "data" / "attention").glob("*.hlo.pb"))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_training_steps_as_tensorflow_lowers_them(path: Path) -> None:
    """All of the attention in them, forward and backward, is three kernels; the whole step computes the same."""
    module = proto.read(path.read_bytes())
    args = [
        (np.random.default_rng(n).standard_normal(p.shape.dims) * 0.5).astype(p.shape.element_type.numpy)
        if p.shape.element_type.is_float
        else np.ones(p.shape.dims, p.shape.element_type.numpy)
        for n, p in enumerate(module.entry.params)
    ]
    want = evaluate(module, args)
    most = max(float(np.abs(w).max()) for w in want[1:] if w.dtype.kind != "i")
    for backend in BACKENDS:
        made = gpu_module.compiled(module, backend)
        assert len(custom(made.module)) == 3
        for one, other in zip(made.executable.run(args), want, strict=True):
            if other.dtype.kind != "f" or np.abs(other).max() > 1e-5 * most:
                assert_near(one, other, 3e-2 if "halves" in path.name else 1e-4)
            else:  # a gradient that cancels to nothing, that of the keys' bias
                assert np.abs(one).max() < 1e-5 * most
