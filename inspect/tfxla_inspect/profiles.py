"""`tfxla-inspect pgo`: profiles of sizes, shown, merged, compared, cleared, and as the flag that says the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tfxla_cluster import shared_file
from tfxla_cluster.errors import InputFileError, UsageError
from tfxla_cluster.profiles import store
from tfxla_cluster.profiles.profile import Counts, FunctionProfile, Profile, Sizes, to_json

from .markup import plural

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """merge: file to write the join of all to. diff: compare the first with the second. sources: print the flag.
    clear: functions (by the start of their names; '' is all) to forget in each file."""

    merge: str | None = None
    diff: bool = False
    sources: bool = False
    clear: str | None = None


def run(files: Sequence[str], wanted: Wanted, say: Say) -> int:
    """Raises InputFileError, OutputError and UsageError."""
    files = [found for file in files for found in _files(file)]
    if wanted.diff and len(files) != 2:
        raise UsageError(f"--diff compares two files, not {len(files)}")
    profiles = [store.read(shared_file.resolve(file)) for file in files]
    if wanted.diff:
        lines = difference(*profiles)
        say("\n".join(lines) or "they say the same")
        return int(bool(lines))
    if wanted.clear is not None:
        return _clear(files, profiles, wanted.clear, say)
    joined = Profile()
    for file, profile in zip(files, profiles):
        if not wanted.sources:
            say("\n".join([file, *shown(profile)]))
        joined |= profile
    if wanted.sources:
        say(f"--tfxla_dynamic_sources={','.join(joined.sources())}")
    if wanted.merge:
        store.merge_into(shared_file.resolve(wanted.merge), joined)
        say(f"{wanted.merge}: {plural(len(joined.functions), 'function')}")
    return 0


def _files(where: str) -> list[str]:
    """A file itself; of a directory, a store or a pack the profiles in it, InputFileError where it has none."""
    try:
        found = store.files(shared_file.resolve(where))
    except Exception as error:  # noqa: BLE001 - fsspec backends differ
        raise InputFileError(f"{where}: cannot be read: {error}") from None
    if found == []:
        raise InputFileError(f"{where}: there are no profiles in it")
    return [where] if found is None else found


def _clear(files: Sequence[str], profiles: Sequence[Profile], start: str, say: Say) -> int:
    for file, profile in zip(files, profiles):
        left = {name: f for name, f in profile.functions.items() if not name.startswith(start)}
        shared_file.write(shared_file.resolve(file), store.WHAT, to_json(Profile(left)))
        say(f"{file}: {plural(len(profile.functions) - len(left), 'function')} forgotten, {len(left)} left")
    return 0


def shown(profile: Profile) -> list[str]:
    """A line a function and one an input: dims that had several sizes as `?`, and the most frequent sizes."""
    lines = []
    for name, function in sorted(profile.functions.items()):
        limits = f"  reached: {', '.join(sorted(function.limits))}" if function.limits else ""
        lines += [f"  {name}{limits}", *(f"    {line}" for line in _inputs(function))]
    return lines or ["  no functions"]


def _inputs(function: FunctionProfile) -> Iterable[str]:
    for name, sizes in sorted(function.inputs.items()):
        yield f"{name}: {_tensor(sizes)}"
    for name, counts in sorted(function.numbers.items()):
        yield f"{name}: number {_seen(counts) if counts.several else counts.common[0]}"


def _tensor(sizes: Sizes) -> str:
    if sizes.axes is None:
        return "of several ranks"
    dims = ["?" if counts.several else ", ".join(map(str, counts.common)) for counts in sizes.axes]
    seen = [f"axis {axis}: {_seen(counts)}" for axis, counts in enumerate(sizes.axes) if counts.several]
    return "; ".join([f"[{', '.join(dims)}]", *seen])


def _seen(counts: Counts) -> str:
    return ", ".join(f"{number} ({counts.of[number]}x)" for number in counts.common)


def difference(one: Profile, other: Profile) -> list[str]:
    """Lines of `one` that `other` has not ('-'), and the other way round ('+'), under their function."""
    lines: list[str] = []
    for name in sorted({*one.functions, *other.functions}):
        before, after = (list(_inputs(p.functions.get(name, FunctionProfile()))) for p in (one, other))
        changed = [f"  - {line}" for line in before if line not in after]
        changed += [f"  + {line}" for line in after if line not in before]
        only = "" if name in one.functions and name in other.functions else " (in one of them)"
        if changed or only:
            lines += [f"{name}{only}", *changed]
    return lines
