"""The prefix sums in TensorFlow's form of tf.where, as sums over windows.

The bridge counts the elements before each element by a tree: every fourth element from each of four places on, their
sum, the prefix sums of that, and from these those of the parts, laid into each other. How many levels it has follows
from the size, so that each power of 2 would have a module of its own, and it reads parts of what has a size that the
run produces. A window over all that came before says the same in one instruction:

    x = s32[n] pad(a)                    -->    s32[n] reduce-window(a), window={size=n pad=(n-1)_0}, to_apply=add
    s32[n] slice(tree(x)), slice={[0:n]}

Where a sum differs from the one before it, the element itself is counted: that is read as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import pairwise

from ..ir import attributes, proto
from ..ir.builder import scalar_computation
from ..ir.dim import Dim, capacity
from ..ir.dtype import DTYPES, PRED
from ..ir.literal import freeze
from ..ir.node import Computation, Instr, Module, WindowDim
from ..ir.rewrite import map_computations, rebuild
from ..ir.shape import array

_MARK = b"where_op_scatter_assn"  # what the bridge calls a computation of each tf.where
_PARTS = 4
_S32 = DTYPES["s32"]


def in_windows(module: bytes) -> bytes:
    """A serialised module with these trees replaced; the same bytes where there is none."""
    if _MARK not in module:
        return module
    read = proto.read(module)
    made = replaced(read)
    return module if made is read else proto.write(made)


def replaced(module: Module) -> Module:
    """As `in_windows`."""
    taken = {comp.name for comp in module.computations()}
    name = next(text for text in ("prefix_sum", *(f"prefix_sum.{n}" for n in range(len(taken)))) if text not in taken)
    return map_computations(module, partial(_in_computation, add=scalar_computation("add", _S32, name)))


def _in_computation(comp: Computation, add: Computation) -> Computation:
    sums = {instr: of for instr in comp.instrs if (of := _summed(instr)) is not None}
    if not sums:
        return comp
    made = {instr: _window(instr, of, add) for instr, of in sums.items()}
    made |= {instr: of for instr in comp.instrs if (of := _grown(instr, sums)) is not None}
    return rebuild(comp, made, drop_dead=True)


def _grown(instr: Instr, sums: Mapping[Instr, Instr]) -> Instr | None:
    """What is counted, of a comparison of its sums with those before."""
    of = sums.get(instr.operands[0]) if instr.opcode == "compare" and instr.attrs["direction"] == "NE" else None
    if of is None or of.opcode != "convert" or of.operands[0].shape.dtype != PRED:
        return None
    total, before = instr.operands
    moved = before.operands[0] if before.opcode == "slice" else None
    shifted = moved is not None and moved.opcode == "pad" and moved.operands[0] is total
    if not shifted or moved is None or _padding(moved) != ((1, 0, 0),) or _rows(before) != ((0, _length(of), 1),):
        return None
    return of.operands[0]


def _window(like: Instr, x: Instr, add: Computation) -> Instr:
    zero = _made(like, "constant", array(_S32).dims, (), literal=freeze(0, _S32))
    count = _length(x)
    window = (WindowDim(count, pad_low=count - 1),)
    return _made(like, "reduce-window", x.shape.dims, (x, zero), window=window, to_apply=add)


def _made(like: Instr, opcode: str, dims: tuple[Dim, ...], operands: tuple[Instr, ...], **attrs: object) -> Instr:
    full = attributes.complete(opcode, dict(attrs), "int")
    return Instr(like.name, opcode, array(_S32, dims), operands, full, like.sources, like.metadata)


def _summed(instr: Instr) -> Instr | None:
    """What an instruction is all prefix sums of, in the bridge's way."""
    if instr.metadata.op_type != "Where" or instr.opcode != "slice":
        return None
    padded = _tree(instr.operands[0])
    if padded is None or padded.opcode != "pad":
        return None
    x = padded.operands[0]
    count = _length(x)  # (where that is 1, the bridge takes a size of at most 1 for 1)
    whole = _rows(instr) == ((0, count, 1),) and _padding(padded) == ((0, _length(padded) - count, 0),)
    return x if whole and count > 0 else None


def _tree(instr: Instr) -> Instr | None:
    """What an instruction is the tree of."""
    count = _length(instr)
    if count == 1:
        return instr
    terms = _terms(instr, min(count, _PARTS))
    if terms is None:
        return None
    return _pair(*terms) if count == 2 else _quarters(terms)


def _pair(x: Instr, shifted: Instr) -> Instr | None:
    """x + (0, x[0])"""
    moved = shifted.operands[0] if shifted.opcode == "slice" else shifted
    first = moved.opcode == "pad" and moved.operands[0] is x and _padding(moved) == ((1, 0, 0),)
    return x if first and _rows(shifted) == ((0, 2, 1),) else None


def _quarters(terms: list[Instr]) -> Instr | None:
    """Of four rows laid into each other, each the prefix sums less what comes behind it in the sum of a group."""
    laid = (t.opcode == "pad" and _padding(t) == ((k, _PARTS - 1 - k, _PARTS - 1),) for k, t in enumerate(terms))
    if not all(laid):
        return None
    rows, parts = [t.operands[0] for t in terms], []
    for less, row in pairwise(rows):
        if less.opcode != "subtract" or less.operands[0] is not row:
            return None
        parts.append(less.operands[1])
    combined = _tree(rows[-1])
    found = None if combined is None else _terms(combined, _PARTS)
    if found is None or any(a is not b for a, b in zip(found[1:], parts)):
        return None
    x = found[0].operands[0] if found[0].opcode == "slice" else None
    apart = x is not None and all(
        part.opcode == "slice" and part.operands[0] is x and _rows(part) == ((k, _length(x), _PARTS),)
        for k, part in enumerate(found)
    )
    return x if apart else None


def _terms(instr: Instr, count: int) -> list[Instr] | None:
    """a + b + ... of `count` terms, added from the left."""
    found: list[Instr] = []
    for _ in range(count - 1):
        if instr.opcode != "add":
            return None
        found.append(instr.operands[1])
        instr = instr.operands[0]
    return [instr, *reversed(found)]


def _length(instr: Instr) -> int:
    """Of a vector; -1 of what is none."""
    found = capacity(instr.shape.dims[0]) if instr.shape.is_array and instr.shape.rank == 1 else -1
    return found if isinstance(found, int) else -1


def _rows(instr: Instr) -> object:
    return instr.attrs.get("slice")


def _padding(instr: Instr) -> object:
    """What a pad by zeros adds."""
    value = instr.operands[1].attrs.get("literal")
    return instr.attrs["padding"] if value is not None and not value.any() else None
