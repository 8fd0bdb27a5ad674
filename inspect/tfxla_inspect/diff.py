"""`tfxla-inspect diff`: what two executables hold for, side by side."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tfxla_cluster.errors import InputFileError, UsageError

from . import guard_sets, recompiles
from .guard_sets import Difference
from .model import Dump, Record, load
from .reading import Reader
from .scan import scan

Say = Callable[[str], None]
_LONGEST = 200  # characters of a value


def run(one: str, other: str, say: Say) -> int:
    """Compare two compilations, each `DIR:ID`, DIR a dump and ID the number of a module in it; `ID` alone, as the
    second, is one of the first's dump. 1 where they differ. Raises InputFileError and UsageError."""
    directory, first = _named(one)
    elsewhere, second = _named(other, directory)
    records = _compilation(directory, first), _compilation(elsewhere, second)
    for sign, (title, record) in zip("-+", records):
        say(f"{sign} {title}: {recompiles.serves(record)}")
    found = guard_sets.differences(*(record for _, record in records))
    say("\n".join(lines(found)) or "they hold for the same")
    return int(bool(found))


def lines(found: list[Difference]) -> list[str]:
    """What differs, as lines: what it is about, then both sides, each cut where it is long."""
    shown = []
    for difference in found:
        shown += [difference.of, f"  - {_cut(difference.was)}", f"  + {_cut(difference.now)}"]
    return shown


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


def _named(text: str, directory: Path | None = None) -> tuple[Path, int]:
    name, colon, number = text.rpartition(":")
    if number.isdecimal() and (directory is not None or (colon and name)):
        return Path(name) if name else directory or Path(), int(number)
    raise UsageError(f"'{text}' is not DIR:ID", "ID is the number in the names of a module's files: module_0003 is 3")


def _compilation(directory: Path, number: int) -> tuple[str, Record]:
    """What the report calls it, and its record."""
    reader = Reader()
    dump = load(scan(directory), reader)
    known = {}
    for function in recompiles.functions(dump):
        for compilation in function.compilations:
            identity = compilation.record.get("id")
            if isinstance(identity, int) and guard_sets.inputs(compilation.record):
                known[identity] = f"{directory}:{identity} [{compilation.name}] {function.title}", compilation.record
    if number not in known:
        there = ", ".join(map(str, sorted(known))) or "none"
        raise InputFileError(
            f"{directory}: no record of the compilation of module {number} ({_why(dump)})", f"Recorded are {there}"
        )
    return known[number]


def _why(dump: Dump) -> str:
    return "the dump has no trace" if not dump.records else "the trace has others"
