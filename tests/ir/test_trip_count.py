"""How often counted loops run: against running them."""

from __future__ import annotations

import random

import pytest

from tests.hlo_case import assert_close
from tfxla_cluster import compiler
from tfxla_cluster.backends import cpu, interpreter
from tfxla_cluster.ir import text, trip_count
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.ir.node import Instr
from tfxla_cluster.runtime.plan import LoopStep, walk

LOOP = """HloModule loop
b {{ s = ({t}[], s32[]) parameter(0)
  i = {t}[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  d = {t}[] constant({step})
  j = {t}[] {change}(i, d)
  one = s32[] constant(1)
  m = s32[] add(n, one)
  ROOT r = ({t}[], s32[]) tuple(j, m) }}
c {{ s = ({t}[], s32[]) parameter(0)
  i = {t}[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  limit = {t}[] constant({limit})
  test = pred[] compare({left}, {right}), direction={direction}
  most = s32[] constant(300)
  few = pred[] compare(n, most), direction=LT
  ROOT r = pred[] and(test, few) }}
ENTRY e {{ first = {t}[] constant({first})
  zero = s32[] constant(0)
  s = ({t}[], s32[]) tuple(first, zero)
  ROOT l = ({t}[], s32[]) while(s), condition=c, body=b }}
"""


def drawn(seed: int) -> str:
    """Counters near the ends of their types too."""
    draw = random.Random(seed)
    dtype = draw.choice(("s8", "u8", "s32", "u32", "s64"))
    bits, signed = int(dtype[1:]), dtype[0] == "s"
    lowest = -(1 << (bits - 1)) if signed else 0
    highest = (1 << (bits - 1)) - 1 if signed else (1 << bits) - 1
    near = [lowest, highest, 0]

    def number(most: int) -> int:
        return min(max(draw.choice(near) + draw.randint(-most, most), lowest), highest)

    left, right = draw.choice((("i", "limit"), ("limit", "i")))
    return LOOP.format(
        t=dtype,
        step=min(max(draw.choice((1, 1, 2, 3, -1, 0, 7)), lowest), highest),
        change=draw.choice(("add", "subtract")),
        limit=number(12),
        first=number(12),
        left=left,
        right=right,
        direction=draw.choice(("LT", "LE", "GT", "GE", "NE", "EQ")),
    )


def loop_of(hlo: str) -> Instr:
    return next(i for i in text.parse(hlo).entry.instrs if i.opcode == "while")


def test_drawn_loops_run_as_often_as_they_say() -> None:
    said = 0
    for seed in range(400):
        hlo = drawn(seed)
        count = trip_count.counted(loop_of(hlo))
        if count is not None:
            said += 1
            _, rounds = evaluate(text.parse(hlo), [])
            assert int(rounds) == count, hlo
    assert said > 150


@pytest.mark.parametrize("backend", [cpu.this_machine(), interpreter.this_machine()], ids=["cpu", "interpreter"])
@pytest.mark.parametrize("seed", range(6))
def test_counted_loops_in_plans(backend: cpu.Cpu, seed: int) -> None:
    """Nothing asks their condition."""
    hlo = LOOP.format(
        t="s32", step=1 + seed, change="add", limit=10, first=-seed, left="i", right="limit", direction="LT"
    )
    made = compiler.compile_module(text.parse(hlo), backend)
    (loop,) = [s for s in walk(made.plan.steps) if isinstance(s, LoopStep)]
    assert (loop.trips, loop.condition) == (trip_count.counted(loop_of(hlo)), ())
    for got, want in zip(made.executable.run([]), evaluate(text.parse(hlo), []), strict=True):
        assert_close(got, want, 0, hlo)


@pytest.mark.parametrize(
    "config", ["", "{}", '{"known_trip_count":{"n":"x"}}', '{"known_trip_count":3}', "[1]", "none at all", '{"a":1}']
)
def test_what_stands_in_a_configuration(config: str) -> None:
    loop = loop_of(drawn(0))
    loop = loop.replace(attrs={**loop.attrs, "backend_config": config})
    assert trip_count.known(loop) is None
    new = trip_count.annotated(loop, 5)
    assert trip_count.known(new) == 5
    assert ('"a":1' in new.attrs["backend_config"]) == (config == '{"a":1}')
    assert trip_count.known(trip_count.annotated(new, None)) is None
    assert trip_count.annotated(new, 5) is new


def test_a_condition_with_an_effect_is_asked() -> None:
    effect = '  u = s32[] custom-call(n), custom_call_target="f", custom_call_has_side_effect=true\n  test'
    hlo = LOOP.format(t="s32", step=1, change="add", limit=9, first=0, left="i", right="limit", direction="LT")
    assert trip_count.counted(loop_of(hlo)) == 9
    assert trip_count.counted(loop_of(hlo.replace("  test", effect))) is None
