"""Guard sets: what an executable holds for, from the field `serves` of a record `compile`; what differs between two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .model import Record, mapping, word, words
from .reading import rows

ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Difference:
    """of: what it is about, in words. was, now: what either set has there, ABSENT where it says nothing."""

    of: str
    was: str
    now: str


def dims(entry: Record) -> list[int | None]:
    """Of an input; None for one that may be any."""
    found = entry.get("dims")
    listed = found if isinstance(found, list) else []
    return [d if isinstance(d, int) and not isinstance(d, bool) else None for d in listed]


def inputs(record: Record) -> list[Record]:
    """The inputs of a record's guard set."""
    found = mapping(record, "serves").get("inputs")
    return rows(found) if isinstance(found, list) else []


def shape(entry: Record) -> str:
    """`float32[None, 4]`, as torch's guards write it."""
    found = entry.get("dims")
    listed = ", ".join(map(str, dims(entry))) if isinstance(found, list) else "?"
    return f"{word(entry, 'dtype')}[{listed}]"


def lines(record: Record) -> list[str]:
    """A line an input: `argument 'x': float32[None, 4]; dim 0: at least 2`."""
    return ["; ".join([f"{word(i, 'of')}: {shape(i)}{_value(i)}", *words(i, "guards")]) for i in inputs(record)]


def _value(entry: Record) -> str:
    return f" = {word(entry, 'value')}" if "value" in entry else ""


def described(record: Record) -> dict[str, str]:
    """What each thing that a guard set is about has to be: inputs, sizes, values, Python values, the process."""
    return dict(_described(record))


def _described(record: Record) -> Iterator[tuple[str, str]]:
    for entry in inputs(record):
        of = word(entry, "of")
        yield of, shape(entry)
        for asked in words(entry, "guards"):
            about, _, wanted = asked.partition(": ")
            yield f"{of}: {about}", wanted
        if "value" in entry:
            yield f"{of}: value", word(entry, "value")
    serves = mapping(record, "serves")
    for name, value in mapping(serves, "python").items():
        yield f"Python value '{name}'", str(value)
    for name, value in mapping(serves, "process").items():
        yield name, str(value)


def differences(one: Record, other: Record) -> list[Difference]:
    """What two guard sets have differently, in the order of the first."""
    was, now = described(one), described(other)
    return [
        Difference(of, was.get(of, ABSENT), now.get(of, ABSENT))
        for of in dict.fromkeys((*was, *now))
        if was.get(of) != now.get(of)
    ]
