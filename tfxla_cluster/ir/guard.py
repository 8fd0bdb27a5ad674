"""Guards: named conditions that an executable holds for, one language from the passes to the machine-code check.

    about an input      dtype, rank, value (its bytes)
    about a size        equal to a number, in a range (both ends in it), divisible by a number, of a residue class, the
                        same as another
    about the process   flag, constexpr (of a kernel of the user's), fact (a digest of the module, the target, a
                        version): what a cache key is made of; python: a Python value that a trace is for

A size is (input, axis), or the name of a size until `placed` puts the former for it. A list of guards is checked
in the order of KINDS: sizes are read once the rank is known, values once the sizes are.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Union, cast

from .dim import DimExpr, multiple_text
from .shape import Shape

LARGEST = 2**63 - 1
"""Above every size: the upper end of an open range."""
Place = tuple[int, int]
Size = Union[Place, str]


class Input(Protocol):
    """What guards look at: `dtype` as the caller numbers them, `dims`, and the bytes in C order."""

    @property
    def dtype(self) -> int: ...

    @property
    def dims(self) -> tuple[int, ...]: ...

    def bytes(self) -> bytes: ...


class Names(Protocol):
    """How to speak of inputs: what one is called, its dtype and its value."""

    def input(self, number: int) -> str: ...

    def dtype(self, number: int) -> str: ...

    def value(self, number: int, data: bytes) -> str: ...


@dataclass(frozen=True, slots=True)
class Guard:
    """`kind` is one of KINDS; `subject`: an input's number, a size, or what is so of the process; `wanted`: a number,
    (least, most), (divisor, rest), another size, bytes or a text."""

    kind: str
    subject: int | Size
    wanted: int | Size | bytes

    @property
    def place(self) -> Place:
        """(input, axis) of what it is about; axis -1 where it is about a whole input."""
        if isinstance(self.subject, int):
            return self.subject, -1
        assert not isinstance(self.subject, str), f"size {self.subject} has no place yet"
        return self.subject

    def holds(self, inputs: Sequence[Input]) -> bool:
        """As the machine code of the native op decides it. Guards about the process are not for inputs."""
        found = _read(self.kind, self.place, inputs)
        wanted = _read("equal", cast("Place", self.wanted), inputs) if self.kind == "same" else self.wanted
        return found is not None and wanted is not None and KINDS[self.kind].holds(found, wanted)


Key = tuple[Guard, ...]
"""Guards about the process: all that can change what is kept under it."""


def _read(kind: str, place: Place, inputs: Sequence[Input]) -> Any:
    """What a guard of this kind looks at; None for a dim that is not there."""
    number, axis = place
    view = inputs[number]
    if axis >= 0:
        return view.dims[axis] if axis < len(view.dims) else None
    return {"dtype": lambda: view.dtype, "rank": lambda: len(view.dims), "value": view.bytes}[kind]()


@dataclass(frozen=True, slots=True)
class Kind:
    """`holds(found, wanted)`; `text(wanted)`: what is wanted, in words ('' where Names has them). noun: of what it is
    about, where that is a name of the user's."""

    about: str
    holds: Callable[[Any, Any], bool]
    text: Callable[[Any], str] = str
    noun: str = ""


def _is(found: Any, wanted: Any) -> bool:
    return bool(found == wanted)


def _range_text(ends: Place) -> str:
    return f"at least {ends[0]}" if ends[1] == LARGEST else f"{ends[0]} to {ends[1]}"


KINDS: Mapping[str, Kind] = {
    "dtype": Kind("input", _is),
    "rank": Kind("input", _is),
    "equal": Kind("size", _is),
    "range": Kind("size", lambda n, ends: ends[0] <= n <= ends[1], _range_text),
    "divisible": Kind("size", lambda n, divisor: n % divisor == 0, lambda divisor: multiple_text(divisor, 0)),
    "residue": Kind("size", lambda n, of: n % of[0] == of[1], lambda of: multiple_text(*of)),
    "same": Kind("size", _is),
    "value": Kind("input", _is),
    "flag": Kind("process", _is),
    "python": Kind("process", _is, noun="Python value"),
    "constexpr": Kind("process", _is, noun="constexpr"),
    "fact": Kind("process", _is),
}
_ORDER = {kind: number for number, kind in enumerate(KINDS)}


def facts(of: Mapping[str, object]) -> tuple[Guard, ...]:
    """What is so of the process or the module, by name: of keys of caches."""
    return tuple(Guard("fact", name, str(value)) for name, value in of.items())


def fact_text(fact: Guard) -> str:
    """A guard about the process in a word."""
    return f"{fact.subject}={fact.wanted!s}"


