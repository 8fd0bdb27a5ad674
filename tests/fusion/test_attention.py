"""Which programs hold attention, why others do not, and that the fused module computes the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests import oracle
from tests.close import assert_near
from tests.fusion.attention_text import Attention, backward
from tfxla_cluster.backends import gpu
from tfxla_cluster.decision import YES, no
from tfxla_cluster.fusion.attention import KIND
from tfxla_cluster.fusion.planner import fuse
from tfxla_cluster.ir import text, verifier
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.ir.node import Instr, Module

MACHINE = replace(gpu.described().machine, attention=lambda form: YES)
MASK = "m = $S broadcast(mask), dimensions={0,3}\n  s = $S add(d, m)"
CAUSAL = """i = $I iota(), iota_dimension=2
  j = $I iota(), iota_dimension=3
  g = $P compare(i, j), direction=GE
  far = f32[] constant(-1e9)
  fars = $S broadcast(far), dimensions={}
  s = $S select(g, d, fars)"""
CAUSAL_BACK = """nought = f32[] constant(0)
  noughts = $S broadcast(nought), dimensions={}
  dd = $S select(g, ds, noughts)"""
DROPOUT = """scale = f32[] constant(1.25)
  scales = $S broadcast(scale), dimensions={}
  ws = $S multiply(p, scales)
  nil = f32[] constant(0)
  nils = $S broadcast(nil), dimensions={}
  w = $S select(keep, ws, nils)"""
HEADS_LAST = """t = $t[$B,$N,$H,$W] transpose(o), dimensions={0,2,1,3}
  n = f32[] constant(2)
  ROOT r = ($t[$B,$N,$H,$W]) tuple(t)"""
FOUND = {
    "plain": Attention(),
    "bf16": Attention(dtype="bf16"),
    "f16, other width": Attention(dtype="f16", width=16),
    "mask a key": Attention(score=MASK, extra={"mask": "f32[$B,$M]"}),
    "causal": Attention(score=CAUSAL),
    "dropout": Attention(weight=DROPOUT, extra={"keep": "$P"}),
    "heads last": Attention(after=HEADS_LAST),
    "shared keys": Attention(heads=4, share=2),
}
SCALE = """eighth = f32[] constant(8)
  eighths = $S broadcast(eighth), dimensions={}
  x = $S divide(d, eighths)
  m = $S broadcast(mask), dimensions={0,3}
  s = $S add(x, m)"""
DROPOUT_BACK = "ws2 = $S select(keep, dw, nils)\n  dp = $S multiply(ws2, scales)"
DO = {"do": "$O"}
# Forward and gradient in one computation.
TRAINED = {
    "gradient": Attention(extra=DO, after=backward()),
    "gradient, bf16": Attention(dtype="bf16", extra=DO, after=backward()),
    "gradient, scaled and masked": Attention(
        score=SCALE, extra={**DO, "mask": "f32[$B,$M]"}, after=backward("dd = $S divide(ds, eighths)")
    ),
    "gradient, causal": Attention(score=CAUSAL, extra=DO, after=backward(CAUSAL_BACK)),
    "gradient, dropout": Attention(
        weight=DROPOUT, width=16, extra={**DO, "keep": "$P"}, after=backward(weight=DROPOUT_BACK)
    ),
}
TRAINED["gradient, shared keys"] = replace(TRAINED["gradient"], heads=4, share=2)
USED = """nil = f32[] constant(0)
  sum = $R reduce(p, nil), dimensions={3}, to_apply=add_f32
  ROOT r = ($O, $R) tuple(o, sum)"""
# What stands in the way, and the rule that says so.
REFUSED = {
    "probabilities leave": (Attention(after="ROOT r = ($O, $S) tuple(o, p)"), "attention-used"),
    "scores are used": (Attention(after="ROOT r = ($O, $S) tuple(o, s)"), "attention-used"),
    "probabilities are summed": (Attention(after=USED), "attention-used"),
    "weights are no multiples": (Attention(weight="w = $S multiply(p, p)"), "attention-form"),
    "weights are shifted": (Attention(weight="w = $S add(p, b)", extra={"b": "$S"}), "attention-form"),
    "scores are no product": (Attention(score="s = $S add(b, b)", extra={"b": "$S"}), "attention-scores"),
    "scores are two products": (
        Attention(
            score="d2 = $S dot(k2, q2), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}, "
            "rhs_contracting_dims={3}\n  s = $S add(d, d2)",
            extra={"k2": "f32[$B,$H,$N,4]", "q2": "f32[$B,$H,$M,4]"},
        ),
        "attention-scores",
    ),
}


def planned(source: str, machine: Any = MACHINE) -> tuple[Module, list[dict[str, Any]]]:
    """The fused module, valid for our verifier and for XLA's parser, and the decisions on attention."""
    record: list[dict[str, Any]] = []
    module = fuse(text.parse(source), machine, record.append)
    verifier.verify(module)
    oracle.parse(text.render(module))
    return module, [r for r in record if (r["a"], r["b"]) == ("o", "p")]


def custom(module: Module) -> list[Instr]:
    return [i for i in module.entry.instrs if i.opcode == "fusion" and i.attrs["kind"] == KIND]


