"""One module run by a backend, timed, and compared with a reference."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import compiler, cross_compile, flag_options, output_file
from ..backends import registry
from ..backends.backend import Backend, Launcher
from ..dump.sink import Sink
from ..errors import UnsupportedError, UsageError
from ..ir import dim, evaluator, proto, verifier
from ..ir.node import Module
from ..passes import size_namer
from ..runtime.plan import count_kernels
from ..tuning import session, tables
from . import arrays, edited, stages, xla

Array = np.ndarray[Any, Any]
Run = Callable[[Sequence[Array]], list[Array]]
EVALUATOR, XLA = "evaluator", "xla"
BACKENDS = (*sorted(registry.BACKENDS), EVALUATOR, XLA)
REFERENCES = (EVALUATOR, XLA)


@dataclass(frozen=True, slots=True)
class Request:
    """`until`: a stage (`stages.module_at`), after which the module runs as it then is; None: the whole pipeline.
    `fusion`: whether instructions share kernels. `reference`: one of REFERENCES or ''. `rtol`: relative tolerance, by
    dtype where None. `repeat`: runs. `kernel`: a file of edited kernels (`edited.read`).
    `emit`: where the module goes, as a proto, as it is after the stage. `base`: the module whose meaning
    is the reference."""

    backend: str = "cpu"
    reference: str = ""
    until: str | None = None
    fusion: bool = True
    rtol: float | None = None
    repeat: int = 1
    kernel: Path | None = None
    emit: Path | None = None
    base: Module | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A module ready to run; `facts` are fields of the report."""

    run: Run
    facts: Mapping[str, Any] = field(default_factory=dict)


def execute(module: Module, inputs: Sequence[Array], request: Request) -> tuple[dict[str, Any], list[Array]]:
    """The report and the outputs. The report's fields are those that `tfxla-exec --help` names; `ok` is false where
    outputs differ from the reference."""
    check_memory(module, with_all=bool(request.reference) or request.backend == EVALUATOR)
    prepared = prepare(module, request)
    outputs, times = timed(prepared.run, inputs, request.repeat)
    report: dict[str, Any] = {
        "module": module.name,
        "ok": True,
        "outputs": [arrays.describe(o) for o in outputs],
        **prepared.facts,
        **times,
    }
    if request.reference or request.base is not None:
        right = Request(request.reference or EVALUATOR)
        expected, took = timed(prepare(request.base or module, right).run, inputs, request.repeat)
        report["reference_ms"] = took["run_ms"]
        report["compared"] = [arrays.compare(a, b, request.rtol) for a, b in zip(outputs, expected)]
        report["ok"] = all(c["mismatches"] == 0 for c in report["compared"])
    return report, outputs


def prepare(module: Module, request: Request) -> Prepared:
    """Compiles, for the backends that do. Errors as those of `compiler.compile_module` and `xla.prepare`."""
    if request.kernel is not None and request.backend in REFERENCES:
        raise UsageError(f"--backend {request.backend} has no kernels to edit", "Take --backend cpu or gpu")
    backend = registry.named("cpu" if request.backend in REFERENCES else request.backend)
    staged = stages.module_at(module, request.until, backend)
    if request.emit is not None:
        output_file.write(request.emit, proto.write(staged))
    if request.backend == XLA:
        return Prepared(xla.prepare(staged))
    if request.backend == EVALUATOR:
        return Prepared(_evaluated(staged))
    return _ours(staged, backend, request)


def _evaluated(module: Module) -> Run:
    verifier.verify(module)
    named = size_namer.run(module)
    return lambda inputs: arrays.flat(evaluator.evaluate(named, inputs))


def _ours(module: Module, backend: Backend[Launcher], request: Request) -> Prepared:
    how = replace(flag_options.compile_options(), fusion=request.fusion)
    if request.until is not None:
        how = replace(how, passes=False, fusion=request.fusion and request.until != stages.FUSION)
    if request.kernel is not None:
        backend = edited.Edited(backend, edited.read(request.kernel), request.kernel)
    sink = Sink(flag_options.dump_options())
    tuning = flag_options.tuning_options()
    choices = session.choices(backend, how, tuning)
    try:
        made = compiler.compile_module(module, backend, how, sink.module(module.name), choices)
    except UnsupportedError:  # the GPU may have a kernel where this machine has none
        cross_compile.dump_for_gpu(module, module.name, sink, how)
        raise
    tables.PROCESS.dump(tuning)
    cross_compile.dump_for_gpu(module, module.name, sink, how)
    count = count_kernels(made.plan)
    facts = {
        "phases": {k: round(v, 3) for k, v in made.phases.items()},
        "steps": len(made.plan.steps),
        "kernels": count.kernels,
        "native_kernels": count.native,
    }
    return Prepared(made.executable.run, facts)


def timed(run: Run, inputs: Sequence[Array], repeat: int) -> tuple[list[Array], dict[str, float]]:
    """The outputs of the last run, and milliseconds: of the fastest and the median."""
    seconds: list[float] = []
    outputs: list[Array] = []
    for _ in range(max(1, repeat)):
        start = time.perf_counter()
        outputs = run(inputs)
        seconds.append(time.perf_counter() - start)
    median = round(statistics.median(seconds) * 1e3, 4)
    return outputs, {"run_ms": round(min(seconds) * 1e3, 4), "median_ms": median}


def check_memory(module: Module, with_all: bool) -> None:
    """UsageError where an input or a result takes more memory than the machine has; `with_all`: any array of the entry,
    as the evaluator stores each. Kernels need not: what is reduced where it is computed lies nowhere."""
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    entry, root = module.entry, module.entry.root
    ends = (*entry.params, *(root.operands if root.opcode == "tuple" else (root,)))
    for instr in entry.instrs if with_all else ends:
        if instr.shape.is_array and dim.sample(instr.shape.byte_size) > there:
            size = f"{dim.sample(instr.shape.byte_size) / 2**30:,.0f} GiB"
            problem = f"{instr.name}, {instr.shape}, takes {size}, and this machine has {there / 2**30:,.0f} GiB"
            raise UsageError(problem, "Run the module at smaller sizes")
