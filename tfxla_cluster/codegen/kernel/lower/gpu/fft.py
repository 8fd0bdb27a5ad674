"""fft on a GPU: a pass for each factor of each length (Stockham's form: every pass writes in order).

After passes whose factors multiply to L, element (j, k) of a line of n is frequency k of the L elements j, j + n/L,
j + 2n/L, ... A pass of factor r makes of it, for each f < L r,
sum over t < r of (element (j + t n/(L r), f mod L)) * exp(-2 pi i t f / (L r)).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .....errors import UnsupportedError
from .....ir.dim import Dim, make, product
from .....ir.dtype import DTYPES, DType
from .....ir.node import Instr
from .....target import Target
from ...builder import KernelBuilder
from ...ir import Buffer, Var
from ...unit import Unit, UnitKernel, UnitRef
from ..grid import Blocks
from ..linear_solve import conjugate
from ..space import delinearize
from .shapes import lanes

FACTORS = (8, 4, 2, 3, 5, 7)  # written out; others are loops
LARGEST = 8192  # a factor beyond makes the pass a product of that many terms an element
BLOCK = 256  # elements of a program
F64, C128 = DTYPES["f64"], DTYPES["c128"]


@dataclass(frozen=True, slots=True)
class _Pass:
    """One factor of lines [outer, n, inner]; `done` is the product of the factors before it.

    `source`: the lines are 'whole', 'real', or 'half' (the first n // 2 + 1, the rest their conjugates). `sink`: what
    is written of the result, likewise. `scale`: 1 but for the last pass of an inverse.
    """

    outer: Dim
    n: int
    inner: Dim
    factor: int
    done: int
    source: str
    sink: str
    inverse: bool
    scale: float

    @property
    def written(self) -> int:
        """Elements of a line that are written."""
        return self.n // 2 + 1 if self.sink == "half" else self.n


def lower(instr: Instr, target: Target) -> Unit:
    """Over the innermost dimensions, as many as there are lengths."""
    lengths = [n for n in instr.attrs["fft_length"] if isinstance(n, int)]
    if len(lengths) != len(instr.attrs["fft_length"]):
        raise UnsupportedError(f"fft of lengths that are not known has no GPU kernel ({instr.name})")
    if product(instr.shape.dims) == 0:
        return Unit(())
    passes = _passes(instr, lengths)
    complex_type = DTYPES[f"c{2 * _real(instr).bits}"]
    held = make(
        "mul", make("mul", product(instr.shape.dims[: -len(lengths)]), math.prod(lengths)), complex_type.itemsize
    )
    steps, at = [], UnitRef("operand", 0)
    for number, each in enumerate(passes):
        into = UnitRef("result", 0) if number == len(passes) - 1 else UnitRef("temp", number % 2)
        steps.append(_kernel(each, complex_type, (at, into)))
        at = into
    return Unit(tuple(steps), (held,) * min(2, len(passes) - 1))


def _real(instr: Instr) -> DType:
    dtype = instr.shape.element_type
    return dtype if dtype.is_float else DTYPES[f"f{dtype.bits // 2}"]


def _passes(instr: Instr, lengths: Sequence[int]) -> list[_Pass]:
    """A real result's last dimension comes last, a real operand's first: only half of it is there in between."""
    kind, outer = instr.attrs["fft_type"], product(instr.shape.dims[: -len(lengths)])
    there = list(lengths)
    order = list(range(len(lengths)))
    if kind == "RFFT":
        order.reverse()
    elif kind == "IRFFT":
        there[-1] = lengths[-1] // 2 + 1
    found: list[_Pass] = []
    for axis in order:
        n, last = lengths[axis], axis == len(lengths) - 1
        factors = factors_of(n, instr.name)
        before, inner = make("mul", outer, math.prod(there[:axis])), math.prod(there[axis + 1 :])
        done = 1
        for number, factor in enumerate(factors):
            ends = number == len(factors) - 1
            source = {"RFFT": "real", "IRFFT": "half"}.get(kind, "whole") if last and not number else "whole"
            sink = {"RFFT": "half", "IRFFT": "real"}.get(kind, "whole") if last and ends else "whole"
            scale = 1 / n if ends and kind in ("IFFT", "IRFFT") else 1.0
            found.append(_Pass(before, n, inner, factor, done, source, sink, kind in ("IFFT", "IRFFT"), scale))
            done *= factor
        if kind == "RFFT" and last:
            there[-1] = n // 2 + 1
    return found


def factors_of(n: int, name: str) -> list[int]:
    """Factors whose product is n, [1] for 1; UnsupportedError for a prime one that is too large."""
    found, rest = [], n
    for factor in FACTORS:
        while rest % factor == 0 and rest > 1:
            found.append(factor)
            rest //= factor
    factor = 11
    while rest > 1:
        factor = factor if factor * factor <= rest else rest
        while rest % factor == 0:
            found.append(factor)
            rest //= factor
        factor += 2
    if found and max(found) > LARGEST:
        raise UnsupportedError(
            f"fft of length {n}, which has the prime factor {max(found)}, has no GPU kernel ({name})"
        )
    return found or [1]


def _kernel(each: _Pass, dtype: DType, way: tuple[UnitRef, UnitRef]) -> UnitKernel:
    b = KernelBuilder("fft")
    part = DTYPES[f"f{dtype.bits // 2}"]
    source = b.input(part if each.source == "real" else dtype)
    result = b.output(part if each.sink == "real" else dtype)
    total = product((each.outer, each.written, each.inner))
    blocks = Blocks(total, lanes(total, BLOCK))
    with b.tile(*blocks.bounds(b, b.task), blocks.size) as number:
        outer, place, inner = delinearize(b, number, (each.outer, each.written, each.inner))
        value = _Sum(b, each, dtype, source, (outer, inner)).of(place)
        if each.scale != 1:
            value = b.op("multiply", value, b.const(complex(each.scale), dtype))
        b.store(result, number, value if each.sink != "real" else b.op("real", value, dtype=part))
    return UnitKernel(b.finish(blocks.count, blocks.size * 16 * each.factor), way[:1], way[1:])


class _Sum:
    """The terms of an element of a pass."""

    def __init__(self, b: KernelBuilder, each: _Pass, dtype: DType, source: Buffer, line: tuple[Var, Var]) -> None:
        self.b, self.each, self.dtype, self.source, self.line = b, each, dtype, source, line
        self.period = each.done * each.factor

    def of(self, place: Var) -> Var:
        b, each = self.b, self.each
        f, j = b.remainder(place, b.index(self.period)), b.quotient(place, b.index(self.period))
        low = b.remainder(f, b.index(each.done))

        def element(t: Var) -> Var:
            row = b.add(j, b.mul(b.index(each.n // self.period), t))
            return self._load(b.add(b.mul(row, b.index(each.done)), low))

        total = element(b.index(0))
        if each.factor in FACTORS:
            turn = power = self._turn(f)
            for t in range(1, each.factor):
                total = b.op("add", total, b.op("multiply", element(b.index(t)), self._narrow(power)))
                power = b.op("multiply", power, turn)
            return total

        def step(t: Var, total: Var) -> tuple[Var]:
            turn = self._turn(b.remainder(b.mul(t, f), b.index(self.period)))
            return (b.op("add", total, b.op("multiply", element(t), self._narrow(turn))),)

        return b.fold(b.index(1), b.index(each.factor), [total], step)[0]

    def _turn(self, number: Var) -> Var:
        """exp(-+ 2 pi i number / period), in double: f32 would lose digits of the angle."""
        b, sign = self.b, 1 if self.each.inverse else -1
        angle = b.op("multiply", b.op("convert", number, dtype=F64), b.const(sign * 2 * math.pi / self.period, F64))
        return b.op("complex", b.op("cosine", angle), b.op("sine", angle), dtype=C128)

    def _narrow(self, turn: Var) -> Var:
        return turn if self.dtype == C128 else self.b.op("convert", turn, dtype=self.dtype)

    def _load(self, at: Var) -> Var:
        b, each, (outer, inner) = self.b, self.each, self.line
        stored = each.n // 2 + 1 if each.source == "half" else each.n
        mirrored = b.compare(at, b.index(stored), "GE") if each.source == "half" else None
        if mirrored is not None:
            at = b.op("select", mirrored, b.op("subtract", b.index(each.n), at), at, dtype=at.dtype)
        offset = b.add(b.mul(b.add(b.mul(outer, b.index(stored)), at), b.size(each.inner)), inner)
        value = b.load(self.source, offset)
        if each.source == "real":
            return b.op("complex", value, b.const(0, value.dtype), dtype=self.dtype)
        if mirrored is None:
            return value
        return b.op("select", mirrored, conjugate(b, value), value, dtype=value.dtype)
