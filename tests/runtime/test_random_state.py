"""Stateful random instructions: no draw repeats, equal seeds give equal draws, values fit their distribution."""

from __future__ import annotations

import os

import numpy as np
import pytest

from tfxla_cluster import compiler
from tfxla_cluster.backends import cpu
from tfxla_cluster.ir import text
from tfxla_cluster.runtime import persist, random_state
from tfxla_cluster.runtime.cpu.executable import Executable

COUNT = 4001
# dtype, distribution, a, b, mean, deviation
ROWS = [
    ("f32", "uniform", 0, 1, 0.5, 12**-0.5),
    ("f32", "uniform", -2, 3, 0.5, 5 * 12**-0.5),
    ("f64", "uniform", 0, 1, 0.5, 12**-0.5),
    ("bf16", "uniform", 0, 1, 0.5, 12**-0.5),
    ("f16", "uniform", 1, 2, 1.5, 12**-0.5),
    ("s32", "uniform", -50, 50, -0.5, 100 * 12**-0.5),
    ("s64", "uniform", 0, 1000, 499.5, 1000 * 12**-0.5),
    ("u8", "uniform", 0, 200, 99.5, 200 * 12**-0.5),
    ("f32", "normal", 0, 1, 0, 1),
    ("f64", "normal", 2, 3, 2, 3),
    ("bf16", "normal", 0, 1, 0, 1),
]


def twice(dtype: str, distribution: str, a: float, b: float, count: int = COUNT) -> Executable:
    """Two equal instructions."""
    module = text.parse(f"""HloModule m

ENTRY e {{
  a = {dtype}[] constant({a})
  b = {dtype}[] constant({b})
  x = {dtype}[{count}] rng(a, b), distribution=rng_{distribution}
  y = {dtype}[{count}] rng(a, b), distribution=rng_{distribution}
  ROOT r = ({dtype}[{count}], {dtype}[{count}]) tuple(x, y)
}}
""")
    return compiler.compile_module(module, cpu.this_machine()).executable


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}-{row[1]}-{row[2]}-{row[3]}")
def test_distribution(row) -> None:
    dtype, distribution, a, b, mean, deviation = row
    run = twice(dtype, distribution, a, b)
    random_state.seed(1)
    draws = [np.asarray(x, np.float64) for x in run.run([]) + run.run([])]
    for draw in draws:
        assert abs(draw.mean() - mean) < 5 * deviation / COUNT**0.5
        assert abs(draw.std() / deviation - 1) < 0.08
        assert distribution == "normal" or (a <= draw.min() and draw.max() < b)
    for number, draw in enumerate(draws):
        for other in draws[number + 1 :]:
            assert (draw == other).mean() < 0.1
            assert abs(np.corrcoef(draw, other)[0, 1]) < 0.08


def test_seeds() -> None:
    run = twice("f32", "normal", 0, 1)
    draws = []
    for number in (5, 5, 6, None, None):
        random_state.seed(number)
        draws.append(run.run([]))
    np.testing.assert_array_equal(draws[0], draws[1])
    for first, second in ((1, 2), (1, 3), (3, 4)):
        assert not np.array_equal(draws[first], draws[second])


def test_empty_and_stored_plans() -> None:
    run = twice("f32", "uniform", 0, 1, 0)
    assert [x.shape for x in run.run([])] == [(0,), (0,)]
    made = twice("f32", "uniform", 0, 1, 9)
    plan, _ = persist.from_sections(persist.to_sections(made.plan, []))
    assert plan == made.plan


def test_a_child_process_draws_other_numbers() -> None:
    run = twice("f32", "uniform", 0, 1, 4)
    random_state.seed(None)
    run.run([])
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, run.run([])[0].tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 64) != run.run([])[0].tobytes()