def in_range(size: Size, least: int, most: int) -> Guard:
    """ValueError for an empty range."""
    if least > most:
        raise ValueError(f"no size is in {least} to {most}")
    return Guard("range", size, (least, most))


def divisible(size: Size, divisor: int) -> Guard:
    """ValueError for a divisor that is not positive."""
    if divisor < 1:
        raise ValueError(f"nothing is a multiple of {divisor} sizes")
    return Guard("divisible", size, divisor)


def residue(size: Size, divisor: int, rest: int) -> Guard:
    """Divided by `divisor` the size leaves `rest`. ValueError where nothing does."""
    if not 0 <= rest < divisor:
        raise ValueError(f"nothing leaves {rest} when divided by {divisor}")
    return Guard("residue", size, (divisor, rest)) if rest else divisible(size, divisor)


def of_shape(number: int, shape: Sequence[int]) -> list[Guard]:
    """Rank and dims of one input are these."""
    return [Guard("rank", number, len(shape)), *(Guard("equal", (number, a), d) for a, d in enumerate(shape))]


def of_shapes(shapes: Sequence[Shape]) -> tuple[Guard, ...]:
    """What the shapes of a module's inputs say: ranks, static dims, ranges and residue classes of sizes, and sizes that
    come twice.

    A size is read where it comes first. A dim that is an expression over sizes is not checked.
    """
    found: list[Guard] = []
    first: dict[str, Place] = {}
    for number, shape in enumerate(shapes):
        found.append(Guard("rank", number, len(shape.dims)))
        for axis, dim in enumerate(shape.dims):
            place = number, axis
            if not isinstance(dim, DimExpr):
                found.append(Guard("equal", place, dim))
            elif dim.op == "sym" and first.setdefault(dim.name, place) != place:
                found.append(Guard("same", place, first[dim.name]))
            elif dim.op == "sym":
                if dim.low > 0 or dim.high is not None:
                    found.append(in_range(place, dim.low, LARGEST if dim.high is None else dim.high))
                if dim.every > 1:
                    found.append(residue(place, dim.every, dim.rest))
    return ordered(found)


def ordered(guards: Iterable[Guard]) -> tuple[Guard, ...]:
    """Each once, in the order of KINDS."""
    return tuple(sorted(dict.fromkeys(guards), key=lambda guard: _ORDER[guard.kind]))


def narrowed(guards: Iterable[Guard], ranges: Iterable[Guard]) -> tuple[Guard, ...]:
    """The guards, and these about ranges; of two about one size what both allow."""
    found = {(g.kind, g.subject): g for g in guards}
    for more in ranges:
        known = found.get((more.kind, more.subject), more)
        (low, high), (least, most) = cast("Place", known.wanted), cast("Place", more.wanted)
        found[more.kind, more.subject] = in_range(cast("Size", more.subject), max(low, least), min(high, most))
    return ordered(found.values())


def placed(guards: Iterable[Guard], sizes: Mapping[str, Place]) -> tuple[Guard, ...]:
    """The guards with places for names of sizes; KeyError for a size that no input gives."""

    def place(value: Any) -> Any:
        return sizes[value] if isinstance(value, str) else value

    return tuple(
        replace(g, subject=place(g.subject), wanted=place(g.wanted)) if KINDS[g.kind].about == "size" else g
        for g in guards
    )


def moved(guards: Iterable[Guard], inputs: Sequence[int]) -> tuple[Guard, ...]:
    """The guards of inputs under other numbers: input k becomes `inputs[k]`; below 0 it is left out."""
    result = []
    for guard in guards:
        number, axis = guard.place
        subject = inputs[number] if axis < 0 else (inputs[number], axis)
        wanted = guard.wanted
        if guard.kind == "same":
            other, other_axis = cast("Place", wanted)
            wanted = inputs[other], other_axis
            if inputs[other] < 0:
                continue
        if inputs[number] >= 0:
            result.append(Guard(guard.kind, subject, wanted))
    return tuple(result)


def hold(guards: Iterable[Guard], inputs: Sequence[Input]) -> bool:
    """All of them hold."""
    return all(guard.holds(inputs) for guard in guards)


def failed(guards: Iterable[Guard], inputs: Sequence[Input]) -> list[Guard]:
    """Those that do not hold; of an input of another dtype or rank not its sizes, of another size not its value."""
    result: list[Guard] = []
    wrong: dict[int, str] = {}
    for guard in ordered(guards):
        number, about = guard.place[0], KINDS[guard.kind].about
        skipped = number in wrong and not wrong[number] == about == "size"
        if not skipped and not guard.holds(inputs):
            result.append(guard)
            wrong[number] = about
    return result


