"""What a fusion of two levels of products computes: attention, or a part of its gradient.

A tile of `fixed` rows goes over `looped` rows, block by block. Of both, `inner` products make a block of scores;
elementwise work makes weights of them, in the forward direction with a softmax over the looped rows on the way; and
weights times an operand of looped rows, summed over them, are the `outer` products. No score leaves the kernel.

Forward: queries are fixed, keys looped. Gradient of the queries: the same. Gradients of keys and values: the reverse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import UnsupportedError
from ..ir.dim import Dim
from ..ir.node import Instr
from ..ir.opcode import is_elementwise
from .extent import same_all
from .index import Access, Digit, Index, Refiner, Seq, flatten, regroup
from .legality import MOVES_BEFORE
from .moves import sources
from .program import MAX_RESTARTS, digits
from .softmax import Softmax, softmax_of

SIDES = ("lhs", "rhs")
AFTER = ("transpose", "reshape", "bitcast", "convert", "copy")  # what may follow an outer product


@dataclass(frozen=True)
class Inner:
    """`access`: a dot at a score's index. Its operands at the index of a `fixed` and of a `looped` row, and `depth`."""

    access: Access
    fixed: Access
    looped: Access
    depth: Seq


@dataclass(frozen=True)
class Outer:
    """`output`: what leaves of a dot, at the index of a `fixed` row and `width`. `weight` and `operand`: what it
    multiplies and sums over the looped rows."""

    output: Access
    weight: Access
    operand: Access
    width: Seq


@dataclass(frozen=True)
class Form:
    """`batch`: digits of which each value makes tiles of its own. `probability` and `score`: the result of the softmax
    and what it is of, None where there is none. `statistics`: outputs that are a value a row: the maximum and sum of
    the softmax. `sides`: accesses from the elementwise work to values that depend on no inner product."""

    batch: Seq
    fixed: Seq
    looped: Seq
    inner: tuple[Inner, ...]
    outer: tuple[Outer, ...]
    softmax: Softmax | None
    probability: Access | None
    score: Access | None
    statistics: tuple[Access, ...]
    sides: tuple[Access, ...]

    @property
    def inner_accesses(self) -> list[Access]:
        return [i.access for i in self.inner]


def form_of(outputs: Sequence[Instr], inside: Sequence[Instr]) -> Form:
    """The form of a fusion of `inside`, in schedule order; UnsupportedError says why it has none."""
    return _Analysis(outputs, inside).run()


