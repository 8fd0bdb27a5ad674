"""The results that this process knows: read from files, put on by `with result:`, tuned here; and where new ones go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from .. import trace
from ..errors import InputFileError, OutputError, TuningError, UsageError
from ..locks import ForkSafeLock
from ..options import TuningOptions
from .persisted import files
from .persisted.directory import NOT_THERE, Directory
from .persisted.results import Entry, Key, Results


class Found(NamedTuple):
    """An entry and where it came from ('file', 'tuned', 'given'), or None and why there is none; `final`: nor will
    there be in this process."""

    entry: Entry | None
    source: str
    reason: str
    final: bool = False


class Tables:
    """Thread safe. One a process (`PROCESS`), others in tests."""

    def __init__(self) -> None:
        self.lock = ForkSafeLock()
        self._files: dict[str, Results] = {}
        self._overlays: list[Results] = []
        self._tuned = Results()
        self._dumped: dict[str, Results] = {}
        self._given_up: dict[Key, str] = {}
        self._asked: list[set[Key]] = []
        self._again: set[Key] | None = None  # what was tuned since all is to be tuned again

    def find(self, key: Key, options: TuningOptions) -> Found:
        """The innermost overlay's entry, else this process's, else the file's, else the directory's. TuningError
        where the file to load is missing or no file of results."""
        with self.lock:
            for asked in self._asked:
                asked.add(key)
            if self._again is not None and key not in self._again:
                return Found(None, "", "it is tuned again", key in self._given_up)
            for overlay in reversed(self._overlays):
                if key in overlay:
                    return Found(overlay[key], "given", "")
            if key in self._tuned:
                return Found(self._tuned[key], "tuned", "")
            if key in self._given_up:
                return Found(None, "", self._given_up[key], final=True)
            loaded = self._loaded(options)
            if key in loaded:
                return _usable(loaded[key], "file", options.load)
            if options.directory:
                entry, reason = Directory(options.directory, options.directory_read_only).get(key)
                if entry is None and reason != NOT_THERE:
                    _not_used(reason)
                return Found(None, "", reason) if entry is None else _usable(entry, "file", options.directory)
        return Found(None, "", _why_not(key, loaded, options))

    def _loaded(self, options: TuningOptions) -> Results:
        """The file, read once a process."""
        if not options.load:
            return Results()
        if options.load not in self._files:
            try:
                found = self._files[options.load] = files.read(options.load)
            except (InputFileError, UsageError) as error:
                raise TuningError(error.message, error.remedy) from error
            trace.record("autotune", event="loaded", reason=f"{len(found)} results from {options.load}")
            for problem in found.problems:
                _not_used(f"{options.load}: {problem}")
        return self._files[options.load]

    def add(self, entry: Entry, options: TuningOptions) -> None:
        """A new result, which goes to the directory at once."""
        with self.lock:
            self._tuned |= Results({entry.key: entry})
            if self._again is not None:
                self._again.add(entry.key)
        if options.directory:
            _or_say(lambda: Directory(options.directory, options.directory_read_only).put(entry))

    def check(self, options: TuningOptions) -> None:
        """TuningError where the file to load is missing or no file of results."""
        if options.use:
            with self.lock:
                self._loaded(options)

    def give_up(self, key: Key, reason: str) -> None:
        """It was tried, and is not tried again."""
        with self.lock:
            self._given_up[key] = reason

    def dump(self, options: TuningOptions) -> None:
        """What is known into the file to dump to, where that is not there already; a line, once, where it cannot be
        written. The file comes to be even when nothing is known: silence would leave in doubt whether it works."""
        if not (options.use and options.dump):
            return
        with self.lock:
            known = self._loaded(options) | self._tuned
            if options.dump in self._dumped and dict(self._dumped[options.dump]) == dict(known):
                return
            self._dumped[options.dump] = known
        _or_say(lambda: files.merge_into(options.dump, known))

    @contextmanager
    def overlaid(self, results: Results) -> Iterator[None]:
        """`results` before all others, process-wide, for a `with` block."""
        with self.lock:
            self._overlays.append(results)
        try:
            yield
        finally:
            with self.lock:
                self._overlays.remove(results)

    @contextmanager
    def noting(self, again: bool = False) -> Iterator[set[Key]]:
        """The keys that are asked for in a `with` block, process-wide; `again`: what is known is not found there."""
        asked: set[Key] = set()
        with self.lock:
            self._asked.append(asked)
            before, self._again = self._again, set() if again else self._again
        try:
            yield asked
        finally:
            with self.lock:
                self._asked = [other for other in self._asked if other is not asked]
                self._again = before

    def known(self) -> Results:
        """What was tuned in this process."""
        with self.lock:
            return self._tuned

    @property
    def empty(self) -> bool:
        """Whether no overlay and no result of this process is there."""
        return not self._overlays and not self._tuned

    def clear(self) -> None:
        """Forget what was tuned here and read, so that files are read again."""
        with self.lock:
            self._files.clear()
            self._dumped.clear()
            self._given_up.clear()
            self._tuned = Results()


def _usable(entry: Entry, source: str, where: str) -> Found:
    if entry.choice is None:
        return Found(None, "", f"the entry in {where} was made by another program")
    return Found(entry, source, "")


def _why_not(key: Key, loaded: Results, options: TuningOptions) -> str:
    """What in the file is nearest to the key."""
    same = [k for k in loaded if k.hlo == key.hlo]
    if any(k.device == key.device for k in same):
        versions = sorted({k.version for k in same if k.device == key.device})
        return f"the result in {options.load} was made by version {versions}, this is {key.version}"
    if same:
        return f"the result in {options.load} was made on another device ({same[0].device})"
    return f"not in {options.load}" if options.load else "it was not tuned"


def _not_used(problem: str) -> None:
    if trace.once(f"autotune:{problem}", f"autotuning results: {problem}; it is not used"):
        trace.record("autotune", event="problem", reason=problem)


def _or_say(write: Callable[[], None]) -> None:
    """Results that cannot be kept cost no program."""
    try:
        write()
    except OutputError as error:
        trace.once(f"autotune:{error.message}", f"{error}; going on without it")
        trace.record("autotune", event="problem", reason=str(error))


PROCESS = Tables()
