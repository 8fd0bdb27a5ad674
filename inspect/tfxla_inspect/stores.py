"""`tfxla-inspect cache`: what a store holds, what of it is damaged or stale, and a pack of it for other machines.

A store is a directory or fsspec URL (--tf_xla_persistent_cache_directory), or a pack of one, a zip file. Nothing in it
is executed or unpickled: entries are read as bytes whose checksum agrees.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata

import tfxla_cluster
from tfxla_cluster import shared_file
from tfxla_cluster.code_version import code_version
from tfxla_cluster.errors import InputFileError, OutputError, UsageError
from tfxla_cluster.ir.guard import Key
from tfxla_cluster.options import PROFILES_FOLDER, TUNING_FOLDER
from tfxla_cluster.profiles.profile import from_json
from tfxla_cluster.stored import entry, place
from tfxla_cluster.stored.place import Folder, Pack
from tfxla_cluster.tuning.persisted.messages import from_text, message

Say = Callable[[str], None]
_DAY = 86400.0
_WRITING = 3600.0  # seconds that a writer may take: what is younger may be one's that is alive
WHAT = "stored executables"
_MOST = 200  # characters of what an entry is
_MACHINE = re.compile(r"(?:backend|arch)='([^']*)'")  # of a target's text
LEFT_OVER, PROFILE, TUNED = "left over", "profile", "autotuning result"
# What a store holds beside executables (--tfxla_store), no name of another folder.
_BESIDE = re.compile(rf"{PROFILES_FOLDER}/[^/\\]+\.profile\.json|{TUNING_FOLDER}/[^/\\]+\.textproto")
# Names of facts that are versions of packages.
_PACKAGES = ("tensorflow", "llvmlite", "triton")


@dataclass(frozen=True, slots=True)
class Wanted:
    """verify: exit 1 where something is damaged. prune: remove what is damaged, left over or stale, and what is older
    than `older_than` days or, the oldest first, beyond `most_mb`. pack: zip file to write. unpack: one to take from."""

    verify: bool = False
    prune: bool = False
    older_than: float | None = None
    most_mb: float | None = None
    pack: str | None = None
    unpack: str | None = None
    json: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A file of a store. what: the function and its inputs, in words. target: what it runs on, '' anything. made: when,
    Unix seconds, 0 unknown. damaged, stale: why, '' where it is neither."""

    name: str
    kind: str
    bytes: int
    what: str = ""
    versions: str = ""
    target: str = ""
    made: int = 0
    damaged: str = ""
    stale: str = ""


def run(url: str, wanted: Wanted, say: Say) -> int:
    """Raises InputFileError, OutputError and UsageError."""
    if wanted.unpack is not None:
        say(f"{url}: {_unpack(wanted.unpack, _folder(url))} entries from {wanted.unpack}")
        return 0
    found = rows(url)
    if wanted.prune:
        gone = pruned(found, wanted, time.time())
        _remove(_folder(url), gone)
        say(f"{url}: {len(gone)} files removed ({_size(gone)}), {len(found) - len(gone)} left")
        return 0
    if wanted.pack is not None:
        kept = [row for row in found if row.kind != LEFT_OVER and not row.damaged and not row.stale]
        data = place.packed({row.name: _opened(url).read(row.name) for row in kept})
        shared_file.write(shared_file.resolve(wanted.pack), WHAT, data)
        say(f"{wanted.pack}: {len(kept)} entries ({len(data) / 1e6:.1f} MB), {len(found) - len(kept)} left out")
        return 0
    say(json.dumps([asdict(row) for row in found], indent=1) if wanted.json else "\n".join(listed(url, found)))
    return int(wanted.verify and any(row.damaged for row in found))


def rows(url: str) -> list[Row]:
    """Of all entries of a store and of what writers that were killed left; InputFileError for no store."""
    try:
        where = _opened(url)
        names = where.names()
        if not names and not isinstance(where, Pack):
            raise FileNotFoundError(_why_nothing(where))
        found = []
        for name in names:
            try:
                if entry.is_temporary(name):
                    found.append(_temporary(where, name))
                elif entry.kind_of(name) or _BESIDE.fullmatch(name):
                    found.append(_file(where, name))
            except FileNotFoundError:  # another process renamed or removed it meanwhile
                continue
        return found
    except Exception as error:  # noqa: BLE001 - fsspec backends differ
        raise InputFileError(
            f"{url}: no store of executables: {error}",
            "Give the directory, URL or pack (.zip) of --tf_xla_persistent_cache_directory or --tfxla_store",
        ) from None


def _why_nothing(where: Folder) -> str:
    """Why a place has no names."""
    if where.is_file:
        return "it is a file, and no pack"
    return "it holds nothing" if where.is_directory else "there is no such directory"


def _temporary(where: Folder | Pack, name: str) -> Row:
    """What a writer makes, or left when it was killed."""
    return Row(name, LEFT_OVER, where.size(name), made=0 if isinstance(where, Pack) else int(where.written(name)))


def _file(where: Folder | Pack, name: str) -> Row:
    """An entry, a profile or an autotuning result."""
    kind = entry.kind_of(name) or (PROFILE if name.startswith(PROFILES_FOLDER) else TUNED)
    try:
        data = where.read(name)
    except FileNotFoundError:
        raise
    except InputFileError as error:
        return Row(name, kind, where.size(name), damaged=error.message)
    except Exception as error:  # noqa: BLE001 - fsspec backends differ
        return Row(name, kind, where.size(name), damaged=f"it cannot be read: {error}")
    return _entry(name, kind, data) if entry.kind_of(name) else _beside(name, kind, data)


