"""Kernels of one operation, their HLO text, and inputs that hurt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.codegen.run_kernel import run
from tfxla_cluster.codegen.kernel.builder import KernelBuilder
from tfxla_cluster.ir.dim import sym
from tfxla_cluster.ir.dtype import DTYPES, PRED, DType, from_numpy

N = sym("n", 10)


@dataclass(frozen=True)
class Case:
    """An elementwise operation; dtypes by name."""

    opcode: str
    out: str
    operands: tuple[str, ...]
    attrs: tuple[tuple[str, Any], ...] = ()


def apply_all(cases: Sequence[Case], arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The cases, of the same operand dtypes, each on the arrays, in one vector loop."""
    b = KernelBuilder(cases[0].opcode)
    inputs = [b.input(DTYPES[name]) for name in cases[0].operands]
    outputs = [b.output(DTYPES[case.out]) for case in cases]
    with b.loop(b.index(0), b.size(N), "vector") as i:
        values = [b.load(x, i) for x in inputs]
        for case, target in zip(cases, outputs):
            b.store(target, i, b.op(case.opcode, *values, dtype=DTYPES[case.out], **dict(case.attrs)))
    count = len(arrays[0])
    return run(b.finish(1), arrays, [((count,), DTYPES[case.out].numpy) for case in cases], {"n": count})


def apply(opcode: str, out: str, *arrays: np.ndarray, **attrs: Any) -> np.ndarray:
    """`opcode` on arrays of one length."""
    names = tuple(from_numpy(a.dtype).name for a in arrays)
    return apply_all([Case(opcode, out, names, tuple(attrs.items()))], arrays)[0]


def hlo(cases: Sequence[Case], count: int) -> str:
    """An HLO module of the cases on arrays of `count` elements; the root is a tuple."""
    lines = [f"  p{i} = {t}[{count}] parameter({i})" for i, t in enumerate(cases[0].operands)]
    names = ", ".join(f"p{i}" for i in range(len(cases[0].operands)))
    for number, case in enumerate(cases):
        attrs = "".join(f", {k}={v}" for k, v in case.attrs)
        lines.append(f"  r{number} = {case.out}[{count}] {case.opcode}({names}){attrs}")
    results = ", ".join(f"{case.out}[{count}]" for case in cases)
    root = ", ".join(f"r{number}" for number in range(len(cases)))
    body = "\n".join(lines)
    return f"HloModule m\nENTRY e {{\n{body}\n  ROOT r = ({results}) tuple({root})\n}}"


def hostile(dtype: DType, count: int = 600, seed: int = 0) -> np.ndarray:
    """Values of `dtype`: the corners of its range, specials, and random ones; no denormals."""
    rng = np.random.default_rng(seed)
    if dtype is PRED:
        return rng.integers(0, 2, count).astype(bool)
    if dtype.is_integer:
        return _integers(dtype, count, rng)
    if dtype.kind == "complex":
        part = DTYPES["f32" if dtype.bits == 64 else "f64"]
        real, imag = hostile(part, count, seed + 1), hostile(part, count, seed + 2)
        return (real + 1j * imag).astype(dtype.numpy)
    special = [0.0, -0.0, np.nan, np.inf, -np.inf, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3, 7, 100, -100]
    spread = np.concatenate([special, rng.standard_normal(count), rng.uniform(-30, 30, count)])
    with np.errstate(all="ignore"):
        values = spread.astype(np.float32 if dtype.bits < 64 else np.float64).astype(dtype.numpy)
    order = rng.permutation(len(values))[:count]
    return np.concatenate([values[:16], values[order]])[:count]


def _integers(dtype: DType, count: int, rng: np.random.Generator) -> np.ndarray:
    bits = dtype.bits
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype.kind == "int" else (0, (1 << bits) - 1)
    corners = [low, high, low + 1, high - 1, 0, 1, 2, 3, max(low, -1), max(low, -2), bits, bits - 1]
    corners = [min(max(c, low), high) for c in corners]
    wide = [int(v) for v in rng.integers(low, high, count // 2, dtype=np.int64 if low else np.uint64)]
    near = [int(v) for v in rng.integers(max(low, -9), min(high, 9), count)]
    pool = np.array(corners + wide + near, dtype=object)
    chosen = np.concatenate([pool[:12], pool[rng.integers(0, len(pool), count)]])[:count]
    if bits == 4:
        return chosen.astype(np.int8).astype(dtype.numpy)
    return chosen.astype(dtype.numpy)
