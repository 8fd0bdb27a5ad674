"""`tfxla-inspect replay`: a module run again beside a reference, in a process of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputFileError, TfxlaError, UsageError
from ..ir import verifier
from ..ir.node import Module
from . import arrays, edited, stages
from .module_file import ModuleFile, load
from .trials import CRASH, ERROR, HANG, Outcome, Trials
from .verdicts import verdict

Say = Callable[[str], None]
Array = np.ndarray[Any, Any]
RANDOM, SNAPSHOT, NO_REFERENCE = "random", "snapshot", "none"


@dataclass(frozen=True, slots=True)
class Wanted:
    """`inputs`: 'random', 'snapshot', or .npy files or a folder of input.N.npy; () means those of the snapshot where
    there is one. `reference`: a backend's name, 'snapshot' or 'none'. `kernel`: a file of edited kernels."""

    module: str
    backend: str = "cpu"
    reference: str = "evaluator"
    inputs: Sequence[str] = ()
    seed: int = 0
    repeat: int = 5
    rtol: float | None = None
    kernel: Path | None = None
    save: Path | None = None
    json: bool = False
    flags: Sequence[str] = ()


def run(wanted: Wanted, say: Say) -> int:
    """0: it ran, and agrees with the reference; 1: it differs, or the process that ran it died. Else TfxlaErrors."""
    file = load(wanted.module, wanted.seed)
    verifier.verify(file.module)
    values, what = inputs_of(file, wanted.inputs, wanted.seed)
    if wanted.reference == SNAPSHOT and not file.results:
        raise UsageError(f"{wanted.module} holds no results to compare with", "Give --reference evaluator or xla")
    with Trials(wanted.flags) as trials:
        outcome = _tried(trials, file, values, wanted)
        other = _without_edit(trials, file, values, wanted) if wanted.kernel is not None else None
    if outcome.kind == ERROR:
        raise _error(outcome)
    if wanted.json:
        say(json.dumps({**outcome.report, "inputs": what, "elided": list(file.elided), "ok": not outcome.failed}))
    else:
        say("\n".join(_lines(file, wanted, what, outcome, other)))
    return int(outcome.failed)


def inputs_of(file: ModuleFile, asked: Sequence[str], seed: int) -> tuple[list[Array], str]:
    """The inputs that are asked for (as `Wanted.inputs`), and what they are in words."""
    if list(asked) == [SNAPSHOT] and not file.arguments and file.module.entry.params:
        raise UsageError("the file holds no arguments: it is no snapshot", "Give --inputs random, or files")
    if (not asked or list(asked) == [SNAPSHOT]) and file.arguments:
        return arrays.flat(file.arguments), "those of the snapshot"
    if not asked or list(asked) in ([RANDOM], [SNAPSHOT]):
        return arrays.inputs(file.module, (), seed), f"random, seed {seed}"
    names = _files(asked, len(file.module.entry.params))
    return arrays.inputs(file.module, names, seed), ", ".join(names)


def _files(asked: Sequence[str], count: int) -> list[str]:
    """.npy files, those of a folder by number."""
    if len(asked) == 1 and Path(asked[0]).is_dir():
        found = [str(Path(asked[0]) / f"input.{number}.npy") for number in range(count)]
        missing = [name for name in found if not Path(name).exists()]
        if missing:
            raise InputFileError(f"{asked[0]} holds no {Path(missing[0]).name}", f"The module has {count} parameters")
        return found
    return list(asked)


def stage_words(module: Module) -> list[str]:
    """Words of tfxla-exec by which a module that is optimised already is left as it is."""
    return ["--until", stages.OPTIMISED] if stages.is_optimised(module) else []


def _words(wanted: Wanted, module: Module) -> list[str]:
    words = ["--backend", wanted.backend, "--repeat", str(wanted.repeat), *stage_words(module)]
    if wanted.reference not in (SNAPSHOT, NO_REFERENCE):
        words += ["--reference", wanted.reference]
    if wanted.rtol is not None:
        words += ["--rtol", str(wanted.rtol)]
    return words


def _tried(trials: Trials, file: ModuleFile, values: Sequence[Array], wanted: Wanted) -> Outcome:
    words = _words(wanted, file.module)
    if wanted.kernel is not None:
        edited.read(wanted.kernel)  # what is wrong with the file is said before anything runs
        words += ["--kernel", str(wanted.kernel.resolve())]
    folder = wanted.save or trials.directory / "run"
    outcome = trials.run(file.module, values, *words, "--save", str(folder.resolve()))
    if wanted.reference != SNAPSHOT or outcome.failed:
        return outcome
    outputs = [_loaded(folder / f"output.{n}.npy", like) for n, like in enumerate(file.results)]
    compared = [arrays.compare(a, b, wanted.rtol) for a, b in zip(outputs, arrays.flat(file.results))]
    ok = not any(c["mismatches"] for c in compared)
    return Outcome("ok" if ok else "wrong", report={**outcome.report, "compared": compared, "ok": ok})


def _loaded(path: Path, like: Any) -> Array:
    value = np.asarray(np.load(path))
    return value.view(like.dtype) if value.dtype.kind == "V" else value


def _without_edit(trials: Trials, file: ModuleFile, values: Sequence[Array], wanted: Wanted) -> Outcome:
    return trials.run(file.module, values, *_words(wanted, file.module))


def _error(outcome: Outcome) -> TfxlaError:
    """What the process raised, to be raised here."""
    error = TfxlaError(outcome.detail)
    error.exit_code = int(outcome.report.get("exit_code", 1))
    return error


def _lines(file: ModuleFile, wanted: Wanted, what: str, outcome: Outcome, other: Outcome | None) -> list[str]:
    count = sum(len(c.instrs) for c in file.module.computations())
    found = [f"{file.module.name}: {count} instructions; inputs: {what}"]
    found += [f"{place}: the literal was elided; it has random values" for place in file.elided]
    if stages.is_optimised(file.module):
        found.append("it is optimised already: no passes run")
    if outcome.kind in (CRASH, HANG):
        return [*found, outcome.words(), *outcome.said.splitlines()[-5:]]
    report = outcome.report
    compiled = sum(report.get("phases", {}).values())
    made = f"compiled in {compiled:.1f} ms, " if compiled else ""
    kernels = f"; {report['kernels']} kernels, {report['native_kernels']} native" if "kernels" in report else ""
    found.append(f"{wanted.backend}: {made}{_times(report, wanted.repeat)}{kernels}")
    if "reference_ms" in report:
        found.append(f"{wanted.reference}: fastest run {report['reference_ms']:.4g} ms")
    compared = report.get("compared") or [None] * len(report["outputs"])
    for number, (row, difference) in enumerate(zip(report["outputs"], compared)):
        shown = f"output {number}: {row['dtype']}{row['shape']}, sha256 {row['sha256']}"
        found.append(f"{shown}; {verdict(difference)}" if difference is not None else shown)
    if other is not None:
        found.append(_beside(report, other))
    return found


def _times(report: Any, repeat: int) -> str:
    return f"fastest of {repeat} runs {report['run_ms']:.4g} ms, median {report['median_ms']:.4g}"


def _beside(report: Any, other: Outcome) -> str:
    """The edited kernels' time beside those of the generated ones."""
    if other.kind in (CRASH, ERROR, HANG):
        return f"without the edit: {other.words()}"
    ratio = other.report["run_ms"] / max(report["run_ms"], 1e-9)
    errors = "right" if not other.failed else other.words()
    return (
        f"without the edit: fastest run {other.report['run_ms']:.4g} ms, {errors}; edited is {ratio:.3g} times as fast"
    )
