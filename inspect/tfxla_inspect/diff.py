"""`tfxla-inspect diff`: what two executables hold for, and what two modules compute, side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tfxla_cluster.errors import InputFileError, UsageError

from . import guard_sets, module_choice, recompiles, showing, structure
from .guard_sets import Difference
from .model import Dump, Record, load
from .parsers import buffers
from .reading import Reader
from .scan import scan

Say = Callable[[str], None]
_LONGEST = 200  # characters of a value


def run(one: str, other: str, say: Say, stages: tuple[str, str] = ("after", "after")) -> int:
    """Compare two modules, each `DIR:ID`, DIR a dump and ID the number of a module in it (`ID` alone, as the second, is
    one of the first's dump), or a file of HLO text: what they hold for, where both dumps say that, and their HLO at
    `stages` ('before', 'after', the number of a pass) by structure. 1 where they differ. Raises InputFileError and
    UsageError."""
    if other.isdecimal() and not Path(other).exists():
        other = f"{module_choice.divided(one)[0]}:{other}"
    first = _side(one, stages[0])
    second = _side(other, stages[1]) if first is not None else None
    if first is None or second is None:
        return _guards(one, other, say)
    differ = False
    if _is_recorded(one) and _is_recorded(other):
        differ = bool(_guards(one, other, say))
    lines = structure.differences(structure.of_text(first.text), structure.of_text(second.text))
    if first.memory and second.memory and first.memory != second.memory:
        lines.append(f"memory in all: {first.memory:,} and {second.memory:,} bytes")
    say("\n".join(lines) or "they compute the same in the same kernels")
    return int(differ or bool(lines))


@dataclass(frozen=True, slots=True)
class _Side:
    """HLO text; `memory`: bytes of all allocations, 0 unknown."""

    text: str
    memory: int = 0


def _side(name: str, stage: str) -> _Side | None:
    """None where a dump has no HLO."""
    path, which = module_choice.divided(name)
    reader = Reader()
    if not module_choice.is_dump(path) and path.is_file():
        return _Side(module_choice.file_text(path))
    if not which.isdecimal() or not scan(path).modules:
        return None
    chosen = module_choice.chosen(path, which)
    text = showing.hlo_text(chosen, stage, reader)
    held = buffers.parse(reader.text(chosen.module.one("buffers"))) if stage == "after" else []
    return _Side(text, sum(allocation.bytes for allocation in held))


def _is_recorded(name: str) -> bool:
    """Whether a trace says what the module holds for."""
    try:
        _compilation(*_named(name))
    except (InputFileError, UsageError):
        return False
    return True


def _guards(one: str, other: str, say: Say) -> int:
    """What two compilations hold for, side by side; 1 where they differ."""
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
