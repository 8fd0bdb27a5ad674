"""What each pass changed: the differences between the texts that a dump has of a module's passes, one at a time."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from .model import Module, PassStep
from .reading import Reader
from .scan import File

# Above so many changed lines a difference is listed in two bags: matching them up takes difflib minutes.
_MOST_MATCHED = 2000
_MOST_SHOWN = 4000
_CONTEXT = 1
_HEADING = re.compile(r"(?:ENTRY )?%?([\w.\-]+) (?:\(.*\) -> .*)?\{")


def timeline(module: Module, reader: Reader) -> Iterator[PassStep]:
    """The steps in order, each with what changed since the one before; no more than two texts are held."""
    previous: list[str] | None = None
    for file in files(module):
        lines = reader.text(file).splitlines()
        gone, new = _bags(previous, lines) if previous is not None else (Counter[str](), Counter[str]())
        yield PassStep(
            int(file.groups["step"]),
            file.groups["pipeline"],
            file.groups["after"],
            file.groups.get("before", ""),
            file,
            sum(" = " in line for line in lines),
            gone.total(),
            new.total(),
            tuple(_delta(previous or [], lines, gone, new)),
        )
        previous = lines


def files(module: Module) -> list[File]:
    """Its texts between and within passes, in the order in which they were written."""
    found = module.files.all("pass") + module.files.all("pass_inner")
    return sorted(found, key=lambda f: (int(f.groups["step"]), f.kind, f.name))


def _bags(old: Sequence[str], new: Sequence[str]) -> tuple[Counter[str], Counter[str]]:
    before, after = Counter(old), Counter(new)
    return before - after, after - before


def _delta(old: list[str], new: list[str], gone: Counter[str], came: Counter[str]) -> list[str]:
    """Lines marked as in a unified difference, after each computation's name where its changes begin."""
    if not gone and not came:
        return []
    if gone.total() + came.total() > _MOST_MATCHED:
        listed = [f"- {line}" for line in old if line in gone] + [f"+ {line}" for line in new if line in came]
        left = len(listed) - _MOST_SHOWN
        return listed[:_MOST_SHOWN] + ([f"@ and {left:,} more lines"] if left > 0 else [])
    return _matched(_around(old, gone), _around(new, came))


def _around(lines: list[str], changed: Counter[str]) -> list[str]:
    """The changed lines with their neighbours and the heading of their computation."""
    kept: set[int] = set()
    heading = -1
    for number, line in enumerate(lines):
        if not line.startswith(" ") and line.endswith("{"):
            heading = number
        if line in changed:
            kept.update(range(max(number - _CONTEXT, 0), min(number + _CONTEXT + 1, len(lines))))
            if heading >= 0:
                kept.add(heading)
    return [lines[number] for number in sorted(kept)]


def _matched(old: list[str], new: list[str]) -> list[str]:
    made: list[str] = []
    for what, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if what == "equal":
            made += [f"@ {found[1]}" if (found := _HEADING.match(line)) else f"  {line}" for line in old[a:b]]
        else:
            made += [f"- {line}" for line in old[a:b]] + [f"+ {line}" for line in new[c:d]]
    return made
