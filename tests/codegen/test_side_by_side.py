"""Several reductions in one kernel, folded side by side: LLVM 22 moved lanes of the first of two wrongly on machines
with AVX-512, so that a sum of integers was wrong when another stood beside it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tfxla_cluster import compiler
from tfxla_cluster.backends import cpu
from tfxla_cluster.ir import text
from tfxla_cluster.ir.dtype import DTYPES
from tfxla_cluster.ir.evaluator import evaluate

NEUTRAL = {"add": "0", "multiply": "1", "maximum": "-9", "minimum": "9", "and": "-1", "or": "0", "xor": "0"}
UNSIGNED = {**NEUTRAL, "maximum": "0", "and": "127"}
BITS = ("and", "or", "xor")
SIZES = (4096, 37)


def module(dtype: str, size: int, opcodes: tuple[str, ...]) -> str:
    """A reduction by each opcode of the argument times its number."""
    neutral = UNSIGNED if dtype.startswith("u") else NEUTRAL
    regions = "".join(
        f"{o} {{ a = {dtype}[] parameter(0)\n  b = {dtype}[] parameter(1)\n  ROOT r = {dtype}[] {o}(a, b) }}\n"
        for o in dict.fromkeys(opcodes)
    )
    lines = [f"x = {dtype}[{size}] parameter(0)"]
    for k, o in enumerate(opcodes):
        lines += [
            f"i{k} = {dtype}[] constant({neutral[o]})",
            f"c{k} = {dtype}[] constant({k + 1})",
            f"n{k} = {dtype}[{size}] broadcast(c{k}), dimensions={{}}",
            f"m{k} = {dtype}[{size}] multiply(x, n{k})",
            f"v{k} = {dtype}[] reduce(m{k}, i{k}), dimensions={{0}}, to_apply={o}",
        ]
    results = ", ".join(f"v{k}" for k in range(len(opcodes)))
    types = ", ".join(f"{dtype}[]" for _ in opcodes)
    return f"HloModule side\n{regions}ENTRY e {{ {chr(10).join(lines)}\n  ROOT t = ({types}) tuple({results}) }}\n"


@pytest.mark.parametrize("dtype", ["s8", "u8", "s16", "s32", "u32", "s64", "f32", "f64", "bf16"])
def test_reductions_side_by_side(dtype: str) -> None:
    is_float = DTYPES[dtype].is_float
    opcodes = [o for o in NEUTRAL if not (is_float and o in BITS)]
    several = [(o,) * 3 for o in opcodes] + list(itertools.combinations(opcodes, 2))
    for number, (chosen, size) in enumerate(itertools.product(several, SIZES)):
        parsed = text.parse(module(dtype, size, chosen))
        low = 0 if dtype.startswith("u") else -3
        x = np.random.default_rng(number).integers(low, 4, size).astype(DTYPES[dtype].numpy)
        got = compiler.compile_module(parsed, cpu.this_machine()).executable.run([x])
        for one, want in zip(got, evaluate(parsed, [x]), strict=True):
            if is_float:  # sums of small integers; products are 0 or stay in range
                np.testing.assert_allclose(one.astype(np.float64), want.astype(np.float64), 2e-2, 2.0, str(chosen))
            else:
                np.testing.assert_array_equal(one, want, str((chosen, size)))
