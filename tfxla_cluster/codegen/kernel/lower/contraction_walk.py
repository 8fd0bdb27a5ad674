"""Walks over blocks of a flat index of several dims, in vector loops over the innermost dim."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ....ir.dim import Dim, make
from ....ir.dtype import DType
from ..builder import KernelBuilder
from ..contraction import Index, Side
from ..contraction_ports import Ports
from ..ir import Var
from .space import delinearize


@dataclass(frozen=True, slots=True)
class Span:
    """The flat indices [start, stop) of a space of `dims`."""

    dims: Sequence[Dim]
    start: Var
    stop: Var


def minimum(b: KernelBuilder, a: Var, c: Var) -> Var:
    return a if a is c else b.op("minimum", a, c)


def maximum(b: KernelBuilder, a: Var, c: Var) -> Var:
    return a if a is c else b.op("maximum", a, c)


def subtract(b: KernelBuilder, a: Var, c: Var) -> Var:
    return a if c is b.index(0) else b.op("subtract", a, c)


def either(b: KernelBuilder, flag: Dim, then: Callable[[], None], orelse: Callable[[], None]) -> None:
    """What is done where `flag` is 1, and where it is 0."""
    if isinstance(flag, int):
        (then if flag else orelse)()
        return

    def branch(fill_in: Callable[[], None]) -> Callable[[], tuple[Var, ...]]:
        def run() -> tuple[Var, ...]:
            fill_in()
            return ()

        return run

    b.cond(b.compare(b.size(flag), b.index(0), "NE"), branch(then), branch(orelse))


def segments(b: KernelBuilder, span: Span, body: Callable[[Index, Var, Var, Var], None]) -> None:
    """Cut a span where the innermost dim wraps.

    `body(outer, low, high, base)`: the indices outer + (t,) for low <= t < high stand at positions
    base + t, counted from the span's start.
    """
    outer_dims, zero = tuple(span.dims[:-1]), b.index(0)
    if all(d == 1 for d in outer_dims):
        body((zero,) * len(outer_dims), span.start, span.stop, subtract(b, zero, span.start))
        return
    extent = b.size(span.dims[-1])
    first = b.quotient(span.start, extent)
    last = b.quotient(b.add(span.stop, b.size(make("add", span.dims[-1], -1))), extent)
    with b.loop(first, last) as s:
        begin = b.mul(s, extent)
        low = maximum(b, subtract(b, span.start, begin), zero)
        high = minimum(b, b.op("subtract", span.stop, begin), extent)
        body(tuple(delinearize(b, s, outer_dims)), low, high, subtract(b, begin, span.start))


def fill(
    p: Ports, side: Side, dtype: DType, g: Index, free: Span, depth: Span, put: Callable[[Var, Var, Var], None]
) -> None:
    """Evaluate a block of an operand: `put(i, k, value)` for free position i and depth position k.

    The vector loop runs over the innermost dim of the side's major index.
    """
    b = p.b
    outer_span, inner_span = (free, depth) if side.major == "depth" else (depth, free)

    def both(outer: Any, inner: Any) -> tuple[Any, Any]:
        return (outer, inner) if side.major == "depth" else (inner, outer)

    def line(outer: Index, o: Var) -> None:
        def segment(prefix: Index, low: Var, high: Var, base: Var) -> None:
            if side.valid is None:
                element(prefix, low, high, base)
                return
            begin, end = side.valid(p, g, *both(outer, (*prefix, low)))
            whole = b.op("and", b.compare(begin, low, "LE"), b.compare(end, high, "GE"))
            b.cond(
                whole, lambda: element(prefix, low, high, base), lambda: partly(prefix, (low, high), (begin, end), base)
            )

        def partly(prefix: Index, span: tuple[Var, Var], elements: tuple[Var, Var], base: Var) -> tuple[Var, ...]:
            (low, high), (begin, end) = span, elements
            begin = minimum(b, maximum(b, begin, low), high)
            end = maximum(b, minimum(b, end, high), begin)
            zeros(low, begin, base)
            element(prefix, begin, end, base)
            return zeros(end, high, base)

        def element(prefix: Index, low: Var, high: Var, base: Var) -> tuple[Var, ...]:
            with b.loop(low, high, "vector") as t:
                put(*both(o, b.add(base, t)), side.value(p, g, *both(outer, (*prefix, t))))
            return ()

        def zeros(low: Var, high: Var, base: Var) -> tuple[Var, ...]:
            with b.loop(low, high, "vector") as t:
                put(*both(o, b.add(base, t)), b.const(0, dtype))
            return ()

        segments(b, inner_span, segment)

    def lines(prefix: Index, low: Var, high: Var, base: Var) -> None:
        with b.loop(low, high) as t:
            line((*prefix, t), b.add(base, t))

    segments(b, outer_span, lines)
