"""Groups of modules that are equal up to sizes and literals, and what would have made one executable of each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from . import guard_sets
from .model import mapping, word, words
from .recompiles import Compilation, Function, begins, cost

_ALWAYS_OWN = 2  # sizes below have modules of their own
_NAMED = re.compile(r"(?P<noun>[\w ]+) '(?P<name>.*)'", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Member:
    """A compilation and the function that it is of."""

    function: Function
    made: Compilation


@dataclass(frozen=True, slots=True)
class Group:
    """Executables of one process whose modules have one structure. remedies: what would have merged them; why: where
    there is nothing, why not. saved: milliseconds of all but the one that cost most."""

    members: tuple[Member, ...]
    remedies: tuple[str, ...]
    why: str
    saved: float


def groups(functions: Sequence[Function]) -> list[Group]:
    """Those of two or more executables, the most expensive first."""
    found: dict[tuple[str, str, str], list[Member]] = {}
    for function in sorted(functions, key=lambda f: f.number):
        for made in function.compilations:
            record = made.record
            key = word(record, "pid"), word(record, "device"), word(record, "structure")
            if key[2] and guard_sets.inputs(record):  # without inputs there is nothing to vary
                found.setdefault(key, []).append(Member(function, made))
    return sorted((_group(members) for members in found.values() if len(members) > 1), key=lambda g: -g.saved)


def _group(members: Sequence[Member]) -> Group:
    spent = sorted(cost(m.made.record) for m in members)
    remedies = tuple(dict.fromkeys(_remedies(members)))
    return Group(tuple(members), remedies, "" if remedies else _why_not(members), sum(spent[:-1]))


def _remedies(members: Sequence[Member]) -> Iterator[str]:
    """What was said at each compilation, and what is seen only when functions are held side by side."""
    functions = {m.function.number: m.function for m in members}
    for number in functions:
        own = [m for m in members if m.function.number == number]
        for member in own[1:]:
            yield from words(member.made.record, "remedies")
    if len(functions) > 1:
        named = [f"{f.title} ({at})" if (at := begins(f)) else f.title for f in functions.values()]
        one = "tf.function(jit_compile=True)" if any(_is_cluster(m) for m in members) else "tf.function"
        yield f"{', '.join(named[:-1])} and {named[-1]} are one program: call one {one}{_with_sizes(members)}"


def _is_cluster(member: Member) -> bool:
    return word(member.made.record, "what") == "cluster"


def _with_sizes(members: Sequence[Member]) -> str:
    """The mark that the one function needs: of the first's inputs, those whose sizes differ."""
    varying = list(_varying(members))
    if not varying:
        return ""
    if any(size < _ALWAYS_OWN for _, _, sizes in varying for size in sizes):
        return "; sizes 0 and 1 keep executables of their own"
    marks = [f"mark_dynamic({name}, {axis})" for noun, (name, axis), _ in varying if noun == "argument"]
    return f", with {', '.join(marks)}" if marks else ""


def _varying(members: Sequence[Member]) -> Iterator[tuple[str, tuple[str, int], set[int]]]:
    """(argument or variable, (name, axis), sizes) of the dimensions that are not the same number in all of them."""
    every = [guard_sets.inputs(m.made.record) for m in members]
    for entries in zip(*every):
        found = _NAMED.fullmatch(word(entries[0], "of"))
        for axis, sizes in enumerate(zip(*map(guard_sets.dims, entries))):
            if found and len(set(sizes)) > 1:
                yield found["noun"], (found["name"], axis), {size for size in sizes if size is not None}


def _values(members: Sequence[Member]) -> list[str]:
    """Inputs that are constants to the compiler, with other values in each."""
    every = [guard_sets.inputs(m.made.record) for m in members]
    return [word(entries[0], "of") for entries in zip(*every) if len({word(e, "value") for e in entries}) > 1]


def _why_not(members: Sequence[Member]) -> str:
    """What the last one said of why it is one of its own."""
    if values := _values(members):
        return f"the value of {', '.join(values)} is compiled in"
    apart = [mapping(m.made.record, "apart") for m in members]
    said = [": ".join(filter(None, (word(a, "where"), word(a, "instr"), word(a, "what")))) for a in apart if a]
    if said:
        return said[-1]
    small = any(size < _ALWAYS_OWN for _, _, sizes in _varying(members) for size in sizes)
    return "sizes 0 and 1 have executables of their own" if small else "nothing that is known"