def dot_dims(dot: Instr, side: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Batch, free and summed dims of an operand of `dot`."""
    name = SIDES[side]
    batch, summed = dot.attrs[f"{name}_batch_dims"], dot.attrs[f"{name}_contracting_dims"]
    free = tuple(d for d in range(dot.operands[side].shape.rank) if d not in batch and d not in summed)
    return batch, free, summed


def operand_access(dot: Instr, side: int, index: Index, summed: Index) -> Access:
    """What element of an operand the element of `dot` at `index` multiplies at the index `summed` of the sum."""
    batch, free, contracted = dot_dims(dot, side)
    start = len(batch) + (len(dot_dims(dot, 0)[1]) if side else 0)
    found: list[Seq] = [()] * dot.operands[side].shape.rank
    for dims, seqs in ((batch, index), (free, index[start:]), (contracted, summed)):
        for d, seq in zip(dims, seqs):
            found[d] = seq
    return Access(dot.operands[side], tuple(found))


def dependents(instrs: Sequence[Instr], first: set[Instr]) -> set[Instr]:
    """Those of `instrs`, operands first, that depend on one of `first`, and these."""
    found = set(first)
    for instr in instrs:
        if any(o in found for o in instr.operands):
            found.add(instr)
    return found


def chain_after(output: Instr) -> tuple[Instr, list[Instr]]:
    """What `output` is when the moves and conversions before it are undone, and these, the last first."""
    chain: list[Instr] = []
    while output.opcode in AFTER:
        chain.append(output)
        output = output.operands[0]
    return output, chain


class _Analysis(Refiner):
    """Walks until no digit needs splitting any more."""

    def __init__(self, outputs: Sequence[Instr], inside: Sequence[Instr]) -> None:
        super().__init__()
        self.instrs, self.inside = inside, set(inside)
        found = [softmax_of(i) for i in inside if i.opcode == "divide"]
        softmaxes = [s for s in found if s is not None and {s.top, s.total} <= self.inside]
        if len(softmaxes) > 1:
            raise UnsupportedError("two softmaxes in one kernel")
        self.softmax = softmaxes[0] if softmaxes else None
        rows = (self.softmax.top, self.softmax.total) if self.softmax else ()
        self.statistics = [o for o in outputs if o in rows]
        self.chains = [chain_after(o) for o in outputs if o not in rows]
        outer = [dot for dot, _ in self.chains]
        if not outer or any(dot.opcode != "dot" or dot not in self.inside for dot in outer):
            raise UnsupportedError("an output is not a product")
        scores = {i for i in inside if i.opcode == "dot" and i not in outer}
        self.weighted = dependents(inside, scores)
        self.base: dict[object, Index] = {}
        self.inner: dict[Instr, Access] = {}
        self.probability: Access | None = None
        self.sides: dict[Access, None] = {}

    def run(self) -> Form:
        for _ in range(MAX_RESTARTS):
            self.changed = False
            self.inner, self.sides, self.probability = {}, {}, None
            form = self._form()
            if not self.changed:
                return form
        raise UnsupportedError("reshapes split the loops too often")

    def _fresh(self, key: object, dims: tuple[Dim, ...], hint: str) -> Index:
        """Digits that stay the same when the walk starts over, but for those that were split."""
        if key not in self.base:
            self.base[key] = digits(dims, hint)
        return tuple(self.expand(seq) for seq in self.base[key])

    def _form(self) -> Form:
        outer = [self._outer(dot, chain) for dot, chain in self.chains]
        for product in outer:
            self._walk(product.weight)
        batch, fixed, looped = self._dims()
        inner = tuple(self._inner(dot, access, set(fixed), set(looped)) for dot, access in self.inner.items())
        if not inner:
            raise UnsupportedError("no product makes the weights")
        batch += tuple(d for d in fixed if any(d in flatten(i.looped.index) for i in inner))
        fixed = tuple(d for d in fixed if d not in batch)
        score = statistics = None
        if self.softmax is not None:
            score, statistics = self._softmax(self.softmax, looped)
        return Form(
            batch,
            fixed,
            looped,
            inner,
            tuple(outer),
            self.softmax,
            self.probability,
            score,
            statistics or (),
            tuple(self.sides),
        )

    # --- outer products ---
    def _weight_side(self, dot: Instr) -> int:
        sides = [n for n in (0, 1) if dot.operands[n] in self.weighted]
        if len(sides) != 1:
            raise UnsupportedError(f"{dot.name} has no operand of weights and one of values")
        return sides[0]

    def _dims(self) -> tuple[Seq, Seq, Seq]:
        """Batch, fixed and looped digits, by the first outer product."""
        dot, _ = self.chains[0]
        batch, fixed, looped = self._parts(dot)
        return flatten(batch), flatten(fixed), flatten(looped)

    def _parts(self, dot: Instr) -> tuple[Index, Index, Index]:
        """The index of the batch, fixed and looped dims: all outer products share them."""
        first, _ = self.chains[0]
        operand = dot.operands[self._weight_side(dot)]
        dims = dot_dims(dot, self._weight_side(dot))
        ours = tuple(tuple(operand.shape.dims[d] for d in part) for part in dims)
        parts = []
        for name, extents in zip(("batch", "fixed", "looped"), ours):
            found = self._fresh(name, extents, name[0])
            if dot is not first and not same_all(extents, self._extents(first, name)):
                raise UnsupportedError(f"{dot.name} sums over other dims than {first.name}")
            parts.append(found)
        return parts[0], parts[1], parts[2]

    def _extents(self, dot: Instr, name: str) -> tuple[Dim, ...]:
        side = self._weight_side(dot)
        dims = dot_dims(dot, side)[("batch", "fixed", "looped").index(name)]
        return tuple(dot.operands[side].shape.dims[d] for d in dims)

    def _outer(self, dot: Instr, chain: Sequence[Instr]) -> Outer:
        side = self._weight_side(dot)
        batch, fixed, looped = self._parts(dot)
        free = dot_dims(dot, 1 - side)[1]
        extents = tuple(dot.operands[1 - side].shape.dims[d] for d in free)
        width = self._fresh(("width", dot), extents, "w")
        index = batch + (fixed + width if side == 0 else width + fixed)
        weight, operand = (operand_access(dot, s, index, looped) for s in (side, 1 - side))
        if operand.instr in self.weighted:
            raise UnsupportedError(f"{operand.instr.name} depends on the scores")
        output = Access(dot, index)
        for move in reversed(chain):
            output = Access(move, self._after(move, output.index))
        return Outer(output, weight, operand, flatten(width))

    def _after(self, move: Instr, index: Index) -> Index:
        """The index of an element of what a move gives, from its index in the operand."""
        if move.opcode == "transpose":
            return tuple(index[d] for d in move.attrs["dimensions"])
        if move.opcode in ("reshape", "bitcast"):
            return regroup(flatten(index), move.shape.dims, self)
        return index

    # --- from the weights to the inner products ---
    def _walk(self, weight: Access) -> None:
        todo, seen = [weight], {weight}
        while todo:
            for source in self._step(todo.pop()):
                if source not in seen:
                    seen.add(source)
                    todo.append(source)

    def _step(self, access: Access) -> tuple[Access, ...]:
        instr = access.instr
        if instr not in self.weighted:
            self.sides[access] = None
            return ()
        if instr.opcode == "dot":
            if self.inner.setdefault(instr, access) != access:
                raise UnsupportedError(f"{instr.name} is used at several indices")
            return ()
        if self.softmax is not None and instr is self.softmax.quotient:
            if self.probability not in (None, access):
                raise UnsupportedError(f"{instr.name} is used at several indices")
            self.probability = access
            return (Access(self.softmax.scores, access.index),)
        if not is_elementwise(instr.opcode) and instr.opcode not in MOVES_BEFORE:
            raise UnsupportedError(f"{instr.name} ({instr.opcode}) is not elementwise")
        return sources(access, self)

    def _softmax(self, softmax: Softmax, looped: Seq) -> tuple[Access, tuple[Access, ...]]:
        if self.probability is None or len(self.chains) > 1:
            raise UnsupportedError("the softmax does not make the weights of one product")
        index = self.probability.index
        if index[softmax.axis] != looped:
            raise UnsupportedError("the softmax does not run over what the product sums")
        _check_proportional(self.probability.instr, self.instrs)
        row = index[: softmax.axis] + index[softmax.axis + 1 :]
        return Access(softmax.scores, index), tuple(Access(s, row) for s in self.statistics)

    def _inner(self, dot: Instr, access: Access, fixed: set[object], looped: set[object]) -> Inner:
        if any(not isinstance(atom, Digit) for atom in flatten(access.index)) and not self.changed:
            raise UnsupportedError(f"{dot.name} is used at a computed index")
        extents = tuple(dot.operands[0].shape.dims[d] for d in dot_dims(dot, 0)[2])
        depth = self._fresh(("depth", dot), extents, "d")
        both = [operand_access(dot, side, access.index, depth) for side in (0, 1)]
        batch = set(flatten(access.index[: len(dot_dims(dot, 0)[0])]))
        free = [set(flatten(a.index)) - batch - set(flatten(depth)) for a in both]
        if batch & looped:
            raise UnsupportedError(f"the batch of {dot.name} is what the product sums")
        for one, other in ((0, 1), (1, 0)):
            if not free[one] & looped and not free[other] & fixed:
                return Inner(access, both[one], both[other], flatten(depth))
        raise UnsupportedError(f"an operand of {dot.name} depends on fixed and on looped rows")


def _check_proportional(quotient: Instr, inside: Sequence[Instr]) -> None:
    """Weights must be multiples of the probabilities: then the sum of a row divides the result instead of each."""
    after = dependents([i for i in inside if i.opcode != "dot"], {quotient})
    for instr in after - {quotient}:
        if not _is_multiple(instr, after):
            raise UnsupportedError(f"{instr.name} ({instr.opcode}) is no multiple of the probabilities")


def _is_multiple(instr: Instr, after: set[Instr]) -> bool:
    from_softmax = [o in after for o in instr.operands]
    if instr.opcode in (*MOVES_BEFORE, "copy", "negate"):
        return True
    if instr.opcode == "convert":
        return instr.shape.element_type.is_float
    if instr.opcode == "multiply":
        return sum(from_softmax) == 1
    if instr.opcode == "divide":
        return from_softmax == [True, False]
    if instr.opcode == "select" and not from_softmax[0]:
        return all(is_multiple or _is_zero(o) for is_multiple, o in zip(from_softmax[1:], instr.operands[1:]))
    return False


def _is_zero(value: Instr) -> bool:
    while value.opcode in ("broadcast", "convert", "reshape"):
        value = value.operands[0]
    return value.opcode == "constant" and value.shape.rank == 0 and float(value.attrs["literal"]) == 0.0
