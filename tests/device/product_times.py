"""Products on this machine's GPU beside cuBLAS (PyTorch's): the milliseconds of each, by replays of CUDA graphs.

    python -m tests.device.product_times [NAME...] [--form KNOB=VALUE,... --form ...]

Needs PyTorch and Triton 3.9 or newer. A row: its name, milliseconds of cuBLAS, those of ours in its default form and in
each form that is asked for, how many times as fast, and the largest difference from f64 as a part of the largest
element. NAME: rows whose names begin so. Operands are copies enough that no cache holds them all.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tfxla_cluster import compiler
from tfxla_cluster.backends import gpu
from tfxla_cluster.bench.gpu_ours import Ours
from tfxla_cluster.bench.handed_arrays import TORCH_DTYPES
from tfxla_cluster.codegen.kernel.choice import UNTUNED, Choice, Choices, Given
from tfxla_cluster.errors import TfxlaError
from tfxla_cluster.ir import text
from tfxla_cluster.ir.node import Module
from tfxla_cluster.options import CompileOptions

BYTES = 150e6  # of operands, more than the cache holds
SAMPLE_MS, ROUNDS, MOST_COPIES = 1.0, 7, 8
TOKENS = 32768
OPTIONS = CompileOptions(least_graph=0)  # a plan that makes a graph itself cannot be part of one
EXACT = ", operand_precision={highest,highest}"


@dataclass(frozen=True)
class Row:
    """[m, k] by [k, n]; `turned`: which of both (left, right) lie the other way round. `kept`: the right one is kept in
    f32 and rounded; f32 is multiplied in f32 unless `tf32`."""

    name: str
    dtype: str
    m: int
    n: int
    k: int
    turned: str = ""
    kept: bool = False
    tf32: bool = False

    @property
    def shapes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        left, right = (self.m, self.k), (self.k, self.n)
        return left[::-1] if "left" in self.turned else left, right[::-1] if "right" in self.turned else right

    @property
    def dtypes(self) -> tuple[str, str]:
        return self.dtype, "f32" if self.kept else self.dtype

    def module(self) -> Module:
        """A fusion around the product where something stands before it."""
        parameters = [
            f"p{n} = {d}[{s[0]},{s[1]}] parameter({n})" for n, (d, s) in enumerate(zip(self.dtypes, self.shapes))
        ]
        axes = f"lhs_contracting_dims={{{int('left' not in self.turned)}}}"
        axes += f", rhs_contracting_dims={{{int('right' in self.turned)}}}"
        said = EXACT if self.dtype == "f32" and not self.tf32 else ""
        rows, cols = self.shapes[1]
        rounded = [f"c = {self.dtype}[{rows},{cols}] convert(p1)"] if self.kept else []
        result = f"{self.dtype}[{self.m},{self.n}]"
        dot = f"ROOT r = {result} dot(p0, {'c' if self.kept else 'p1'}), {axes}{said}"
        call = f"ROOT r = {result} fusion(p0, p1), kind=kOutput, calls=f"
        if not self.kept:
            return text.parse(f"HloModule product\n{_computation('ENTRY e', [*parameters, dot])}")
        fused = _computation("f", [*parameters, *rounded, dot])
        return text.parse(f"HloModule product\n{fused}{_computation('ENTRY e', [*parameters, call])}")


def _computation(name: str, lines: Sequence[str]) -> str:
    return "\n  ".join([f"{name} {{", *lines]) + "\n}\n"


def rows() -> Iterator[Row]:
    """Those of a BERT-base step of 64 sequences and of 16, few rows as in decoding, cubes, types."""
    yield Row("bf16 8192x4096x16384", "bf16", 8192, 16384, 4096)
    for tokens in (TOKENS, TOKENS // 4):
        for k, n in ((768, 2304), (768, 768), (768, 3072), (3072, 768)):
            yield Row(f"bf16 {tokens}x{k}x{n}", "bf16", tokens, n, k)
            yield Row(f"weight gradient bf16 {tokens}: {k}x{n}", "bf16", k, n, tokens, "left")
    yield Row("kept in f32, bf16 32768x768x3072", "bf16", TOKENS, 3072, 768, kept=True)
    for m, k, n in ((1, 4096, 4096), (16, 4096, 4096), (8, 4096, 11008), (16, 768, 3072), (16, 3072, 768)):
        yield Row(f"few rows bf16 {m}x{k}x{n}", "bf16", m, n, k)
    yield Row("few rows bf16 16x4096x4096 turned", "bf16", 16, 4096, 4096, "right")
    for size in (512, 1024, 2048):
        yield Row(f"bf16 {size} cubed", "bf16", size, size, size)
    for size in (1024, 2048, 4096, 8192):
        yield Row(f"f32 {size} cubed", "f32", size, size, size)
    for size in (2048, 4096):
        yield Row(f"f64 {size} cubed", "f64", size, size, size)
    for turned in ("", "right", "left"):
        yield Row(f"tf32 4096 cubed {turned}".strip(), "f32", 4096, 4096, 4096, turned, tf32=True)


def choice(said: str) -> Choice:
    """Of 'KNOB=VALUE,...'."""
    return Choice({name: int(value) for name, _, value in (part.partition("=") for part in said.split(","))})


def _compiled(job: tuple[Row, str]) -> Any:
    """The executable in a form ('' for the default), or why there is none."""
    row, form = job
    module = row.module()
    choices: Choices = Given(module.entry.root.name, choice(form)) if form else UNTUNED
    try:
        return compiler.compile_module(module, gpu.this_machine(), OPTIONS, choices=choices).executable
    except TfxlaError as error:
        return str(error)


def times(calls: Mapping[str, Sequence[Callable[[], object]]]) -> dict[str, float]:
    """Milliseconds of one call of each, those of a list one after the other; contenders take turns."""
    import torch

    graphs = {}
    for name, some in calls.items():
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for call in some:
                call()
        torch.cuda.synchronize()
        graphs[name] = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graphs[name], stream=stream, capture_error_mode="relaxed"):
            for call in some:
                call()
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    found: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(ROUNDS + 1):
        for name, graph in graphs.items():
            start.record()
            graph.replay()
            stop.record()
            torch.cuda.synchronize()
            if turn:
                found[name].append(start.elapsed_time(stop) / len(calls[name]))
    return {name: statistics.median(samples) for name, samples in found.items()}


def measured(row: Row, executables: Mapping[str, Any]) -> list[str]:
    """A line for cuBLAS and for each form."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = row.tf32
    kinds = [getattr(torch, TORCH_DTYPES[d]) for d in row.dtypes]
    size = sum(math.prod(shape) * kind.itemsize for shape, kind in zip(row.shapes, kinds))
    copies = max(1, min(MOST_COPIES, math.ceil(BYTES / size)))
    pairs = [
        [torch.randn(s, device="cuda", dtype=torch.float32).to(k) for s, k in zip(row.shapes, kinds)]
        for _ in range(copies)
    ]

    def library(pair: Sequence[Any]) -> Any:
        x, y = (v.t() if side in row.turned else v for v, side in zip(pair, ("left", "right")))
        return torch.matmul(x, y.to(x.dtype))

    expected = [v.to(kinds[0]).double() for v in pairs[0]]
    want = library(expected)
    largest, errors, calls = float(want.abs().max()), {}, {}
    for name, made in {"cuBLAS": None, **executables}.items():
        if isinstance(made, str):
            continue
        each = [Ours(made, pair) for pair in pairs] if made else [lambda pair=pair: [library(pair)] for pair in pairs]
        errors[name] = float((each[0]()[0].double() - want).abs().max()) / largest
        calls[name] = each
    once = times(calls)
    repeats = max(1, round(SAMPLE_MS / (copies * min(once.values()))))
    found = times({name: each * repeats for name, each in calls.items()}) if repeats > 1 else once
    lines = [f"{row.name:44} {found['cuBLAS']:9.4f} ms cuBLAS, {errors['cuBLAS']:.1e} off"]
    for name, made in executables.items():
        if isinstance(made, str):
            lines.append(f"    {name or 'default'}: {made}")
        else:
            ratio = found["cuBLAS"] / found[name]
            lines.append(f"    {ratio:6.3f} {found[name]:9.4f} ms, {errors[name]:.1e} off  {name or 'default'}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--form", action="append", default=[], help="KNOB=VALUE,... besides the default form")
    parser.add_argument("--threads", type=int, default=16, help="that compile (default 16)")
    options = parser.parse_args()
    wanted = [row for row in rows() if not options.names or row.name.startswith(tuple(options.names))]
    jobs = [(row, form) for row in wanted for form in ("", *options.form)]
    with ThreadPoolExecutor(options.threads) as pool:
        made = dict(zip(jobs, pool.map(_compiled, jobs)))
    for row in wanted:
        print("\n".join(measured(row, {form: made[row, form] for form in ("", *options.form)})), flush=True)


if __name__ == "__main__":
    main()
