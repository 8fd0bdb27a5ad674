"""Choices of a compilation from results: found, tuned where that is asked for, or the default with the reason."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from .. import __version__, bugs, flags, trace
from ..backends.backend import Backend, Launcher
from ..codegen.kernel.choice import DEFAULT, UNTUNED, Choice, Choices, Chosen
from ..errors import TfxlaError, TuningError, UnsupportedError, UsageError
from ..ir.node import Instr
from ..locks import ForkSafeLock
from ..options import CompileOptions, TuningOptions
from ..runtime.cpu import host
from .devices import device_text
from .fingerprint import canonical
from .persisted.directory import Directory
from .persisted.results import Entry, Key, Measured, short, spelled
from .tables import PROCESS, Tables
from .tuner import Budget, Tuner

_SPENT = Budget()  # of this process
_ONE_AT_A_TIME = ForkSafeLock()  # what is timed beside other work takes longer


UNSETTLED = "default"
"""Of a kernel without a result, among the words of `Session.settled`."""


def choices(
    backend: Backend[Launcher], compiling: CompileOptions, options: TuningOptions, tables: Tables = PROCESS
) -> Choices:
    """Choices for compilations on `backend`; UNTUNED where no result is used and none is made."""
    wanted = options.tune or options.require or options.load or not tables.empty or _may_have_results(options)
    return Session(backend, compiling, options, tables) if options.use and wanted else UNTUNED


def _may_have_results(options: TuningOptions) -> bool:
    """Of the directory of results. Where it is known to have none, executables are those that are made without it."""
    return bool(options.directory) and not Directory(options.directory).holds_nothing()


@dataclass(slots=True)
class Session:
    """Choices for one compilation. Results are asked for by canonical text: identical fusions are tuned once."""

    backend: Backend[Launcher]
    compiling: CompileOptions
    options: TuningOptions
    tables: Tables = field(default_factory=lambda: PROCESS)
    _chosen: dict[str, Chosen] = field(default_factory=dict)

    def key(self, fingerprint: str) -> Key:
        return Key(device_text(self.backend.target), fingerprint)

    def begin(self, instrs: Sequence[Instr]) -> None:
        """Tunes what has no result, where that is asked for."""
        fresh = {canonical(instr): instr for instr in instrs}
        fresh = {text: instr for text, instr in fresh.items() if text not in self._chosen}
        progress = Progress(len(fresh), self.options.progress)
        for text, instr in fresh.items():
            progress.next()
            self._chosen[text] = self._choose(text, instr, progress)
        progress.end()

    def choose(self, instr: Instr) -> Chosen:
        text = canonical(instr)
        if text not in self._chosen:
            self.begin([instr])
        return self._chosen[text]

    def refused(self, instr: Instr, chosen: Chosen, reason: str) -> Chosen:
        said = f"the stored choice {spelled(chosen.choice)} is not one of its forms: {reason}"
        trace.once(f"autotune:{chosen.fingerprint}", f"autotuning result of {instr.name}: {said}; it is not used")
        trace.record("autotune", event="problem", instr=instr.name, fusion=chosen.fingerprint, reason=said)
        if self.options.tune and chosen.source != "tuned":
            found = self._tune(chosen.fingerprint, instr, Progress(1, self.options.progress))
        else:
            found = self._missing(chosen.fingerprint, instr, said)
        self._chosen[chosen.fingerprint] = found
        return found

    def settled(self, texts: Iterable[str]) -> tuple[str, ...] | None:
        """What would be chosen for these fingerprints, a word each; None where one would be tuned, or raise."""
        words = []
        for text in texts:
            found = self.tables.find(self.key(text), self.options)
            if found.entry is None and (self.options.require or (self.options.tune and not found.final)):
                return None
            words.append(repr(found.entry.choice) if found.entry is not None else UNSETTLED)
        return tuple(words)

    def _choose(self, text: str, instr: Instr, progress: Progress) -> Chosen:
        try:
            forms = len(self.backend.candidates(instr))
        except UnsupportedError as error:
            return Chosen(reason=f"it has no kernel: {error.message}")  # lowering it says so, and fusion splits it
        if forms < 2:
            return Chosen(reason="it has one form")
        found = self.tables.find(self.key(text), self.options)
        if found.entry is not None and found.entry.choice is not None:
            return Chosen(found.entry.choice, found.source, _said(found.entry), text)
        if self.options.tune and not found.final:
            return self._tune(text, instr, progress)
        return self._missing(text, instr, found.reason)

    def _missing(self, text: str, instr: Instr, reason: str) -> Chosen:
        if self.options.require:
            where = f" in {self.options.load}" if self.options.load else ""
            key = self.key(text)
            raise TuningError(
                f"{instr.name} has no autotuning result{where} ({reason}): {short(key)}",
                "Tune it with --xla_gpu_dump_autotune_results_to, or drop "
                "--xla_gpu_require_complete_aot_autotune_results",
            )
        return Chosen(reason=reason, fingerprint=text)

    def _tune(self, text: str, instr: Instr, progress: Progress) -> Chosen:
        _SPENT.seconds = self.options.budget_s
        if _SPENT.spent():
            reason = f"the {self.options.budget_s:g} s that tuning may take are spent"
            trace.once("autotune:budget", f"{reason}: kernels from here on have their default form")
            self.tables.give_up(self.key(text), reason)
            return self._missing(text, instr, reason)
        with _ONE_AT_A_TIME:
            found = self.tables.find(self.key(text), self.options)
            if found.entry is not None and found.source == "tuned":  # another thread was first
                return Chosen(found.entry.choice or DEFAULT, found.source, _said(found.entry), text)
            return self._tune_now(text, instr, progress)

    def _tune_now(self, text: str, instr: Instr, progress: Progress) -> Chosen:
        started = time.monotonic()
        try:
            entry = tune(self.backend, self.compiling, self.options, instr, self.key(text), None, progress)
        except (TfxlaError, MemoryError, OSError) as error:
            return self._failed(text, instr, error)
        except Exception as error:  # noqa: BLE001 - said and counted; the default form compiles as ever
            bugs.failed(f"tuning {instr.name}", error)
            return self._failed(text, instr, error)
        self.tables.add(entry, self.options)
        _record(entry, instr, time.monotonic() - started, self.backend.candidates(instr))
        assert entry.choice is not None
        return Chosen(entry.choice, "tuned", _said(entry), text)

    def _failed(self, text: str, instr: Instr, error: Exception) -> Chosen:
        reason = f"tuning failed: {error}"
        self.tables.give_up(self.key(text), reason)
        trace.record("autotune", event="failed", instr=instr.name, fusion=text, reason=reason)
        return self._missing(text, instr, reason)


def tune(
    backend: Backend[Launcher],
    compiling: CompileOptions,
    options: TuningOptions,
    instr: Instr,
    key: Key,
    known: Entry | None,
    progress: Progress,
) -> Entry:
    """The result of tuning one instruction; raises as Tuner.tune."""
    tuner = Tuner(backend, compiling, host.compile_threads(options.workers), _SPENT)
    return tuner.tune(instr, key, f"tfxla_cluster {__version__}", known, progress.candidates)


@contextmanager
def budget(seconds: float) -> Iterator[None]:
    """So many seconds for the tuning in a `with` block, whatever was used before; UsageError where that is no time."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
        raise UsageError(f"autotuning is given {seconds!r} as its seconds", "Give a number from 0 (0: no limit)")
    with flags.patch(tfxla_autotune_budget_s=math.ceil(seconds)):
        used, _SPENT.used = _SPENT.used, 0.0
        try:
            yield
        finally:
            _SPENT.used += used


