"""Tuning inside TensorFlow, from the search to a run that loads its file: products, convolutions, attention.

    python -m tests.device.tuning_check                    # on the first GPU: all phases, each in a process of its own
    python -m tests.device.tuning_check --small            # at small sizes, also where there is no GPU
    python -m tests.device.tuning_check tune FILE DUMP     # one phase

Phases: `tune` searches, within --budget seconds, and writes FILE (its kernels are dumped into DUMP); `use` loads FILE,
in the mode in which a kernel without a result is an error, and times each program in its tuned, its untuned and
TensorFlow's own form by turns; `kernels` times the chosen form of each kernel of DUMP beside its default once more.
`use` runs twice: exit code 1 where the bits of the two differ, where values are far from TensorFlow's, or where a
chosen kernel is slower.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tfxla_cluster import compiler
from tfxla_cluster.backends.backend import Backend, Launcher
from tfxla_cluster.codegen.kernel import library_convolution, library_product
from tfxla_cluster.codegen.kernel.choice import DEFAULT, Choice, Given
from tfxla_cluster.ir import text
from tfxla_cluster.ir.node import Instr
from tfxla_cluster.options import CompileOptions
from tfxla_cluster.runtime import plan_builder
from tfxla_cluster.tuning import check, fingerprint
from tfxla_cluster.tuning.persisted import files
from tfxla_cluster.tuning.persisted.results import Results, spelled
from tfxla_cluster.tuning.trial import trial
from tfxla_cluster.tuning.tuner import alone, interleaved

STEPS = 3  # of a program, after which its values are compared
ROUNDS, CALLS = 7, 5  # of the timing by turns
NEAR = 0.03  # of the largest element: bf16, sums in other orders, steps that amplify them
SLOWER = 1.03  # than its default may a chosen kernel be at most when both are timed again
BUDGET_S = 100


@dataclass(frozen=True)
class Program:
    """`make()`: a step, and the arguments it is called with. Its values: what the last step returned, and the
    variables that `make` made."""

    name: str
    make: Callable[[], tuple[Callable[..., Any], Sequence[Any]]]


def programs(small: bool) -> list[Program]:
    """Those whose kernels are all to be tuned first, last the one for which the budget may not do."""
    return [
        Program("feed forward", lambda: _feed_forward(*((64, 32, 64) if small else (8192, 768, 3072)))),
        Program("convolutions", lambda: _convolutions(*((2, 8, 8) if small else (64, 28, 128)))),
        Program("bert", lambda: _bert(small)),
    ]


def _drawn(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def _feed_forward(rows: int, width: int, inner: int) -> tuple[Callable[..., Any], Sequence[Any]]:
    """Two products around gelu in bf16, normalised, with all gradients."""
    import tensorflow as tf

    def step(x: Any, up: Any, bias: Any, down: Any) -> Any:
        args = (x, up, bias, down)
        with tf.GradientTape() as tape:
            tape.watch(args)
            wide = tf.nn.gelu(x @ up + bias, approximate=True)
            y = tf.cast(x + wide @ down, tf.float32)
            y -= tf.reduce_mean(y, -1, keepdims=True)
            loss = tf.reduce_mean(tf.square(y) * y)
        return [loss, *tape.gradient(loss, args)]

    shapes = ((rows, width), (width, inner), (inner,), (inner, width))
    scales = (1.0, width**-0.5, 0.1, inner**-0.5)
    drawn = [_drawn(*shape, seed=n, scale=s) for n, (shape, s) in enumerate(zip(shapes, scales))]
    return step, [tf.constant(a, tf.bfloat16) for a in drawn]


def _convolutions(batch: int, side: int, features: int) -> tuple[Callable[..., Any], Sequence[Any]]:
    """Convolutions of bf16 whose sums are read in f32, one with a stride, one of f32, with all gradients."""
    import tensorflow as tf

    def step(x: Any, first: Any, second: Any, third: Any) -> Any:
        args = (x, first, second, third)
        with tf.GradientTape() as tape:
            tape.watch(args)
            y = tf.cast(tf.nn.conv2d(x, first, 1, "SAME"), tf.float32)
            y *= tf.math.rsqrt(tf.reduce_mean(tf.square(y), (0, 1, 2)) + 1e-5)
            y = tf.nn.relu(tf.nn.conv2d(tf.cast(tf.nn.relu(y), tf.bfloat16), second, 2, "SAME"))
            z = tf.nn.conv2d(tf.cast(y, tf.float32), third, 1, "SAME")
            loss = tf.reduce_mean(tf.square(z))
        return [loss, *tape.gradient(loss, args)]

    window = (3, 3, features, features)
    drawn = [_drawn(*window, seed=n, scale=(9 * features) ** -0.5) for n in range(3)]
    image = tf.constant(_drawn(batch, side, side, features, seed=4), tf.bfloat16)
    narrow = [tf.constant(a, tf.bfloat16) for a in drawn[:2]]
    return step, [image, *narrow, tf.constant(drawn[2])]


def _bert(small: bool) -> tuple[Callable[..., Any], Sequence[Any]]:
    """A training step of BERT with one layer: attention, a large table, AdamW."""
    from tfxla_cluster.bench.steps import bert
    from tfxla_cluster.bench.steps.transformer import Size

    size = Size(layers=1, hidden=32, heads=2, inner=64, words=97, tokens=8) if small else Size(layers=1)
    return bert.training_step(size), bert.data(3 if small else 16, size)


class Form:
    """A program in one form: `flags` for its first call, under which it is compiled; `native`: by this package."""

    def __init__(self, program: Program, native: bool, **flags: object) -> None:
        import tensorflow as tf

        import tfxla_cluster

        variables: list[Any] = []

        def made(create: Callable[..., Any], **how: Any) -> Any:
            variables.append(create(**how))
            return variables[-1]

        with tf.variable_creator_scope(made):
            step, self._args = program.make()
        self._step = tf.function(step, jit_compile=True if native else None, autograph=False)
        begin = time.perf_counter()
        with tfxla_cluster.config.patch(**flags):
            last = self._step(*self._args)
        self.first_s = time.perf_counter() - begin
        for _ in range(STEPS - 1):
            last = self._step(*self._args)
        self.values = [np.asarray(t) for t in (*tf.nest.flatten(last), *variables)]

    def digest(self) -> str:
        """Of the bits of all values."""
        return hashlib.sha256(b"".join(v.tobytes() for v in self.values)).hexdigest()[:16]

    def calls(self) -> float:
        """Milliseconds of a step, of CALLS in a row."""
        import tensorflow as tf

        begin = time.perf_counter()
        for _ in range(CALLS):
            last = self._step(*self._args)
        np.asarray(tf.nest.flatten(last)[0])
        return (time.perf_counter() - begin) / CALLS * 1e3


def distance(values: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> float:
    """Of the values, by the largest element of each array."""
    worst = 0.0
    for a, b in zip(values, wanted, strict=True):
        wide, other = a.astype(np.float64), b.astype(np.float64)
        worst = max(worst, float(np.abs(wide - other).max(initial=0.0) / max(np.abs(other).max(initial=0.0), 1e-30)))
    return worst


# --- phases ---
def tune(small: bool, path: str, dump: str, budget: int) -> dict[str, str]:
    """The digest of each program's values; prints what was tuned, and what was found."""
    import tfxla_cluster

    flags = {"xla_gpu_dump_autotune_results_to": path, "tfxla_autotune_budget_s": budget, "xla_dump_to": dump}
    digests, seen = {}, 0
    with tfxla_cluster.enable(**flags):
        for program in programs(small):
            form = Form(program, True)
            digests[program.name] = form.digest()
            if not tfxla_cluster.stats()["native_kernels"]:
                sys.exit(f"nothing is compiled: {tfxla_cluster.stats()['fallback_reasons']}")
            records = _records(Path(dump))
            print(f"{program.name}: first step {form.first_s:.1f} s; {'; '.join(told(records[seen:]))}", flush=True)
            seen = len(records)
    return digests


