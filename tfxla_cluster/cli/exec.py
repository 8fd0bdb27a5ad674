"""tfxla-exec: compile and run one HLO module on this machine, and compare it with a reference.

MODULE is HLO text (.txt, .hlo, '-' for standard input) or a proto (.pb, also .pb.gz). Inputs are random,
the same for the same --seed, unless given. Flags of TFXLA_FLAGS may follow (`tfxla-run --help-flags`), such as
--xla_dump_to=DIR, and --tfxla_gpu_target=sm_90 for the kernels of a GPU that is not there. With --json the
last line on standard output is an object: module, ok, outputs (shape, dtype, sha256, nans, infs, minimum,
maximum), phases (ms), run_ms, steps, kernels (steps that run code), native_kernels (those of them that run
machine code), and with a reference compared (max_abs, max_rel, mismatches per output); where it failed:
error, exit_code.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import compiler, cross_compile, flag_options, flags
from ..backends import registry
from ..backends.backend import Launcher
from ..dump.sink import Sink
from ..errors import InputFileError, OutputError, TfxlaError, UnsupportedError, UsageError
from ..ir import dim, evaluator
from ..ir.node import Instr, Module
from ..passes import pipeline, pipelines, size_namer
from ..runtime.plan import count_kernels
from ..target import Target
from ..tuning import session, tables
from . import common
from .modules import read_module

NO_PASSES = "none"
# Element bits -> (relative, absolute) tolerance of a comparison.
_TOLERANCES = {64: (1e-9, 1e-12), 32: (1e-4, 1e-5), 16: (2e-2, 1e-2), 8: (0.5, 0.5)}


def entry() -> int:
    return common.run("tfxla-exec", main)


def main(argv: Sequence[str]) -> int:
    """0: it ran, and agrees with the reference where one was asked for; 1: it differs; else as EXIT_CODES."""
    options, words = _parser().parse_known_args(argv)
    try:
        with flags.patch(**flags.parse(shlex.join(words), "the command line")):
            report, code = execute(options)
    except TfxlaError as error:
        if options.json:
            print(
                json.dumps({"module": options.module, "ok": False, "error": str(error), "exit_code": error.exit_code})
            )
        raise
    print(json.dumps(report) if options.json else _lines(report))
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "tfxla-exec",
        description=__doc__,
        epilog=common.EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("module", metavar="MODULE")
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="FILE.npy",
        help="an input, in the order of the parameters; give it once a parameter",
    )
    parser.add_argument("--seed", type=common.number(int, 0, 2**63), default=0, help="of random inputs (default 0)")
    parser.add_argument(
        "--until", metavar="PASS", help=f"stop the passes after the last run of PASS ('{NO_PASSES}': run none)"
    )
    parser.add_argument("--no-fusion", action="store_true", help="each instruction is a kernel of its own")
    parser.add_argument(
        "--backend", choices=sorted(registry.BACKENDS), default="cpu", help="what compiles and runs it (default cpu)"
    )
    parser.add_argument("--reference", choices=["evaluator"], help="compare with the NumPy meaning of the module")
    parser.add_argument("--rtol", type=common.number(float, 0), help="relative tolerance (default by dtype)")
    parser.add_argument(
        "--repeat", type=common.number(int, 1, 10**9), default=1, help="runs; run_ms is the fastest (default 1)"
    )
    parser.add_argument("--save", metavar="DIR", help="write inputs and outputs as .npy")
    parser.add_argument("--json", action="store_true", help="report as one JSON object")
    return parser


def execute(options: argparse.Namespace) -> tuple[dict[str, Any], int]:
    """The report and the exit code."""
    module = read_module(options.module)
    _check_memory(module, with_all=bool(options.reference))
    inputs = _inputs(module, options.input, options.seed)
    backend = registry.named(options.backend)
    staged = _until(module, options.until, backend.target)
    how = replace(flag_options.compile_options(), fusion=not options.no_fusion)
    if options.until is not None:
        how = replace(how, passes=False)
    sink = Sink(flag_options.dump_options())
    tuning = flag_options.tuning_options()
    choices = session.choices(backend, how, tuning)
    try:
        made = compiler.compile_module(staged, backend, how, sink.module(module.name), choices)
    except UnsupportedError:  # the GPU may have a kernel where this machine has none
        cross_compile.dump_for_gpu(staged, module.name, sink, how)
        raise
    tables.PROCESS.dump(tuning)
    cross_compile.dump_for_gpu(staged, module.name, sink, how)
    count = count_kernels(made.plan)
    outputs, fastest = _timed_runs(made.executable, inputs, options.repeat)
    report: dict[str, Any] = {
        "module": module.name,
        "ok": True,
        "outputs": [describe(o) for o in outputs],
        "phases": {k: round(v, 3) for k, v in made.phases.items()},
        "run_ms": round(fastest * 1e3, 4),
        "steps": len(made.plan.steps),
        "kernels": count.kernels,
        "native_kernels": count.native,
    }
    if options.save:
        _save(Path(options.save), inputs, outputs)
    if options.reference:
        expected = _flat(evaluator.evaluate(size_namer.run(module), inputs))
        report["compared"] = [compare(a, b, options.rtol) for a, b in zip(outputs, expected)]
        report["ok"] = all(c["mismatches"] == 0 for c in report["compared"])
    return report, 0 if report["ok"] else 1


# --- inputs ---
def _inputs(module: Module, files: Sequence[str], seed: int) -> list[np.ndarray]:
    params = module.entry.params
    if not files:
        rng = np.random.default_rng(seed)
        return [_random(p, rng) for p in params]
    if len(files) != len(params):
        raise UsageError(f"{module.name} has {len(params)} parameters, --input was given {len(files)} times")
    return [_load(name, p) for name, p in zip(files, params)]


def _check_memory(module: Module, with_all: bool) -> None:
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


def _random(param: Instr, rng: np.random.Generator) -> np.ndarray:
    """Floats normal, integers 0 to 9, preds even; a symbolic size at its sample."""
    shape, dtype = _array_shape(param)
    if dtype.kind == "pred":
        return np.asarray(rng.integers(0, 2, shape), np.bool_)
    if dtype.is_integer:
        return np.asarray(rng.integers(0, 8 if dtype.bits == 4 else 10, shape)).astype(dtype.numpy)
    values = np.asarray(rng.normal(size=shape))
    if dtype.kind == "complex":
        values = values + 1j * rng.normal(size=shape)
    return np.asarray(values).astype(dtype.numpy)


def _load(name: str, param: Instr) -> np.ndarray:
    shape, dtype = _array_shape(param)
    value = _read(name)
    if value.dtype.kind == "V" and value.dtype.names is None and value.dtype.itemsize == dtype.itemsize:
        value = value.view(dtype.numpy)  # NumPy writes bf16 and the like as raw bytes
    if dtype.bits < 8 and dtype.is_integer and value.dtype.kind in "iu":
        value = _narrow(name, value, dtype)
    if value.shape != shape or value.dtype != dtype.numpy:
        got = f"{value.dtype}{list(value.shape)}"
        raise InputFileError(f"{name}: parameter {param.name} is {param.shape}, the file holds {got}")
    return np.asarray(value)


def _read(name: str) -> np.ndarray:
    """The array in a .npy file; InputFileError where it cannot be read or holds something else."""
    try:
        with open(name, "rb") as file:
            if file.read(len(np.lib.format.MAGIC_PREFIX)) != np.lib.format.MAGIC_PREFIX:
                raise InputFileError(f"{name} is no .npy file", "Write it with numpy.save")
            file.seek(0)
            return np.asarray(np.lib.format.read_array(file, allow_pickle=False))
    except OSError as error:
        raise InputFileError(f"cannot read {name}: {error.strerror}") from None
    except (ValueError, EOFError) as error:
        objects = "Object arrays" in str(error)
        problem = "it holds Python objects, not numbers" if objects else "it is not whole, or its header is damaged"
        raise InputFileError(f"cannot read {name} as .npy: {problem}", "Write it with numpy.save") from None


def _narrow(name: str, value: np.ndarray, dtype: Any) -> np.ndarray:
    """Integers as those of less than eight bits, for which NumPy has no type of its own."""
    low = -(1 << dtype.bits - 1) if dtype.kind == "int" else 0
    high = low + (1 << dtype.bits) - 1
    if value.size and not (low <= value.min() and value.max() <= high):
        raise InputFileError(f"{name}: {dtype.name} holds {low} to {high}, the file {value.min()} to {value.max()}")
    return value.astype(dtype.numpy)


def _array_shape(param: Instr) -> tuple[tuple[int, ...], Any]:
    if not param.shape.is_array or param.shape.dtype is None:
        problem = f"parameter {param.name} is a {param.shape.kind}"
        raise UsageError(problem, "Only array parameters can be fed")
    return tuple(dim.sample(d) for d in param.shape.dims), param.shape.dtype


def _until(module: Module, name: str | None, target: Target) -> Module:
    """The module after the passes up to the last run of pass `name`."""
    if name is None or name == NO_PASSES:
        return module
    passes = pipelines.optimize(target)
    positions = [n for n, p in enumerate(passes) if p.name == name]
    if not positions:
        known = ", ".join(dict.fromkeys(p.name for p in passes))
        raise UsageError(f"no pass is called '{name}'", f"Passes in order: {known}")
    return pipeline.run(module, "optimize", passes[: positions[-1] + 1], None)


# --- running and reporting ---
def _timed_runs(executable: Launcher, inputs: list[np.ndarray], repeat: int) -> tuple[list[np.ndarray], float]:
    """The outputs of the last run, and the seconds of the fastest."""
    fastest = float("inf")
    outputs: list[np.ndarray] = []
    for _ in range(max(1, repeat)):
        start = time.perf_counter()
        outputs = executable.run(inputs)
        fastest = min(fastest, time.perf_counter() - start)
    return outputs, fastest


def describe(array: np.ndarray) -> dict[str, Any]:
    """An output in a few numbers."""
    row: dict[str, Any] = {
        "shape": list(array.shape),
        "dtype": array.dtype.name,
        "sha256": hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16],
    }
    if array.size and array.dtype.kind != "c":
        wide = array.astype(np.float64)
        finite = wide[np.isfinite(wide)]
        row.update(nans=int(np.isnan(wide).sum()), infs=int(np.isinf(wide).sum()))
        if finite.size:
            row.update(minimum=float(np.min(finite)), maximum=float(np.max(finite)))
    return row


def compare(mine: np.ndarray, expected: np.ndarray, rtol: float | None = None) -> dict[str, Any]:
    """Largest errors among finite elements, and how many elements are outside the tolerance."""
    if mine.shape != expected.shape or mine.dtype != expected.dtype:
        return {
            "mismatches": max(mine.size, 1),
            "max_abs": None,
            "max_rel": None,
            "reason": f"{mine.dtype}{list(mine.shape)} against {expected.dtype}{list(expected.shape)}",
        }
    kind = np.complex128 if mine.dtype.kind == "c" else np.float64
    exact = mine.dtype.kind in "biu"
    a, b = mine.astype(kind), expected.astype(kind)
    bits = mine.dtype.itemsize * 8 // (2 if mine.dtype.kind == "c" else 1)
    relative, absolute = (0.0, 0.0) if exact else _TOLERANCES[bits]
    close = np.isclose(a, b, rtol=relative if rtol is None else rtol, atol=absolute, equal_nan=True)
    if exact:
        close = mine == expected
    finite = np.isfinite(a) & np.isfinite(b)
    with np.errstate(invalid="ignore"):
        error = np.where(finite, np.abs(a - b), 0.0)
    scale = np.where(finite, np.abs(b), 1.0)
    ratio = error / np.where(scale == 0, 1.0, scale)
    return {
        "mismatches": int((~close).sum()),
        "max_abs": float(np.max(error, initial=0.0)),
        "max_rel": float(np.max(ratio, initial=0.0)),
    }


def _flat(values: Sequence[Any]) -> list[np.ndarray]:
    return [leaf for v in values for leaf in (_flat(v) if isinstance(v, tuple) else [np.asarray(v)])]


def _save(directory: Path, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, arrays in (("input", inputs), ("output", outputs)):
            for number, array in enumerate(arrays):
                np.save(directory / f"{name}.{number}.npy", array)
    except OSError as error:
        raise OutputError(f"cannot write {directory}: {error.strerror}") from None


def _lines(report: dict[str, Any]) -> str:
    """The report for people."""
    total = sum(report["phases"].values())
    lines = [
        f"{report['module']}: compiled in {total:.1f} ms, ran in {report['run_ms']:.3f} ms, {report['steps']} steps"
    ]
    compared = report.get("compared") or [None] * len(report["outputs"])
    for number, (row, found) in enumerate(zip(report["outputs"], compared)):
        extent = f", {row['minimum']:.6g} to {row['maximum']:.6g}" if "minimum" in row else ""
        line = f"output {number}: {row['dtype']}{row['shape']}{extent}, sha256 {row['sha256']}"
        if found is not None:
            verdict = "agrees" if found["mismatches"] == 0 else f"differs in {found['mismatches']} elements"
            line += f"; {verdict} (largest error {found['max_abs']})"
        lines.append(line)
    return "\n".join(lines)
