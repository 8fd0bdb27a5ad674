"""rng-expander: rng --> bits of a counter-based generator, turned into numbers of its distribution.

The generator's state comes from `rng-get-and-update-state`, which reserves counters of the process's
own state: no two executions of any two instructions see the same bits.
"""

from __future__ import annotations

from ..errors import UnsupportedError
from ..ir import dim as dims_
from ..ir.dtype import F32, F64, PRED, U32, U64, DType
from ..ir.node import Instr
from ..ir.shape import array, tuple_of
from .base import of_rules
from .match import broadcast, dtype_of, is_value, make, splat

UNKNOWN_SIZE = 1 << 32  # counters reserved where the number of elements is known at run time only
_MANTISSA = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}


class _Draw:
    """Makes the instructions of one rng of `shape`."""

    def __init__(self, instr: Instr) -> None:
        self.instr, self.shape = instr, instr.shape

    def bits(self, dtype: DType, arrays: int) -> list[Instr]:
        """Arrays of random integers (u32 or u64) of the instruction's dims."""
        blocks = -(-dims_.sample(self.shape.element_count) * dtype.bits // 128)
        known = isinstance(self.shape.element_count, int)
        state_shape, bits_shape = array(U64, (2,)), array(dtype, self.shape.dims)
        state = make(
            self.instr, "rng-get-and-update-state", state_shape, (), delta=arrays * blocks if known else UNKNOWN_SIZE
        )
        found = []
        for _ in range(arrays):
            both = make(
                self.instr, "rng-bit-generator", tuple_of(state_shape, bits_shape), (state,), algorithm="rng_philox"
            )
            state = make(self.instr, "get-tuple-element", state_shape, (both,), index=0)
            found.append(make(self.instr, "get-tuple-element", bits_shape, (both,), index=1))
        return found

    def op(self, opcode: str, x: Instr, *rest: Instr) -> Instr:
        return make(self.instr, opcode, x.shape, (x, *rest))

    def number(self, value: float, like: Instr) -> Instr:
        return splat(self.instr, value, like.shape)

    def convert(self, x: Instr, dtype: DType) -> Instr:
        return x if dtype_of(x) == dtype else make(self.instr, "convert", array(dtype, x.shape.dims), (x,))

    def spread(self, scalar: Instr) -> Instr:
        return broadcast(self.instr, scalar, self.shape.dims)

    def high_bits(self, bits: Instr, count: int, dtype: DType) -> Instr:
        """The integer in the upper `count` bits, exactly, as `dtype`."""
        shift = self.number(dtype_of(bits).bits - count, bits)
        return self.convert(self.op("shift-right-logical", bits, shift), dtype)

    def scaled(self, x: Instr, power: int) -> Instr:
        return self.op("multiply", x, self.number(2.0**power, x))


def _uniform_float(draw: _Draw, low: Instr, high: Instr, dtype: DType) -> Instr:
    """low + u * (high - low), u a multiple of 2**-mantissa in [0, 1); what rounds to `high` becomes `low`."""
    mantissa = _MANTISSA[dtype.name]
    (bits,) = draw.bits(U64 if dtype == F64 else U32, 1)
    unit = draw.scaled(draw.high_bits(bits, mantissa, dtype), -mantissa)
    if is_value(low, 0) and is_value(high, 1):
        return unit
    least, most = draw.spread(low), draw.spread(high)
    value = draw.op("add", least, draw.op("multiply", unit, draw.op("subtract", most, least)))
    inside = make(draw.instr, "compare", array(PRED, value.shape.dims), (value, most), direction="LT")
    return make(draw.instr, "select", value.shape, (inside, value, least))


def _uniform_integer(draw: _Draw, low: Instr, high: Instr, dtype: DType) -> Instr:
    """low + u64 bits modulo (high - low): for ranges below 2**32 a value is at most 2**-32 too likely."""
    (bits,) = draw.bits(U64, 1)
    span = draw.op("subtract", draw.convert(high, U64), draw.convert(low, U64))
    offset = draw.op("remainder", bits, draw.spread(span))
    return draw.op("add", draw.convert(offset, dtype), draw.spread(low))


def _normal(draw: _Draw, mean: Instr, deviation: Instr, dtype: DType) -> Instr:
    """Box and Muller: sqrt(-2 log u) cos(2 pi v), u in (0, 1], v in [0, 1)."""
    wide, bits_type, count = (F64, U64, 53) if dtype == F64 else (F32, U32, 24)
    first, second = draw.bits(bits_type, 2)
    u = draw.high_bits(first, count, wide)
    u = draw.scaled(draw.op("add", u, draw.number(1, u)), -count)
    v = draw.scaled(draw.high_bits(second, count, wide), -count)
    radius = draw.op("sqrt", draw.op("multiply", draw.op("log", u), draw.number(-2, u)))
    angle = draw.op("cosine", draw.op("multiply", v, draw.number(6.283185307179586, v)))
    sample = draw.op("multiply", radius, angle)
    if not (is_value(mean, 0) and is_value(deviation, 1)):
        spread = draw.op("multiply", sample, draw.spread(draw.convert(deviation, wide)))
        sample = draw.op("add", spread, draw.spread(draw.convert(mean, wide)))
    return draw.convert(sample, dtype)


def expand(instr: Instr) -> Instr | None:
    """rng(a, b): uniform in [a, b), or normal of mean a and deviation b."""
    draw, dtype, (a, b) = _Draw(instr), dtype_of(instr), instr.operands
    normal = instr.attrs["distribution"] == "rng_normal"
    if dtype.name in _MANTISSA:
        return _normal(draw, a, b, dtype) if normal else _uniform_float(draw, a, b, dtype)
    if dtype.is_integer and not normal:
        return _uniform_integer(draw, a, b, dtype)
    raise UnsupportedError(f"rng of {instr.shape} has no kernel ({instr.name})")


PASS = of_rules("rng-expander", {"rng": [expand]})
