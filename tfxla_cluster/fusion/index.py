"""Index maps: which element of each operand an element of a result needs.

An index into an array is one `Seq` a dimension: a mixed-radix number whose digits are loop
variables (`Digit`) or computed numbers (`Computed`). Moves of elements only rearrange digits
(transpose, broadcast, most reshapes) or wrap them (slice, pad, gather), so that neither planning
nor generated code needs a division unless a reshape truly mixes dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Union

from ..ir.dim import Dim, make, product
from ..ir.node import Instr
from ..ir.polynomial import same
from .extent import divide


@dataclass(frozen=True, slots=True, eq=False)
class Digit:
    """A loop variable: 0 <= digit < extent."""

    extent: Dim
    hint: str = ""

    def __repr__(self) -> str:
        return f"{self.hint or 'd'}{id(self) % 997}:{self.extent}"


@dataclass(frozen=True, slots=True)
class Computed:
    """A number 0 <= n < extent (where its access is not masked) computed from `seq`'s value v.

    kind 'affine': v * scale + offset. kind 'dynamic': scale * v + sign * clamp(start, 0, limit), the
    start a scalar integer element. kinds 'quotient' and 'remainder': v by `offset`.
    """

    kind: str
    seq: Seq
    extent: Dim
    scale: int = 1
    offset: Dim = 0
    start: Access | None = None
    limit: Dim = 0
    sign: int = 1


Atom = Union[Digit, Computed]
Seq = tuple[Atom, ...]
Index = tuple[Seq, ...]


@dataclass(frozen=True, slots=True)
class Cond:
    """low <= v < high (None: no bound) and (v - low) divisible by `step`, v the value of `seq`."""

    seq: Seq
    low: Dim | None
    high: Dim | None
    step: int = 1


Mask = tuple[Cond, ...]


class Access(NamedTuple):
    """The element of `instr` at `index`, wanted where all of `mask` holds."""

    instr: Instr
    index: Index  # type: ignore[assignment]  # hides tuple.index, which nobody calls here
    mask: Mask = ()


class Splitter:
    """What happens when a reshape needs part of a digit; this one computes the parts by division."""

    def split(self, atom: Atom, high: Dim, low: Dim) -> tuple[Atom, Atom]:
        """Atoms (q, r) with atom = q * low + r and extents (high, low)."""
        return (Computed("quotient", (atom,), high, offset=low), Computed("remainder", (atom,), low, offset=low))


class Refiner(Splitter):
    """Splits digits into new ones, for a caller that starts over with `expand`ed indices while `changed`."""

    def __init__(self) -> None:
        self.parts: dict[Digit, tuple[Digit, Digit]] = {}
        self.changed = False

    def split(self, atom: Atom, high: Dim, low: Dim) -> tuple[Atom, Atom]:
        """As by division now, and noted: the caller starts over with two digits in place of `atom`."""
        if not isinstance(atom, Digit):
            return super().split(atom, high, low)
        if atom not in self.parts:
            self.parts[atom] = Digit(high, atom.hint), Digit(low, atom.hint)
        self.changed = True
        return super().split(atom, high, low)

    def expand(self, seq: Seq) -> Seq:
        """`seq` with each digit that was split replaced by its parts."""
        found: list[Atom] = []
        for atom in seq:
            parts = self.parts.get(atom) if isinstance(atom, Digit) else None
            found.extend(self.expand(parts) if parts else (atom,))
        return tuple(found)


def affine(seq: Seq, scale: int, offset: Dim, extent: Dim) -> Seq:
    """The index v * scale + offset into a dimension of `extent`, v the value of `seq`."""
    if extent == 1:
        return ()
    if seq and scale == 1 and offset == 0 and same(_extent(seq), extent):
        return seq
    if len(seq) == 1 and isinstance(seq[0], Computed) and seq[0].kind == "affine":
        inner = seq[0]
        offset = make("add", make("mul", inner.offset, scale), offset)
        return affine(inner.seq, inner.scale * scale, offset, extent)
    return (Computed("affine", seq, extent, scale, offset),)


def _extent(seq: Seq) -> Dim:
    return product(atom.extent for atom in seq)


def flatten(index: Index) -> Seq:
    """The digits of all dimensions, major first: the row-major element number."""
    return tuple(atom for seq in index for atom in seq)


def digits_of(seq: Seq) -> set[Atom]:
    """The loop variables that a number is computed of."""
    found: set[Atom] = set()
    todo = list(seq)
    while todo:
        atom = todo.pop()
        if isinstance(atom, Computed):
            todo.extend(atom.seq)
        else:
            found.add(atom)
    return found


def regroup(seq: Seq, dims: tuple[Dim, ...], splitter: Splitter) -> Index:
    """The index into `dims` of the element whose row-major number is the value of `seq`."""
    found = _partition(seq, dims, splitter)
    if found is not None:
        return found
    result: list[Seq] = []
    for axis, dim in enumerate(dims):
        inner, part = product(dims[axis + 1 :]), seq
        if dim != 1 and any(d != 1 for d in dims[:axis]):
            part = (Computed("remainder", seq, make("mul", dim, inner), offset=make("mul", dim, inner)),)
        if dim != 1 and inner != 1:
            part = (Computed("quotient", part, dim, offset=inner),)
        result.append(() if dim == 1 else part)
    return tuple(result)


def _partition(seq: Seq, dims: tuple[Dim, ...], splitter: Splitter) -> Index | None:
    """Deal digits out to dims from the minor end, splitting one where a boundary falls inside it."""
    rest = list(seq)
    result: list[Seq] = []
    for dim in reversed(dims):
        need, taken = dim, []
        while need != 1:
            if not rest:
                return None
            atom = rest.pop()
            quotient = divide(need, atom.extent)
            if quotient is None:
                high = divide(atom.extent, need)
                if high is None:
                    return None
                major, atom = splitter.split(atom, high, need)
                rest.append(major)
                quotient = 1
            taken.append(atom)
            need = quotient
        result.append(tuple(reversed(taken)))
    return None if rest else tuple(reversed(result))