def explain(guard: Guard, inputs: Sequence[Input], names: Names) -> str:
    """A guard that fails, in words: `argument 'x': dim 0 was 32, is 33`."""
    number = guard.place[0]
    found = _read(guard.kind, guard.place, inputs)
    if guard.kind == "value":
        found = names.value(number, found)
    elif guard.kind == "dtype":
        found = names.dtype(found)
    return f"{_subject(guard, names)} {_was(guard)} {_wanted(guard, names)}, is {found}"


@dataclass(frozen=True, slots=True)
class Change:
    """A guard that two lists have differently. kind: one of KINDS. of: the input, or what is so of the process, in
    words. axis: of a size, else -1. was, now: what is wanted, in words; 'absent' where a list has no such guard."""

    kind: str
    of: str
    axis: int
    was: str
    now: str

    def __str__(self) -> str:
        what = "" if KINDS[self.kind].about == "process" else f" dim {self.axis}" if self.axis >= 0 else f" {self.kind}"
        return f"{self.of}:{what} was {self.was}, is {self.now}"


def changes(old: Iterable[Guard], new: Iterable[Guard], names: Names | None = None) -> list[Change]:
    """Where two lists of guards differ: those of `new` first, then those that only `old` has.

    `names` where there are guards about inputs; of an input of another rank its sizes are left out.
    """
    before, after = ({(g.kind, g.subject): g for g in guards} for guards in (old, new))
    changed = [key for key in dict.fromkeys((*after, *before)) if before.get(key) != after.get(key)]
    ranks = {subject for kind, subject in changed if kind == "rank"}
    result = []
    for key in changed:
        was, now = before.get(key), after.get(key)
        shown = now or was
        assert shown is not None
        if KINDS[shown.kind].about != "size" or shown.place[0] not in ranks:
            words = ["absent" if g is None else _wanted(g, names) for g in (was, now)]
            of, axis = _about(shown, names)
            result.append(Change(shown.kind, of, axis, words[0], words[1]))
    return result


def differences(old: Iterable[Guard], new: Iterable[Guard], names: Names | None = None) -> list[str]:
    """`changes` in words."""
    return list(map(str, changes(old, new, names)))


def _about(guard: Guard, names: Names | None) -> tuple[str, int]:
    """What a guard is about: the input or what is so of the process, in words, and the axis or -1."""
    if names is None or KINDS[guard.kind].about == "process":
        noun = KINDS[guard.kind].noun
        return f"{noun} '{guard.subject}'" if noun else str(guard.subject), -1
    number, axis = guard.place
    return names.input(number), axis


def _subject(guard: Guard, names: Names) -> str:
    of, axis = _about(guard, names)
    return f"{of}: {f'dim {axis}' if axis >= 0 else guard.kind}"


def _was(guard: Guard) -> str:
    return "has to be" if guard.kind in ("range", "divisible", "residue", "same") else "was"


def _wanted(guard: Guard, names: Names | None) -> str:
    if names is not None and guard.kind == "dtype":
        return names.dtype(cast("int", guard.wanted))
    if names is not None and guard.kind == "value":
        return names.value(guard.place[0], cast("bytes", guard.wanted))
    if names is not None and guard.kind == "same":
        other, axis = cast("Place", guard.wanted)
        return f"dim {axis} of {names.input(other)}"
    return KINDS[guard.kind].text(guard.wanted)


def to_data(guards: Iterable[Guard]) -> list[list[Any]]:
    """JSON values: [kind, subject, wanted] each; bytes in base64."""

    def value(part: Any) -> Any:
        return base64.b64encode(part).decode() if isinstance(part, bytes) else part

    return [[g.kind, _listed(g.subject), _listed(value(g.wanted))] for g in guards]


def _listed(part: Any) -> Any:
    return list(part) if isinstance(part, tuple) else part


def from_data(data: Iterable[Any]) -> tuple[Guard, ...]:
    """As `to_data` wrote them; ValueError or TypeError for anything else."""
    return tuple(_guard(*row) for row in data)


def _guard(kind: Any, subject: Any, wanted: Any) -> Guard:
    if kind not in KINDS:
        raise ValueError(f"unknown kind of guard {kind!r}")
    if kind == "value":
        wanted = base64.b64decode(wanted, validate=True)
    subject, wanted = (_pair(part) if isinstance(part, list) else part for part in (subject, wanted))
    if not isinstance(subject, (int, str, tuple)) or not isinstance(wanted, (int, str, tuple, bytes)):
        raise TypeError(f"not a guard: {kind!r}, {subject!r}, {wanted!r}")
    return Guard(kind, subject, wanted)


def _pair(part: list[Any]) -> tuple[int, int]:
    first, second = part
    return int(first), int(second)
