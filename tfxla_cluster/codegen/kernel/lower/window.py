"""Windows: the positions a window covers, as index arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod

from ....ir import dim as dims_
from ....ir.dim import Dim
from ....ir.node import WindowDim
from ....ir.windows import is_trivial
from ..builder import KernelBuilder
from ..ir import Var
from .space import all_of, inside

UNROLL_LIMIT = 32  # Window positions written out; a larger window becomes a loop.


def position_count(window: Sequence[WindowDim]) -> Dim:
    """The number of positions that a window covers."""
    return dims_.product(dim.size for dim in window)


def has_tests(dim: WindowDim) -> bool:
    """Some positions of the window may have no element: they lie in padding, or in holes of a dilated base."""
    return dim.base_dilation > 1 or any(not isinstance(pad, int) or pad > 0 for pad in (dim.pad_low, dim.pad_high))


def coordinate(b: KernelBuilder, dim: WindowDim, extent: Dim, out: Var, tap: Var) -> tuple[Var, Var | None]:
    """Input coordinate of window position `tap` for output coordinate `out`, and the test that it
    exists (None where it always does). XLA, Window in xla_data.proto."""
    if is_trivial(dim):
        return out, None
    at = b.add(b.mul(out, b.index(dim.stride)), b.mul(tap, b.index(dim.window_dilation)))
    at = b.add(at, b.number(dims_.make("mul", dim.pad_low, -1)))
    tests: list[Var | None] = []
    if dim.base_dilation > 1:
        step = b.index(dim.base_dilation)
        # Floor division of non-negative numbers only: the lower bound is tested beside it.
        safe = b.op("maximum", at, b.index(0))
        tests.append(b.compare(at, b.index(0), "GE"))
        tests.append(b.compare(b.remainder(safe, step), b.index(0), "EQ"))
        at = b.quotient(safe, step)
        tests.append(b.compare(at, b.size(extent), "LT"))
    elif has_tests(dim):
        tests.append(inside(b, at, extent))
    return at, all_of(b, tests)


def for_each_position(
    b: KernelBuilder, window: Sequence[WindowDim], init: Sequence[Var], step: Callable[..., Sequence[Var]]
) -> tuple[Var, ...]:
    """`carried = step(taps, *carried)` for every window position in row-major order.

    `taps`: one Var a window dimension. Small windows are written out; larger ones, and those of a size, loop.
    """
    sizes = [dim.size for dim in window if isinstance(dim.size, int)]
    if len(sizes) == len(window) and prod(sizes) <= UNROLL_LIMIT:
        carried = tuple(init)
        for taps in product(*map(range, sizes)):
            carried = tuple(step([b.index(t) for t in taps], *carried))
        return carried

    def nest(depth: int, taps: list[Var], carried: Sequence[Var]) -> tuple[Var, ...]:
        if depth == len(window):
            return tuple(step(taps, *carried))
        if window[depth].size == 1:
            return nest(depth + 1, [*taps, b.index(0)], carried)
        return b.fold(
            b.index(0), b.number(window[depth].size), carried, lambda tap, *inner: nest(depth + 1, [*taps, tap], inner)
        )

    return nest(0, [], init)
