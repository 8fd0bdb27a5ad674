"""Modules tried in a process of their own, by `tfxla-exec --serve`: what becomes of one, whatever it does."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..child_process import Child
from ..errors import TfxlaError
from ..ir import proto
from ..ir.node import Module
from . import arrays, stages

EXEC = "tfxla_cluster.cli.exec"
OK, WRONG, CRASH, ERROR, HANG, SLOW = "ok", "wrong", "crash", "error", "hang", "slow"
TIMEOUT_S = 120.0
_TAIL = 2000  # characters of what a process said before it died
_PARTICULARS = re.compile(r"%?[\w.-]*\d[\w.-]*|%[\w.-]+|'[^']*'|\[[^\]]*\]")


@dataclass(frozen=True, slots=True)
class Outcome:
    """`kind`: one of the above. `detail`: of a crash its signal, of an error its message. `report`: that of
    `tfxla-exec --json`, empty where the process did not answer. `said`: the end of the process's standard error."""

    kind: str
    detail: str = ""
    report: Mapping[str, Any] = field(default_factory=dict)
    said: str = ""

    @property
    def failed(self) -> bool:
        return self.kind != OK

    @property
    def worst(self) -> float:
        """The largest relative error among outputs, 0 where nothing was compared."""
        return max((c["max_rel"] or 0.0 for c in self.report.get("compared", ())), default=0.0)

    def words(self) -> str:
        """One line."""
        if self.kind == WRONG:
            wrong = [n for n, c in enumerate(self.report["compared"]) if c["mismatches"]]
            return f"wrong numbers in output {', '.join(map(str, wrong))} (relative error {self.worst:.3g})"
        kinds = {OK: "right", CRASH: "the process dies", ERROR: "fails", HANG: "does not end", SLOW: "slow"}
        return f"{kinds[self.kind]}: {self.detail}" if self.detail else kinds[self.kind]


def same(one: Outcome, other: Outcome) -> bool:
    """Whether both are the same failure: of one kind, by one signal, with one message up to names and numbers."""
    return one.kind == other.kind and _plain(one.detail) == _plain(other.detail)


def _plain(message: str) -> str:
    return _PARTICULARS.sub("_", message)


class Trials:
    """Asks one process after the other; use it in a `with`. `words`: flags that every run has. `timeout_s`: after which
    a run counts as one that does not end. `program`: the module whose --serve answers. `count`: of runs so far."""

    def __init__(self, words: Sequence[str] = (), timeout_s: float | None = None, program: str | None = None) -> None:
        self.words, self._program = tuple(words), program or EXEC
        self.timeout_s = TIMEOUT_S if timeout_s is None else timeout_s
        self.count = 0
        self._child: Child | None = None
        self._inputs: tuple[Sequence[np.ndarray[Any, Any]], list[str]] | None = None

    def __enter__(self) -> Trials:
        self._folder = tempfile.TemporaryDirectory(prefix="tfxla-replay-")
        self.directory = Path(self._folder.name)
        self._errors: IO[str] = (self.directory / "stderr").open("a+", errors="replace")
        return self

    def __exit__(self, *problem: object) -> None:
        if self._child is not None:
            self._child.kill()
            self._forget()
        self._errors.close()
        self._folder.cleanup()

    def run(self, module: Module, inputs: Sequence[np.ndarray[Any, Any]], *words: str) -> Outcome:
        """What becomes of `module` on `inputs` under more `words` of tfxla-exec."""
        path = self.directory / "module.hlo.pb"
        path.write_bytes(proto.write(module))
        given = [word for name in self._saved(inputs) for word in ("--input", name)]
        return self.ask([str(path), *given, *words, *self.words])

    def run_against(self, module: Module, base: Module, inputs: Sequence[np.ndarray[Any, Any]]) -> Outcome:
        """Whether the evaluator gives `module` the outputs that it gives `base`."""
        path = self.directory / "base.hlo.pb"
        path.write_bytes(proto.write(base))
        return self.run(module, inputs, "--backend", "evaluator", "--until", _form(module), "--base", str(path))

    def _saved(self, inputs: Sequence[np.ndarray[Any, Any]]) -> list[str]:
        if self._inputs is None or self._inputs[0] is not inputs:
            self._inputs = inputs, arrays.save(self.directory / "inputs", inputs)
        return self._inputs[1]

    def ask(self, words: Sequence[str]) -> Outcome:
        """What becomes of a command of `tfxla-exec` with these words."""
        self.count += 1
        if self._child is None:
            self._child = Child("tfxla-exec", self._program, ["--serve"], errors=self._errors)
        self._errors.truncate(0)
        late = threading.Event()
        timer = threading.Timer(self.timeout_s, _stop, (self._child, late))
        timer.start()
        try:
            report = self._child.ask(json.dumps(list(words)))
        except TfxlaError:
            return self._died(late)
        except json.JSONDecodeError:
            return self._died(late)
        finally:
            timer.cancel()
        return _outcome(report)

    def _died(self, late: threading.Event) -> Outcome:
        assert self._child is not None
        self._child.kill()
        code = self._child.wait()
        self._forget()
        if late.is_set():
            return Outcome(HANG, f"stopped after {self.timeout_s:g} s")
        said = Path(self._errors.name).read_text(errors="replace").strip()[-_TAIL:]
        return Outcome(CRASH, _signal(code), said=said)

    def _forget(self) -> None:
        assert self._child is not None
        with contextlib.suppress(OSError):
            self._child.close()
        self._child = None


def _form(module: Module) -> str:
    return stages.OPTIMISED if stages.is_optimised(module) else stages.NONE


def _stop(child: Child, late: threading.Event) -> None:
    late.set()
    child.kill()


def _signal(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _outcome(report: dict[str, Any]) -> Outcome:
    if "error" in report:
        return Outcome(ERROR, report["error"], report)
    return Outcome(OK if report["ok"] else WRONG, report=report)