def _entry(name: str, kind: str, data: bytes) -> Row:
    try:
        found = entry.unpack(data)
        if entry.file_name(entry.prefix_of(name), kind, found.key) != name:
            raise ValueError("it was written for another key")
    except ValueError as error:
        return Row(name, kind, len(data), damaged=str(error))
    facts = _facts(found.key)
    about = found.about
    return Row(
        name,
        kind,
        len(data),
        f"{about.get('function', facts.get('launcher', ''))}({about.get('inputs', '')})",
        ", ".join(f"{n} {facts[n]}" for n in ("tfxla_cluster", *_PACKAGES) if n in facts),
        facts.get("target", ""),
        int(about.get("made", "0")),
        stale=stale(found.key),
    )


def _beside(name: str, kind: str, data: bytes) -> Row:
    """A profile, or the autotuning result of one kernel: they are of any version, and stay when executables go."""
    try:
        if kind == PROFILE:
            from_json(data)
        else:
            from_text(data.decode(), message("xla.AutotuneResult")())
    except ValueError as error:
        return Row(name, kind, len(data), damaged=str(error))
    return Row(name, kind, len(data))


def _facts(key: Key) -> dict[str, str]:
    return {str(fact.subject): str(fact.wanted) for fact in key if fact.kind == "fact"}


def stale(key: Key) -> str:
    """Which version it was made with that is not installed here, '' for none: what nothing here asks for any more.
    Packages that are not installed here tell nothing."""
    here = {"tfxla_cluster": tfxla_cluster.__version__, "code": code_version()}
    here |= {name: found for name in _PACKAGES if (found := _installed(name))}
    facts = _facts(key)
    # TensorFlow's is followed by that of its sources.
    wrong = [f"{n} {facts[n]} (here {v})" for n, v in here.items() if n in facts and facts[n].split(" ")[0] != v]
    return ", ".join(wrong)


def _installed(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def pruned(found: Sequence[Row], wanted: Wanted, now: float) -> list[Row]:
    """Those that go: see Wanted."""
    gone = {row.name for row in found if row.damaged or row.stale}
    gone |= {row.name for row in found if row.kind == LEFT_OVER and now - row.made > _WRITING}
    executables = [row for row in found if row.kind not in (PROFILE, TUNED, LEFT_OVER)]
    if wanted.older_than is not None:
        gone |= {row.name for row in executables if now - row.made > wanted.older_than * _DAY}
    left = sorted((row for row in executables if row.name not in gone), key=lambda row: row.made)
    if wanted.most_mb is not None:
        total = sum(row.bytes for row in left)
        for row in left:
            if total > wanted.most_mb * 1e6:
                gone.add(row.name)
                total -= row.bytes
    return [row for row in found if row.name in gone]


def _remove(folder: Folder, gone: Iterable[Row]) -> None:
    for row in gone:
        try:
            folder.remove(row.name)
        except FileNotFoundError:  # another process was first
            continue
        except Exception as error:  # noqa: BLE001 - fsspec backends differ
            raise OutputError(f"{folder.path(row.name)}: cannot be removed: {error}") from None


def _unpack(pack: str, folder: Folder) -> int:
    """Copy the entries of a pack that are whole; how many. Other files in it stay there, whatever their names."""
    taken = [row for row in rows(pack) if row.kind != LEFT_OVER and not row.damaged]
    where = _opened(pack)
    for row in taken:
        try:
            folder.write(row.name, where.read(row.name))
        except Exception as error:  # noqa: BLE001 - fsspec backends differ
            raise OutputError(f"{folder.path(row.name)}: cannot be written: {error}") from None
    return len(taken)


def _opened(url: str) -> Folder | Pack:
    return place.opened(shared_file.resolve(url))


def _folder(url: str) -> Folder:
    found = _opened(url)
    if isinstance(found, Pack):
        raise UsageError(f"{url} is a pack, which is only read", "Give a directory or URL")
    return found


def listed(url: str, found: Sequence[Row]) -> list[str]:
    """A line an entry, the newest first, and one for all."""
    if not found:
        return [f"{url}: none of its files is an entry of a store"]
    lines = [_line(row) for row in sorted(found, key=lambda row: (-row.made, row.name))]
    bad = sum(bool(row.damaged) for row in found), sum(bool(row.stale) for row in found)
    return [*lines, f"{url}: {len(found)} files ({_size(found)}), {bad[0]} damaged, {bad[1]} stale"]


def _line(row: Row) -> str:
    made = time.strftime("%Y-%m-%d %H:%M", time.localtime(row.made)) if row.made else ""
    wrong = f"damaged: {row.damaged}" if row.damaged else f"stale: {row.stale}" if row.stale else ""
    machine = " ".join(_MACHINE.findall(row.target)) or row.target
    parts = [row.kind, f"{row.bytes / 1e3:.1f} kB", made, row.what[:_MOST], row.versions, machine, wrong, row.name]
    return "  ".join(filter(None, parts))


def _size(found: Iterable[Row]) -> str:
    return f"{sum(row.bytes for row in found) / 1e6:.1f} MB"
