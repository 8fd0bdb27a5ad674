"""topk: the k largest (or smallest) of each line and their positions, equal ones in order.

One walk over the line keeps the best so far in order; most elements are compared with the last of them only.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....errors import UnsupportedError
from ....ir import dim as dims_
from ....ir.dtype import PRED, S32, S64
from ....ir.node import Instr
from ....target import Target
from ..builder import KernelBuilder
from ..ir import Buffer, Var
from ..unit import Unit, UnitKernel, UnitRef
from .total_order import ordered, signed_key

MAX_K = 1024  # entries kept in scratch


def lower(instr: Instr, target: Target) -> Unit:
    """Results: values, and s32 positions, of shape [..., k]. A task is a line."""
    source, k = instr.operands[0].shape, int(instr.attrs["k"])
    if not ordered(source.element_type) or k > MAX_K:
        raise UnsupportedError(f"topk of {k} of {source} ({instr.name})")
    if k == 0:
        return Unit(())
    b = KernelBuilder("topk")
    values = b.input(source.element_type)
    best, positions = b.output(source.element_type), b.output(S32)
    length = source.dims[-1]
    base = b.mul(b.task, b.size(length))
    first = b.mul(b.task, b.index(k))
    _Walk(b, k, bool(instr.attrs["largest"]), values, base, positions, first).run(b.size(length))
    with b.loop(b.index(0), b.index(k)) as j:
        place = b.add(first, j)
        at = b.op("convert", b.load(positions, place), dtype=S64)
        b.store(best, place, b.load(values, b.add(base, at)))
    kernel = b.finish(dims_.product(source.dims[:-1]), dims_.make("mul", length, 4))
    return Unit((UnitKernel(kernel, (UnitRef("operand", 0),), (UnitRef("result", 0), UnitRef("result", 1))),))


class _Walk:
    """The walk over one line: keys of the best stand in scratch, their positions in the result."""

    def __init__(
        self, b: KernelBuilder, k: int, largest: bool, values: Buffer, base: Var, positions: Buffer, first: Var
    ) -> None:
        self.b, self.k, self.values, self.base = b, k, values, base
        self.positions, self.first = positions, first
        self.better = "GT" if largest else "LT"
        self.dtype = signed_key(b, b.const(0, values.dtype)).dtype
        self.keys = b.scratch_buffer(self.dtype, k)

    def run(self, length: Var) -> None:
        b = self.b

        def step(i: Var, last: Var) -> Sequence[Var]:
            key = signed_key(b, b.load(self.values, b.add(self.base, i)))
            room = b.compare(i, b.index(self.k), "LT")
            enters = b.op("or", room, b.compare(key, last, self.better), dtype=PRED)
            return b.cond(enters, lambda: self._insert(i, key), lambda: (last,))

        b.fold(b.index(0), length, (b.const(0, self.dtype),), step)

    def _insert(self, i: Var, key: Var) -> Sequence[Var]:
        """Moves those that are worse one place on; the new last key (read only once there are k)."""
        b = self.b
        one = b.index(1)

        def worse(j: Var) -> Var:
            inside = b.compare(j, b.index(0), "GT")
            left = b.load(self.keys, b.op("maximum", b.op("subtract", j, one), b.index(0)))
            return b.op("and", inside, b.compare(key, left, self.better), dtype=PRED)

        def shift(j: Var) -> Sequence[Var]:
            left = b.op("subtract", j, one)
            b.store(self.keys, j, b.load(self.keys, left))
            b.store(self.positions, b.add(self.first, j), b.load(self.positions, b.add(self.first, left)))
            return (left,)

        end = b.op("minimum", i, b.index(self.k - 1))
        (place,) = b.while_loop((end,), worse, shift)
        b.store(self.keys, place, key)
        b.store(self.positions, b.add(self.first, place), b.op("convert", i, dtype=S32))
        return (b.load(self.keys, b.index(self.k - 1)),)
