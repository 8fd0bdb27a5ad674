"""What an attention kernel computes of its inputs itself instead of reading it: moves, and cheap work on masks."""

from __future__ import annotations

from ..ir.node import Instr
from ..ir.opcode import is_elementwise
from .attention_form import Form
from .cost import costly
from .index import Access, Atom, Computed, Digit, Seq, Splitter, digits_of, flatten
from .moves import sources

_MOVES = ("broadcast", "reshape", "bitcast", "transpose", "iota", "slice")
_WORK = 8  # elementwise operations on a mask, at most


def operand_moves(operand: Access, rows: Seq) -> set[Instr]:
    """The moves before an operand that cost nothing where its elements are read: neighbours in memory stay
    neighbours in a block, whose digits are `rows`."""
    moves: list[Instr] = []
    taken = 0
    while operand.instr.opcode in _MOVES and operand.instr.opcode != "iota" and not operand.instr.control:
        moves.append(operand.instr)
        (operand,) = sources(operand, Splitter())
        if any(_divides(a, rows) for a in flatten(operand.index)):
            break
        if _minor(operand) in rows:
            taken = len(moves)
    return set(moves[:taken])


def _divides(atom: Atom, rows: Seq) -> bool:
    """Whether a number is more than a multiple of the rows' digits: of others it is one for the whole block, as the
    head of keys that several heads of queries share."""
    return isinstance(atom, Computed) and atom.kind != "affine" and bool(digits_of((atom,)) & set(rows))


def _minor(access: Access) -> Digit | None:
    """The digit along which neighbours lie side by side in memory."""
    for seq, dim in zip(reversed(access.index), reversed(access.instr.shape.dims)):
        if dim != 1:
            last = seq[-1] if seq else None
            if isinstance(last, Computed) and last.kind == "affine" and last.scale == 1 and last.seq:
                last = last.seq[-1]
            return last if isinstance(last, Digit) else None
    return None


def side_members(side: Access, form: Form) -> set[Instr]:
    """What a kernel computes of a mask, a bias or the like: all of it where that is cheap, else moves and widening
    conversions alone."""
    members, leaves, work = _tree(side, True)
    every = any(_varies(leaf, form.fixed) and _varies(leaf, form.looped) for leaf in leaves)
    if work > _WORK or (work and every):
        members, _, _ = _tree(side, False)
    return members


def _varies(access: Access, rows: Seq) -> bool:
    return bool(digits_of(flatten(access.index)) & set(rows))


def _tree(side: Access, work: bool) -> tuple[set[Instr], list[Access], int]:
    """The instructions that are computed, what they read, and how many of them are work."""
    members: set[Instr] = set()
    leaves: list[Access] = []
    count, todo, seen = 0, [side], {side}
    while todo:
        access = todo.pop()
        instr = access.instr
        if not _inlined(instr, work):
            leaves.append(access)
            continue
        count += instr not in members and is_elementwise(instr.opcode) and not _widens(instr)
        members.add(instr)
        fresh = [s for s in sources(access, Splitter()) if s not in seen]
        seen.update(fresh)
        todo.extend(fresh)
    return members, leaves, count


def _inlined(instr: Instr, work: bool) -> bool:
    if instr.control or not instr.shape.is_array:
        return False
    if instr.opcode == "constant":
        return instr.shape.rank == 0
    if instr.opcode in _MOVES or _widens(instr):
        return True
    return work and is_elementwise(instr.opcode) and not costly(instr) and not instr.called


def _widens(instr: Instr) -> bool:
    """A conversion to a wider type, or to another of the same width."""
    if instr.opcode != "convert":
        return False
    return instr.operands[0].shape.element_type.itemsize <= instr.shape.element_type.itemsize