def arguments(source: str, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [
        (
            rng.random(p.shape.dims) > 0.3 if p.shape.element_type.kind == "pred" else rng.standard_normal(p.shape.dims)
        ).astype(p.shape.element_type.numpy)
        for p in text.parse(source).entry.params
    ]


@pytest.mark.parametrize("name", FOUND)
def test_attention_is_one_fusion(name: str) -> None:
    source = FOUND[name].text
    module, decisions = planned(source)
    assert len(custom(module)) == 1, decisions
    assert [d["ok"] for d in decisions] == [True]
    dots = [i for i in module.entry.instrs if i.opcode in ("dot", "reduce", "exponential")]
    assert not dots
    args = arguments(source)
    for one, other in zip(evaluate(module, args), evaluate(text.parse(source), args), strict=True):
        assert_near(one, other, 0)


@pytest.mark.parametrize("name", TRAINED)
def test_a_gradient_is_two_more_fusions(name: str) -> None:
    """One for that of the queries, one for those of keys and values; what else there is computes a value a row."""
    source = TRAINED[name].text
    module, decisions = planned(source)
    assert [d["ok"] for d in decisions] == [True], decisions
    fusions = custom(module)
    assert [len(f.shape.elements) for f in fusions] == [3, 0, 2]
    kernels = [i for i in module.entry.instrs if i.opcode in ("fusion", "dot", "reduce", "exponential", "multiply")]
    assert all(i in fusions or i.shape.rank == 3 for i in kernels)
    args = arguments(source)
    for one, other in zip(evaluate(module, args), evaluate(text.parse(source), args), strict=True):
        assert_near(one, other, 2e-2 if "bf16" in name else 2e-6)


# What of a gradient leaves the scores where they are.
NOT_TRAINED = {
    "the gradient of a bias": (
        backward().replace("ROOT r = ($O, $Q, $K, $V) tuple(o, dq, dk, dv)", "ROOT r = ($O, $S) tuple(o, ds)"),
        "attention-used",
    ),
    "another factor": (backward(weight="dp = $S add(dw, dw)"), "attention-used"),
    "another sum": (backward().replace("multiply(dp, p)", "multiply(dp, dp)"), "attention-used"),
}


@pytest.mark.parametrize("name", NOT_TRAINED)
def test_what_is_no_gradient_says_why(name: str) -> None:
    after, rule = NOT_TRAINED[name]
    module, decisions = planned(Attention(extra=DO, after=after).text)
    assert not custom(module)
    assert [(d["ok"], d["rule"]) for d in decisions] == [(False, rule)]


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_says_why(name: str) -> None:
    attention, rule = REFUSED[name]
    module, decisions = planned(attention.text)
    assert not custom(module)
    assert [(d["ok"], d["rule"]) for d in decisions] == [(False, rule)]
    assert decisions[0]["reason"]


def test_a_move_of_an_operand_stands_in_the_kernel_where_neighbours_stay_neighbours() -> None:
    """[batch, keys, heads, depth] is read as it lies; a transpose that would scatter a key's elements stays outside."""
    base = Attention(keys=12)
    near = base.text.replace("k = f32[2,3,12,8] parameter(1)", "kp = f32[2,12,3,8] parameter(1)\n  k = NEAR")
    near = near.replace("NEAR", "f32[2,3,12,8] transpose(kp), dimensions={0,2,1,3}")
    far = base.text.replace("k = f32[2,3,12,8] parameter(1)", "kp = f32[12,8,2,3] parameter(1)\n  k = FAR")
    far = far.replace("FAR", "f32[2,3,12,8] transpose(kp), dimensions={2,3,0,1}")
    for source, inside in ((near, True), (far, False)):
        (fusion,) = custom(planned(source)[0])
        assert ("transpose" in {i.opcode for i in fusion.attrs["calls"].instrs}) == inside


def test_keys_that_heads_share_are_read_where_they_lie() -> None:
    (fusion,) = custom(planned(FOUND["shared keys"].text)[0])
    assert [o.opcode for o in fusion.operands] == ["parameter"] * 3
    assert fusion.operands[1].shape.dims == (2, 2, 12, 8)


def test_wide_masks_are_read_and_small_ones_computed() -> None:
    def work(mask: str) -> set[str]:
        score = f"b = {mask}\n  bb = f32[] constant(-1e9)\n  bs = $S broadcast(bb), dimensions={{}}\n"
        attention = Attention(
            score=f"{score}  m = $S multiply(b, bs)\n  s = $S add(d, m)", extra={"mask": "f32[$B,$M]"}
        )
        wide = replace(attention, score=attention.score.replace(mask, "$S copy(mask)"), extra={"mask": "$S"})
        (fusion,) = custom(planned((attention if "broadcast" in mask else wide).text)[0])
        return {i.opcode for i in fusion.attrs["calls"].instrs}

    assert "multiply" in work("$S broadcast(mask), dimensions={0,3}")
    assert "multiply" not in work("$S copy(mask)")


def test_the_machine_decides() -> None:
    source = FOUND["plain"].text
    assert not custom(planned(source, replace(MACHINE, attention=None))[0])
    module, (decision,) = planned(source, replace(MACHINE, attention=lambda form: no("narrow", "too narrow")))
    assert not custom(module)
    assert (decision["rule"], decision["reason"]) == ("narrow", "too narrow")