def fingerprints(chosen: Iterable[Chosen]) -> tuple[str, ...]:
    """Those that results were asked for."""
    return tuple(sorted({c.fingerprint for c in chosen if c.fingerprint}))


def _said(entry: Entry) -> str:
    when = "" if entry.seconds is None else f"{entry.seconds * 1e6:.1f} us"
    return ", ".join(filter(None, (when, f"{len(entry.measured)} forms measured", entry.made_by)))


def _record(entry: Entry, instr: Instr, seconds: float, candidates: Sequence[Choice]) -> None:
    if not trace.wants("autotune"):
        return
    times = {m.choice: m.seconds for m in entry.measured}
    trace.record(
        "autotune",
        event="tuned",
        instr=instr.name,
        fusion=entry.key.hlo,
        device=entry.key.device,
        choice=dict(entry.choice or {}),
        ms=_ms(entry.seconds),
        default_ms=_ms(times.get(candidates[0])),
        candidates=[_row(m) for m in entry.measured],
        space=len(candidates),
        seconds=round(seconds, 3),
    )


def _row(measured: Measured) -> dict[str, Any]:
    return {
        "choice": dict(measured.choice),
        "ms": _ms(measured.seconds),
        "failure": measured.failure,
        "message": measured.message,
    }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1e3, 6)  # nanoseconds, as files have them


class Progress:
    """One line on a terminal: which of `count` kernels, how many of its candidates."""

    def __init__(self, count: int, wanted: bool) -> None:
        self._count, self._number, self._shown = count, 0, False
        self._wanted = wanted and sys.stderr.isatty()

    def next(self) -> None:
        """The next kernel."""
        self._number += 1

    def candidates(self, measured: int, space: int) -> None:
        """So many of the space are measured."""
        if self._wanted:
            self._shown = True
            line = f"autotuning kernel {self._number} of {self._count}: {measured} of {space} forms"
            print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)  # noqa: T201

    def end(self) -> None:
        """Take the line away."""
        if self._shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)  # noqa: T201
