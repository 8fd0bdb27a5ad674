"""Logs of programs that dumped to their standard output (`--xla_dump_to=-`): each file between two marks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .places import Found, OnDisk, Part, Place, Problems, Spooled, label, spooled
from .sniff import expanded

_MARK = re.compile(rb"^(.*?)\*\*\* (Begin|End) (.+?) \*\*\*\s*$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Mark:
    """A line that begins or ends a file: where the line starts and ends, and what stands before the mark."""

    name: str
    is_begin: bool
    start: int
    end: int
    prefix: bytes


def parts(log: Found, problems: Problems) -> Iterator[Found]:
    """The files in a log, named as their marks say. Raises one of places.BROKEN where it cannot be read."""
    place = _plain(log)
    begun: _Mark | None = None
    for mark in _marks(place):
        if begun is not None:
            if mark.is_begin or mark.name != begun.name:
                problems.append((begun.name, "its end is missing in the log"))
            yield _part(place, begun, mark.start)
        begun = mark if mark.is_begin else None


def _plain(log: Found) -> Place:
    """The log where any part of it can be read at once."""
    with log.place.open() as raw:
        stream = expanded(raw)
        if stream is raw and isinstance(log.place, OnDisk):
            return log.place
        return Spooled(log.place.path, *spooled(stream, log.place.stored))


def _part(place: Place, mark: _Mark, end: int) -> Found:
    prefix = re.compile(re.sub(rb"\d", rb"\\d", re.escape(mark.prefix))) if mark.prefix else None
    part = Part(place, mark.end, end, prefix)
    return Found(mark.name, part.stored, part)


def _marks(place: Place) -> Iterator[_Mark]:
    """The marks in order, and one without a name where the log ends."""
    position = 0
    with place.open() as stream:
        for line in stream:
            start, position = position, position + len(line)
            if b"*** " in line and (found := _MARK.match(line)):
                name = label(found[3].decode("utf-8", "replace"))
                yield _Mark(name, found[2] == b"Begin", start, position, found[1])
    yield _Mark("", False, position, position, b"")
