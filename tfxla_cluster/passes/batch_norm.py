"""batch-norm-expander: batch-norm-training, -inference, -grad --> reductions and arithmetic."""

from __future__ import annotations

import functools

from ..ir import dim as dims_
from ..ir.builder import scalar_computation
from ..ir.dtype import F32, S32, DType
from ..ir.node import Computation, Instr
from ..ir.shape import Shape, array, tuple_of
from .base import of_rules
from .match import broadcast, dtype_of, make, splat


@functools.lru_cache(maxsize=8)
def _sum(dtype: DType) -> Computation:
    return scalar_computation("add", dtype, f"batch_norm_sum_{dtype}")


class _Norm:
    """Makes the instructions of one batch norm, in f32 where its type is narrower."""

    def __init__(self, i: Instr) -> None:
        self.i, self.axis = i, i.attrs["feature_index"]
        x = i.operands[0]
        self.dims, self.out = x.shape.dims, dtype_of(x)
        self.dtype = F32 if self.out.bits < 32 else self.out
        self.others = tuple(d for d in range(x.shape.rank) if d != self.axis)

    def wide(self, x: Instr) -> Instr:
        return x if dtype_of(x) == self.dtype else make(self.i, "convert", array(self.dtype, x.shape.dims), (x,))

    def narrow(self, x: Instr) -> Instr:
        return x if self.out == self.dtype else make(self.i, "convert", array(self.out, x.shape.dims), (x,))

    def op(self, opcode: str, x: Instr, *rest: Instr) -> Instr:
        return make(self.i, opcode, x.shape, (x, *rest))

    def along(self, vector: Instr) -> Instr:
        return broadcast(self.i, self.wide(vector), self.dims, (self.axis,))

    def sum(self, x: Instr) -> Instr:
        zero = splat(self.i, 0, array(self.dtype))
        return make(
            self.i,
            "reduce",
            array(self.dtype, (self.dims[self.axis],)),
            (x, zero),
            dimensions=self.others,
            to_apply=_sum(self.dtype),
        )

    def mean(self, x: Instr) -> Instr:
        total = self.sum(x)
        return self.op("divide", total, self.count(total.shape))

    def count(self, shape: Shape) -> Instr:
        """How many elements a feature has; sizes that are symbols are read at run time."""
        sizes = [self.dims[d] for d in self.others]
        if all(isinstance(s, int) for s in sizes):
            return splat(self.i, float(dims_.sample(dims_.product(sizes))), shape)
        count = splat(self.i, 1, array(self.dtype))
        for d in self.others:
            size = make(self.i, "get-dimension-size", array(S32), (self.i.operands[0],), dimensions=(d,))
            count = self.op("multiply", count, make(self.i, "convert", array(self.dtype), (size,)))
        return broadcast(self.i, count, shape.dims)

    def inverse(self, variance: Instr) -> Instr:
        """1 / sqrt(variance + epsilon)"""
        variance = self.wide(variance)
        shifted = self.op("add", variance, splat(self.i, self.i.attrs["epsilon"], variance.shape))
        return self.op("rsqrt", shifted)

    def normalised(self, x: Instr, mean: Instr, variance: Instr) -> Instr:
        return self.op(
            "multiply", self.op("subtract", self.wide(x), self.along(mean)), self.along(self.inverse(variance))
        )


def training(i: Instr) -> Instr | None:
    """batch-norm-training(x, scale, offset) --> (normalised, mean, variance)"""
    norm, (x, scale, offset) = _Norm(i), i.operands
    mean = norm.mean(norm.wide(x))
    centred = norm.op("subtract", norm.wide(x), norm.along(mean))
    variance = norm.mean(norm.op("multiply", centred, centred))
    scaled = norm.op("multiply", norm.normalised(x, mean, variance), norm.along(scale))
    parts = [norm.narrow(p) for p in (norm.op("add", scaled, norm.along(offset)), mean, variance)]
    return make(i, "tuple", tuple_of(*(p.shape for p in parts)), parts)


def inference(i: Instr) -> Instr | None:
    """batch-norm-inference(x, scale, offset, mean, variance) --> normalised"""
    norm, (x, scale, offset, mean, variance) = _Norm(i), i.operands
    scaled = norm.op("multiply", norm.normalised(x, mean, variance), norm.along(scale))
    return norm.narrow(norm.op("add", scaled, norm.along(offset)))


def grad(i: Instr) -> Instr | None:
    """batch-norm-grad(x, scale, mean, variance, dy) --> (dx, dscale, doffset)"""
    norm, (x, scale, mean, variance, dy) = _Norm(i), i.operands
    wide_dy, centred = norm.wide(dy), norm.normalised(x, mean, variance)
    product = norm.op("multiply", wide_dy, centred)
    inner = norm.op("subtract", wide_dy, norm.along(norm.mean(wide_dy)))
    inner = norm.op("subtract", inner, norm.op("multiply", centred, norm.along(norm.mean(product))))
    factor = norm.op("multiply", norm.wide(scale), norm.inverse(variance))
    d_x = norm.op("multiply", norm.along(factor), inner)
    parts = [norm.narrow(p) for p in (d_x, norm.sum(product), norm.sum(wide_dy))]
    return make(i, "tuple", tuple_of(*(p.shape for p in parts)), parts)


PASS = of_rules(
    "batch-norm-expander",
    {"batch-norm-training": [training], "batch-norm-inference": [inference], "batch-norm-grad": [grad]},
)