def _records(dump: Path) -> list[dict[str, Any]]:
    """What tuning wrote into the trace."""
    found = []
    for path in sorted(dump.glob("trace.*.jsonl")):
        found += [r for r in map(json.loads, path.read_text().splitlines()) if r.get("kind") == "autotune"]
    return found


def told(records: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Of one program: how much was measured, in which time, and what won."""
    tuned = [r for r in records if r["event"] == "tuned"]
    measured, space = (sum(map(count, tuned)) for count in (lambda r: len(r["candidates"]), lambda r: r["space"]))
    yield f"{len(tuned)} kernels in {sum(r['seconds'] for r in tuned):.1f} s, {measured} of {space} forms measured"
    large = [r for r in tuned if r["space"] > 100]
    if large:
        share = sum(len(r["candidates"]) for r in large) / sum(r["space"] for r in large)
        yield f"{share:.3f} of the {len(large)} spaces beyond 100"
    won: dict[str, int] = {}
    for r in tuned:
        won[maker(r)] = won.get(maker(r), 0) + 1
    yield ", ".join(f"{name} {count}" for name, count in sorted(won.items()))
    before, after = (sum(r[name] or 0.0 for r in tuned) for name in ("default_ms", "ms"))
    yield f"defaults {before:.3f} ms, chosen {after:.3f} ms, each once"
    fallen: dict[str, int] = {}
    for r in tuned:
        for c in r["candidates"]:
            word = f"{c['failure']} of {'a library' if library(c['choice']) else 'ours'}"
            if c["failure"] and not c["message"].startswith("the same code"):
                fallen[word] = fallen.get(word, 0) + 1
    yield f"fell out: {fallen}"
    for r in records:
        if r["event"] in ("failed", "problem"):
            yield f"{r['event']}: {r.get('instr', '')}: {r['reason'][:200]}"


def library(choice: Mapping[str, int]) -> str:
    """Whose algorithm a choice is; '' where it is a form of our kernels."""
    made = Choice(choice)
    if library_product.chosen(made):
        return "cuBLASLt"
    return "cuDNN" if library_convolution.chosen(made) else ""


def maker(record: Mapping[str, Any]) -> str:
    """What won: a library, our default, another form of ours."""
    if named := library(record["choice"]):
        return named
    default = next((c["choice"] for c in record["candidates"] if c["ms"] == record["default_ms"]), {})
    return "default" if record["choice"] == default else "tuned form"


def use(small: bool, path: str) -> tuple[dict[str, str], list[str]]:
    """The digests with the file loaded, and what is wrong; prints the times of each form by turns."""
    import tfxla_cluster

    digests, wrong = {}, []
    with tfxla_cluster.enable(xla_gpu_load_autotune_results_from=path, tf_xla_auto_jit="0"):
        for program in programs(small):
            tuned = _complete(program)
            digests[program.name] = tuned.digest()
            untuned = Form(program, True, xla_gpu_autotune_level=0)
            graph = Form(program, False)
            forms = {"tuned": tuned, "untuned": untuned, "graph": graph}
            times: dict[str, list[float]] = {name: [] for name in forms}
            for _ in range(ROUNDS):
                for name, form in forms.items():
                    times[name].append(form.calls())
            said = ", ".join(f"{name} {statistics.median(ms):.3f}" for name, ms in times.items())
            far = [distance(form.values, graph.values) for form in (tuned, untuned)]
            print(f"{program.name}: ms {said}; off by {far[0]:.1e}, untuned {far[1]:.1e}", flush=True)
            print(f"  first step: {tuned.first_s:.1f} s, untuned {untuned.first_s:.1f} s", flush=True)
            if not max(far) < NEAR:
                wrong.append(f"{program.name} is off by {max(far):.1e}")
    return digests, wrong


def _complete(program: Program) -> Form:
    """In its tuned form; a kernel without a result is told, and has its default."""
    import tensorflow as tf

    try:
        return Form(program, True, xla_gpu_require_complete_aot_autotune_results=True)
    except tf.errors.InvalidArgumentError as error:
        print(f"{program.name}: {error.message[:400]}", flush=True)
        return Form(program, True)


def kernels(path: str, dump: str, backend: Backend[Launcher]) -> list[str]:
    """Each chosen form beside its default, timed again: the worst ratios are printed; those beyond SLOWER."""
    chosen = dict(_chosen(files.read(path), Path(dump), backend))
    rows = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = {
            instr: [pool.submit(_compiled, instr, backend, c) for c in (DEFAULT, chosen[instr])] for instr in chosen
        }
    for instr, made in jobs.items():
        failed = [str(job.exception()) for job in made if job.exception() is not None]
        if failed:
            rows.append((math.inf, 0.0, f"{instr.name}: {failed[0]}", chosen[instr]))
            continue
        inputs = check.inputs(alone(instr)[0].entry.params, fingerprint.canonical(instr))
        trials = {c: trial(job.result(), inputs) for c, job in zip((DEFAULT, chosen[instr]), made)}
        seconds = interleaved(trials, 2 * ROUNDS)
        for one in trials.values():
            one.close()
        rows.append((seconds[chosen[instr]] / seconds[DEFAULT], seconds[DEFAULT] * 1e6, instr.name, chosen[instr]))
    rows.sort(key=lambda row: -row[0])
    lines = [f"{ratio:.3f} of {us:.1f} us: {name} as {spelled(choice)}" for ratio, us, name, choice in rows]
    print(f"{len(rows)} kernels in another form than their default, over it:", *lines, sep="\n", flush=True)
    return [line for line, (ratio, *_) in zip(lines, rows) if ratio > SLOWER]


def _chosen(results: Results, dump: Path, backend: Backend[Launcher]) -> Iterator[tuple[Instr, Choice]]:
    """Each kernel of the dumped modules that has another form than its default, once."""
    by_text = {key.hlo: entry.choice for key, entry in results.items()}
    for path in sorted(dump.glob("*_after_optimizations.txt")):
        for instr in plan_builder.unit_instructions(text.parse(path.read_text())):
            choice = by_text.pop(fingerprint.canonical(instr), None)
            if choice and choice != backend.candidates(instr)[0]:
                yield instr, choice


def _compiled(instr: Instr, backend: Backend[Launcher], choice: Choice) -> Launcher:
    options = CompileOptions(passes=False, fusion=False, least_graph=0)
    return compiler.compile_module(alone(instr)[0], backend, options, choices=Given(instr.name, choice)).executable


# --- all of them ---
def run(small: bool, budget: int, keep: str) -> list[str]:
    """Every phase in a process of its own; what is wrong. `keep`: a folder for file and dump, '' for none."""
    with nullcontext(keep) if keep else tempfile.TemporaryDirectory() as folder:
        path, dump = f"{folder}/results.txt", f"{folder}/dump"
        more = ["--budget", str(budget), *(["--small"] if small else [])]
        phases = [["tune", path, dump], ["use", path], ["use", path], ["kernels", path, dump]]
        ended = [_child([*phases[0], *more])]
        if ended[0][0]:
            return ["phase tune failed"]
        ended += [_child([*phase, *more]) for phase in phases[1:]]
        kept = files.read(path)
        print(f"the file: {len(kept)} results, {Path(path).stat().st_size} bytes", flush=True)
    wrong = [f"phase {phase[0]} failed" for phase, (code, _) in zip(phases, ended) if code]
    digests = [line for _, lines in ended[:3] for line in lines]
    print("digests of tune, use, use:", *digests, sep="\n")
    if len(set(digests[1:])) != 1:
        wrong.append("two runs with the file differ")
    return wrong


def _child(arguments: Sequence[str]) -> tuple[int, list[str]]:
    """Exit code and digests; what else it prints is passed on."""
    begin = time.perf_counter()
    environment = {**os.environ, "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
    command = [sys.executable, "-m", "tests.device.tuning_check", *arguments]
    digests = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:
        for line in child.stdout or ():
            digests += [line.removeprefix(DIGESTS).strip()] if line.startswith(DIGESTS) else []
            print(line, end="", flush=True)
    print(f"-- {arguments[0]}: {time.perf_counter() - begin:.1f} s", flush=True)
    return child.returncode, digests


DIGESTS = "digests "


def phase(name: str, paths: Sequence[str], small: bool, budget: int) -> list[str]:
    """One of them in this process; what is wrong."""
    if name == "kernels":
        import tensorflow as tf

        from tfxla_cluster.backends import cpu, gpu
        from tfxla_cluster.runtime.gpu import driver

        tf.config.list_logical_devices()  # the process has TensorFlow's libraries, whose algorithms were chosen
        return kernels(*paths, gpu.this_machine() if driver.available() else cpu.this_machine())
    digests, wrong = (tune(small, *paths, budget), []) if name == "tune" else use(small, *paths)
    print(DIGESTS + json.dumps(digests), flush=True)
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("phase", nargs="*", default=[], metavar="PHASE FILE [DUMP]")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--budget", type=int, default=BUDGET_S, help="seconds for the search (default %(default)s)")
    parser.add_argument("--keep", default="", metavar="FOLDER", help="where file and dump are to stay")
    given = parser.parse_args()
    name, *paths = given.phase or [""]
    wrong = phase(name, paths, given.small, given.budget) if name else run(given.small, given.budget, given.keep)
    print(*(f"WRONG: {line}" for line in wrong), sep="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
