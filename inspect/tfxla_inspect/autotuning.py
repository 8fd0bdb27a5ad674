"""`tfxla-inspect autotune`: files of autotuning results, what is in them, merged, and held against a program's dump."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfxla_cluster.errors import InputFileError
from tfxla_cluster.target import Target
from tfxla_cluster.tuning.devices import device_text
from tfxla_cluster.tuning.fingerprint import digest
from tfxla_cluster.tuning.persisted import files
from tfxla_cluster.tuning.persisted.results import VERSION, Entry, Key, Measured, Results, foreign, short, spelled


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of a dumped program that could be tuned: module and instruction, digest of its fusion, device."""

    name: str
    fingerprint: str
    device: str


def run(paths: Sequence[str], every: bool, program: Path | None, merge: str | None, say: Callable[[str], None]) -> int:
    """Tell `say` of the files at `paths` (with `every` each measured form), hold them against the dump `program`, and
    write all of them to `merge`; 1 where a kernel of the program has no result.

    Raises InputFileError and OutputError.
    """
    merged = Results()
    for path, results in read(paths):
        say("\n".join([path, *summary(results), *table(results, every), ""]))
        merged |= results
    missed = False
    if program is not None:
        lines = against(merged, kernels(program))
        missed = any(line.startswith("missing: ") for line in lines)
        say("\n".join(lines))
    if merge:
        files.write(merge, merged)
        say(f"{merge}: {len(merged)} results")
    return int(missed)


def table(results: Results, every: bool) -> list[str]:
    """A line an entry; with `every` one more for each configuration that was measured."""
    lines = []
    for key in sorted(results, key=lambda k: (k.device, -k.version, k.hlo)):
        entry = results[key]
        lines.append(f"{_time(entry.seconds):>11}  {_choice(entry):<40}  {short(key)}")
        if every:
            lines += [_measured(m) for m in entry.measured]
    return [line.rstrip() for line in lines]


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e6:.2f} us"


def _measured(m: Measured) -> str:
    return f"{_time(m.seconds):>11}    {spelled(m.choice):<38}  {_failure(m.failure, m.message)}"


def _choice(entry: Entry) -> str:
    return spelled(entry.choice) if entry.choice is not None else f"another program's: {foreign(entry)}".rstrip(": ")


def _failure(kind: str, message: str) -> str:
    return f"{kind}: {message}" if kind else ""


def summary(results: Results) -> list[str]:
    """How many entries of each device and version, and what could not be used."""
    counts: dict[tuple[str, int, str], int] = {}
    for key, entry in results.items():
        who = entry.made_by or "another program"
        counts[key.device, key.version, who] = counts.get((key.device, key.version, who), 0) + 1
    lines = [f"{n} results on {device}, version {v} ({who})" for (device, v, who), n in sorted(counts.items())]
    return [*(lines or ["no results"]), *(f"not used: {problem}" for problem in results.problems)]


# --- against a program ---
def kernels(directory: Path) -> list[Kernel]:
    """Those of a dump directory that could be tuned; InputFileError where it holds no kernels."""
    if not directory.is_dir():
        raise InputFileError(f"{directory}: no such directory")
    found = []
    for path in sorted(directory.glob("*.kernels.json")):
        device = _device(path.with_name(path.name.replace(".kernels.json", ".timings.json")))
        found += [
            Kernel(
                f"{path.name.removesuffix('.kernels.json')}: {row.get('instr', '')}", str(row["fingerprint"]), device
            )
            for row in _rows(path)
            if row.get("fingerprint") and row.get("tuning_reason") != "it has one form"
        ]
    if not found:
        raise InputFileError(f"{directory}: holds no kernels that could be tuned", "Dump with --xla_dump_to")
    return found


def _rows(path: Path) -> list[Mapping[str, object]]:
    try:
        rows = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputFileError(f"{path}: cannot be read: {error}") from None
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _device(path: Path) -> str:
    """Of the target that the module was compiled for; '' where the dump does not say."""
    try:
        target = dict(json.loads(path.read_text())["target"])
        target.pop("type", None)
        return device_text(Target(**target))
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def against(results: Results, program: Sequence[Kernel]) -> list[str]:
    """What the program uses, misses and no longer has of the results; those of other devices and versions."""
    by_digest: dict[str, list[Key]] = {}
    for key in results:
        by_digest.setdefault(digest(key.hlo), []).append(key)
    wanted = {(k.fingerprint, k.device): k.name for k in program}
    here = {device for _, device in wanted}
    used, missed = 0, []
    for (fingerprint, device), name in wanted.items():
        keys = by_digest.get(fingerprint, [])
        if any(k.device == device and k.version == VERSION for k in keys):
            used += 1
        else:
            missed.append(f"missing: {name}{_why(keys, device)}")
    unused = [k for d, keys in by_digest.items() if d not in {f for f, _ in wanted} for k in keys]
    elsewhere = [k for k in results if k.device not in here]
    other = [k for k in results if k.version != VERSION]
    return [
        f"{used} of {len(wanted)} kernels have a result",
        *missed,
        *_listed("no longer used (the program has no such kernel)", unused),
        *_listed("made on another device", elsewhere),
        *_listed(f"made by another version (this is {VERSION})", other),
    ]


def _why(keys: Iterable[Key], device: str) -> str:
    others = [f"version {k.version}" if k.device == device else k.device for k in keys]
    return f" (there is one of {'; '.join(others)})" if others else ""


def _listed(what: str, keys: Sequence[Key]) -> list[str]:
    return [f"{what}: {short(key)}" for key in keys]


def read(paths: Iterable[str]) -> list[tuple[str, Results]]:
    """Each file's results; InputFileError names the one that holds none."""
    return [(path, files.read(path)) for path in paths]
