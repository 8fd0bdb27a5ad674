"""A computation that grows at random: its values, and where operands come from."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Sequence

import numpy as np

from tfxla_cluster.ir.builder import Builder, scalar_computation
from tfxla_cluster.ir.dtype import DTYPES, DType
from tfxla_cluster.ir.node import Instr
from tfxla_cluster.ir.shape import array

KINDS = ("f32",) * 5 + ("s32",) * 2 + ("pred", "bf16", "f16", "f64", "u8", "s64")
SUMS = ("f32", "f64", "s32", "s64")  # where sums of small integers are exact
SIZES = (0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33)
MAX_ELEMENTS = 6000
HOSTILE = (np.nan, np.inf, -np.inf, -0.0)
combiner = functools.lru_cache(None)(scalar_computation)


class Draft:
    """A computation that grows; `rng` decides."""

    def __init__(self, rng: random.Random, name: str = "main") -> None:
        self.rng, self.b = rng, Builder(name)
        self.values: list[Instr] = []
        self.args: list[np.ndarray] = []
        self.names = itertools.count()  # of computations

    # --- choices ---
    def kind(self) -> str:
        return self.rng.choice(KINDS)

    def shape(self, rank: int | None = None) -> tuple[int, ...]:
        dims = tuple(self.rng.choice(SIZES) for _ in range(self.rng.randint(0, 4) if rank is None else rank))
        return dims if np.prod(dims, dtype=int) <= MAX_ELEMENTS else self.shape(rank)

    def keep(self, value: Instr) -> Instr:
        if value.shape.is_array and np.prod(value.shape.dims, dtype=int) <= 4 * MAX_ELEMENTS:
            self.values.append(value)
        return value

    def pick(self, *names: str, rank: int | None = None, least: int = 0) -> Instr:
        """A value of one of these types (any: none given) and this rank, the last ones more often."""

        def fits(v: Instr) -> bool:
            return (
                (not names or v.shape.element_type.name in names)
                and (rank is None or v.shape.rank == rank)
                and all(d >= least for d in v.shape.dims)
            )

        found = [v for v in self.values if fits(v)]
        if not found or self.rng.random() < 0.1:
            dims = tuple(max(least, d) for d in self.shape(rank))
            return self.parameter(self.rng.choice(names) if names else self.kind(), dims)
        return self.rng.choice(found[-5:] if self.rng.random() < 0.7 else found)

    def like(self, x: Instr) -> Instr:
        """Another value of the same shape: one there is, a broadcast, an argument."""
        dtype, dims = x.shape.element_type, x.shape.dims
        same = [v for v in self.values if v.shape.element_type == dtype and v.shape.dims == dims]
        choice = self.rng.random()
        if same and choice < 0.6:
            return self.rng.choice(same)
        if choice < 0.8:
            return self.b.broadcast(self.number(dtype), dims)
        return self.parameter(dtype.name, dims)

    def number(self, dtype: DType, low: int = -3, high: int = 3) -> Instr:
        return self.b.constant(drawn_array(self.rng, dtype.name, (), low, high), dtype)

    def parameter(self, name: str, dims: Sequence[int], low: int = -4, high: int = 4, hostile: bool = True) -> Instr:
        self.args.append(drawn_array(self.rng, name, dims, low, high, hostile))
        return self.keep(self.b.parameter(array(DTYPES[name], tuple(dims))))

    def limit(self, x: Instr) -> Instr:
        """Back to small numbers."""
        dtype = x.shape.element_type
        if dtype.kind in ("pred", "uint"):
            return x
        low, high = (self.b.constant(np.array(v).astype(dtype.numpy), dtype) for v in (-8, 8))
        return self.b.clamp(low, x, high)


def drawn_array(
    rng: random.Random, name: str, dims: Sequence[int], low: int, high: int, hostile: bool = True
) -> np.ndarray:
    """Integers from `low` to `high` as the dtype called `name`; some arrays of floats with NaN, infinities, -0.0."""
    dtype, seed = DTYPES[name], np.random.RandomState(rng.randrange(1 << 30))
    low = max(low, 0) if dtype.kind in ("uint", "pred") else low
    values = seed.randint(low, high + 1, tuple(dims)).astype(np.float64)
    if dtype.is_float and rng.random() < 0.5 and hostile:
        values = np.where(seed.rand(*dims) < 0.1, seed.choice(HOSTILE, tuple(dims)), values)
    with np.errstate(all="ignore"):
        return np.asarray(values).astype(dtype.numpy)
