"""`tfxla-bench gpu`: bundles of modules, made here or anywhere, and measured on this machine's GPU."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import flag_options, output_file
from ..backends import gpu
from ..bench import gpu_beside, gpu_bundle, gpu_suite, plot
from ..codegen.kernel.choice import UNTUNED
from ..decision import Decision, no
from ..errors import OutputError, TfxlaError, UnsupportedError, UsageError
from ..tuning import session, tables

if TYPE_CHECKING:
    from ..bench.gpu_rows import GpuRow


def make_bundle(options: argparse.Namespace) -> int:
    """Writes the rows' modules and code for --target; 0 also where some row has no code, which is said."""
    directory = Path(options.make_bundle)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {directory}: {error.strerror}") from None
    for row in _chosen(options.filter):
        refused = gpu_bundle.make(row, directory, options.target, flag_options.compile_options())
        print(f"{row.case}: {refused or 'made'}", flush=True)
    return 0


def _chosen(pattern: str) -> list[GpuRow]:
    rows = [row for row in gpu_suite.all_rows() if pattern in row.case or pattern in row.family]
    if not rows:
        raise UsageError(f"no row matches --filter={pattern}", "Leave --filter out to take all rows")
    return rows


def run(options: argparse.Namespace) -> int:
    """Measures the modules of --modules; 1 where ours or a peer that the suite names has no figure in some row."""
    gpu_beside.check_installed()
    backend = gpu.this_machine()
    rows = {row.file: row for row in gpu_suite.all_rows()}

    def wanted(name: str) -> bool:
        said = (rows[name].case, rows[name].family) if name in rows else (name,)
        return any(options.filter in word for word in said)

    results = []
    for case in gpu_bundle.cases(Path(options.modules), backend.target.arch, wanted):
        results.append(gpu_suite.run(case, rows.get(case.name), _executable(case, backend), options.rounds))
        print("\n".join(lines(results[-1])), flush=True)
    if not results:
        raise UsageError(f"no module matches --filter={options.filter}", "Leave --filter out to run all modules")
    return _report(results, backend.target.arch, options)


def run_tensorflow(options: argparse.Namespace) -> int:
    """Measures the rows through TensorFlow on its first GPU; the result as of `run`."""
    from ..bench import gpu_tensorflow

    machine = gpu_tensorflow.machine()
    gpu_beside.check_installed()
    results = []
    with gpu_beside.peers() as peers:
        for row in _chosen(options.filter):
            results.append(gpu_tensorflow.run(row, options.rounds, peers))
            print("\n".join(lines(results[-1])), flush=True)
    return _report(results, machine, options)


def run_steps(options: argparse.Namespace) -> int:
    """Measures steps of whole models through TensorFlow; the result as of `run`."""
    from ..bench import gpu_tensorflow
    from ..bench.steps import turns
    from ..bench.steps.table import BATCHES

    machine = gpu_tensorflow.machine()
    chosen = {name: options.batch or batch for name, batch in BATCHES.items() if options.filter in name}
    if not chosen:
        raise UsageError(f"no step matches --filter={options.filter}", f"There are {'; '.join(BATCHES)}")
    results = []
    for name, batch in chosen.items():
        results.append(turns.run(name, batch, options.rounds))
        print("\n".join(lines(results[-1])), flush=True)
    return _report(results, machine, options)


def _report(results: Sequence[gpu_suite.Result], machine: str, options: argparse.Namespace) -> int:
    """Prints the families, writes JSON and plot where they are asked for; 1 where a figure is missing."""
    families = summary(results)
    for name, figures in families.items():
        print(f"{name}: " + ", ".join(f"{key} {value:.2f}" for key, value in figures.items()))
    if options.plot:
        plot.write(options.plot, machine, [(r.case, {n: t.median for n, t in r.timings.items()}) for r in results])
    if options.json:
        missing = sorted({name for r in results for name in r.failed if name != gpu_suite.OURS})
        rows = [r.data() for r in results]
        data = {"gpu": machine, "rows": rows, "families": families, "missing_peers": missing}
        output_file.write(options.json, json.dumps(data, indent=1).encode())
    return int(any(r.failed for r in results))


def _executable(case: gpu_bundle.Case, backend: gpu.Gpu) -> Any | Decision:
    """Of the bundle's code, or compiled now (so where flags ask for tuned kernels); the Decision against it where the
    GPU has no kernel for something."""
    if case.refused:
        return no("refused", case.refused)
    how, tuning = flag_options.compile_options(), flag_options.tuning_options()
    choices = session.choices(backend, how, tuning)
    try:
        if case.code is not None and choices is UNTUNED:
            return backend.load(*case.code, how)
        from ..compiler import compile_module

        made = compile_module(case.module, backend, how, choices=choices).executable
        tables.PROCESS.dump(tuning)
        return made
    except UnsupportedError as error:
        return no("refused", str(error))
    except TfxlaError as error:
        return no("failed", str(error))


def lines(result: gpu_suite.Result) -> list[str]:
    """A case for people: milliseconds by state, ratios above 1 where this package is quicker."""
    found = []
    for state, timings in (("burst", result.burst), ("sustained", result.sustained)):
        if timings:
            ratios = result.ratios(timings)
            times = " ".join(f"{name} {t.median:.4f}" for name, t in timings.items())
            best = f"{min(ratios.values()):.3f} x best peer; " if ratios else ""
            found.append(f"{result.case} [{state}]: {best}{times}")
    for name, details in result.details.items():
        found.append(f"{result.case}: {name}: " + ", ".join(f"{key} {value:.4g}" for key, value in details.items()))
    return found + [f"{result.case}: no figure of {name}: {reason}" for name, reason in result.failed.items()]


def summary(results: Sequence[gpu_suite.Result]) -> dict[str, dict[str, float]]:
    """By family: geometric means of the ratios to XLA and to the best peer, and the worst of the latter."""
    families: dict[str, dict[str, float]] = {}
    for family in dict.fromkeys(result.family for result in results):
        ratios = [r.ratios(r.timings) for r in results if r.family == family]
        best = [min(found.values()) for found in ratios if found]
        if best:
            families[family] = {"vs_best_peer": _mean(best), "worst_vs_best_peer": min(best)}
        for key, name in (("vs_xla", gpu_suite.XLA), ("vs_stock_jit", gpu_suite.STOCK)):
            if any(name in found for found in ratios):
                families[family][key] = _mean([found[name] for found in ratios if name in found])
    return families


def _mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))
