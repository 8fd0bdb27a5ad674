"""Which looped rows a mask hides from a whole block of fixed rows: a causal mask, or any other by a diagonal."""

from __future__ import annotations

from dataclasses import dataclass

from .....fusion.attention_form import Form
from .....fusion.index import Access, Atom, Digit, Splitter, digits_of, flatten
from .....fusion.moves import sources
from .....fusion.softmax import wide
from .....ir.node import Instr
from .....ir.opcode import is_elementwise

_MOVES = ("broadcast", "reshape", "bitcast", "transpose")
_SWAPPED = {"GE": "LE", "GT": "LT", "LE": "GE", "LT": "GT"}


@dataclass(frozen=True)
class Diagonal:
    """Only looped rows up to fixed row + `number` are seen; or, not `after`, from fixed row - `number` on. The scores
    of all others are `far`, and maybe of some of these: other masks may hide them. `test`: the comparison that is
    `says` for rows that are seen."""

    number: int
    after: bool
    far: float
    test: Access
    says: bool


def diagonal_of(form: Form) -> Diagonal | None:
    """The mask of the scores, where they are selected by it last of all; None where there is none."""
    score = _score(form)
    if score is None or len(form.fixed) != 1 or len(form.looped) != 1 or _reads_pairs(form):
        return None
    while wide(score.instr) is not score.instr:
        (score,) = sources(score, Splitter())
    if score.instr.opcode != "select":
        return None
    test, *branches = sources(score, Splitter())
    numbers = [_number(b.instr) for b in branches]
    if (numbers[0] is None) == (numbers[1] is None):
        return None
    says = numbers[1] is not None
    far = numbers[1] if says else numbers[0]
    assert far is not None
    for part in _parts(test, "and" if says else "or"):
        seen = _seen(part)
        if seen is not None:
            high, low, number = seen if says else (seen[1], seen[0], -seen[2] - 1)
            if {high, low} == {form.fixed[0], form.looped[0]}:
                return Diagonal(number, high == form.fixed[0], far, part, says)
    return None


def _parts(test: Access, opcode: str) -> list[Access]:
    """The predicates that `test` joins by `opcode`: one of them is enough for a score to be hidden."""
    test = root(test)
    if test.instr.opcode != opcode:
        return [test]
    return [part for source in sources(test, Splitter()) for part in _parts(source, opcode)]


def root(test: Access) -> Access:
    """What is moved to be `test`."""
    while test.instr.opcode in _MOVES:
        (test,) = sources(test, Splitter())
    return test


def _score(form: Form) -> Access | None:
    """What the softmax is of, or in a gradient what the exponential is of, the maximum of the row added again."""
    if form.score is not None:
        return form.score
    todo = [o.weight for o in form.outer]
    seen = set(todo)
    inner = {i.access for i in form.inner}
    while todo:
        access = todo.pop()
        instr = access.instr
        if instr.opcode == "exponential":
            shifted = sources(access, Splitter())[0]
            while wide(shifted.instr) is not shifted.instr:
                (shifted,) = sources(shifted, Splitter())
            return sources(shifted, Splitter())[0] if shifted.instr.opcode == "subtract" else None
        if access not in inner and is_elementwise(instr.opcode):
            fresh = [s for s in sources(access, Splitter()) if s not in seen]
            seen.update(fresh)
            todo.extend(fresh)
    return None


def _seen(test: Access) -> tuple[Atom, Atom, int] | None:
    """(a, b, n) where the predicate says a + n >= b; None where it is no such comparison."""
    if test.instr.opcode != "compare":
        return None
    left, right = (_affine(s) for s in sources(test, Splitter()))
    direction = test.instr.attrs["direction"]
    if left is None or right is None or direction not in _SWAPPED:
        return None
    if direction in ("LE", "LT"):
        left, right, direction = right, left, _SWAPPED[direction]
    return left[0], right[0], left[1] - right[1] - (direction == "GT")


def _affine(access: Access) -> tuple[Atom, int] | None:
    """(d, n) of a value d + n, d a digit."""
    offset = 0
    while access.instr.opcode != "iota":
        instr = access.instr
        parts = sources(access, Splitter())
        if instr.opcode in _MOVES or (instr.opcode == "convert" and instr.shape.element_type.is_integer):
            access = parts[0]
            continue
        numbers = [_number(p.instr) for p in parts]
        if instr.opcode != "add" or (numbers[0] is None) == (numbers[1] is None):
            return None
        offset += int(numbers[0] or numbers[1] or 0)
        access = parts[0 if numbers[0] is None else 1]
    seq = access.index[access.instr.attrs["iota_dimension"]]
    return (seq[0], offset) if len(seq) == 1 and isinstance(seq[0], Digit) else None


def _number(value: Instr) -> float | None:
    while value.opcode in ("broadcast", "reshape") or wide(value) is not value:
        value = value.operands[0]
    return float(value.attrs["literal"]) if value.opcode == "constant" and value.shape.rank == 0 else None


def _reads_pairs(form: Form) -> bool:
    """Whether a float is read for each pair of a fixed and a looped row: it may be infinite anywhere."""
    todo = list(form.sides)
    while todo:
        access = todo.pop()
        if access.instr.opcode != "parameter":
            todo.extend(sources(access, Splitter()))
        elif access.instr.shape.element_type.is_float:
            atoms = digits_of(flatten(access.index))
            if atoms & set(form.fixed) and atoms & set(form.looped):
                return True
    return False
