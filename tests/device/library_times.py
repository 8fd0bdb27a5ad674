"""Matrix products by cuBLASLt's algorithms beside our default kernels, on this machine's GPU: values, and times.

    python -m tests.device.library_times [NAME ...]

Products whose names begin so, else all. Compiling needs Triton. Exit code 1 where a value is wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tests.hlo_case import module
from tfxla_cluster import compiler
from tfxla_cluster.backends import gpu
from tfxla_cluster.backends.backend import Backend, Launcher
from tfxla_cluster.codegen.kernel.choice import Choice, Given
from tfxla_cluster.ir import text
from tfxla_cluster.ir.node import Instr, Module
from tfxla_cluster.options import CompileOptions
from tfxla_cluster.tuning import check
from tfxla_cluster.tuning.trial import Trial, trial
from tfxla_cluster.tuning.tuner import interleaved

ROUNDS = 5
POISON = 0x5A
EXACT = ", operand_precision={highest,highest}"
# (batch, rows, depth, columns); batch 0 is none.
SHAPES: dict[tuple[str, str], tuple[tuple[int, int, int, int], ...]] = {
    ("c64", ""): ((0, 5, 7, 3), (0, 64, 64, 64), (0, 512, 512, 512), (100, 32, 32, 32), (0, 1, 1024, 1024)),
    ("c128", ""): ((0, 7, 5, 3), (0, 256, 256, 256), (10, 100, 30, 50)),
    ("f64", ""): (
        *((0, n, n, n) for n in (64, 128, 192, 256, 300, 512, 2048)),
        *((0, 100, 1000, 100), (0, 1000, 32, 1000), (0, 333, 65, 777), (0, 32, 65536, 32), (0, 48, 20000, 48)),
        *((0, 40, 3000, 900), (0, 2000, 2000, 32), (0, 16, 4096, 4096), (256, 64, 64, 64)),
    ),
    ("bf16", "deep"): (
        *((0, 768, 32768, n) for n in (768, 2304, 3072)),
        *((0, 3072, 32768, 768), (0, 1024, 8192, 1024), (0, 1024, 16384, 4096), (0, 256, 65536, 256)),
        *((0, 768, 8192, 3072), (0, 4096, 8192, 4096), (0, 512, 4096, 512), (0, 64, 100000, 64)),
        *((0, 2048, 16384, 512), (0, 65, 5000, 127), (0, 8192, 4096, 8192), (8, 128, 8192, 128)),
    ),
    ("bf16", "update"): tuple((0, m, k, n) for m, k, n in ((768, 32768, 3072), (3072, 8192, 768), (768, 8192, 768))),
    ("f16", "deep"): ((0, 768, 32768, 768), (0, 500, 5000, 300)),
    ("f32", ""): ((0, 512, 512, 512), (0, 4096, 4096, 4096), (0, 8192, 8192, 8192), (0, 16, 4096, 4096)),
    ("f32", "exact"): ((0, 512, 512, 512), (0, 2048, 2048, 2048), (0, 4096, 4096, 4096), (0, 16, 4096, 4096)),
    ("bf16", ""): ((0, 1024, 1024, 1024), (0, 8192, 4096, 16384), (0, 16, 4096, 4096), (0, 32768, 768, 3072)),
}


@dataclass(frozen=True)
class Product:
    """A module of one dot."""

    name: str
    text: str

    def module(self) -> Module:
        return text.parse(self.text)


def products() -> Iterator[Product]:
    """Every case, f64 and complex in all orders of their operands."""
    for (dtype, kind), shapes in SHAPES.items():
        orders: tuple[tuple[bool, bool], ...] = ((kind in ("deep", "update"), False),)
        if dtype in ("f64", "c64", "c128"):
            orders = ((False, False), (True, False), (False, True))
        for shape in shapes:
            for turned in orders:
                made = product(dtype, shape, turned, EXACT if kind == "exact" else "", kind)
                yield updated(made) if kind == "update" else made


def product(
    dtype: str, shape: tuple[int, int, int, int], turned: tuple[bool, bool], how: str = "", kind: str = ""
) -> Product:
    """`turned`: whether the left operand is [depth, rows], the right one [columns, depth]."""
    batch, rows, depth, cols = shape
    first = f"{batch}," if batch else ""
    left = f"{first}{depth},{rows}" if turned[0] else f"{first}{rows},{depth}"
    right = f"{first}{cols},{depth}" if turned[1] else f"{first}{depth},{cols}"
    at = int(bool(batch))
    dims = f"lhs_contracting_dims={{{at + 1 - turned[0]}}}, rhs_contracting_dims={{{at + turned[1]}}}"
    batches = "lhs_batch_dims={0}, rhs_batch_dims={0}, " if batch else ""
    body = f"  x = {dtype}[{left}] parameter(0)\n  y = {dtype}[{right}] parameter(1)\n"
    body += f"  ROOT d = {dtype}[{first}{rows},{cols}] dot(x, y), {batches}{dims}{how}"
    order = "".join("nt"[t] for t in turned)
    name = " ".join(filter(None, (dtype, kind, str(batch or ""), f"{rows}x{depth}x{cols}", order)))
    return Product(name, module(body))


def updated(case: Product) -> Product:
    """A weight less a part of its gradient, which the product is, in one fusion."""
    dot = case.module().entry.root
    shape = "[" + ",".join(map(str, dot.shape.dims)) + "]"
    types = [f"{p.shape.element_type}[{','.join(map(str, p.shape.dims))}]" for p in case.module().entry.params]
    body = case.text[case.text.index("{\n") + 2 : case.text.rindex("}")].replace("ROOT d", "d")
    inner = f"""inner {{
{body}  w = f32{shape} parameter(2)
  wide = f32{shape} convert(d)
  rate = f32[] constant(0.125)
  rates = f32{shape} broadcast(rate), dimensions={{}}
  step = f32{shape} multiply(wide, rates)
  ROOT next = f32{shape} subtract(w, step) }}
"""
    outer = [f"  p{n} = {kind} parameter({n})" for n, kind in enumerate((*types, f"f32{shape}"))]
    call = f"  ROOT f = f32{shape} fusion(p0, p1, p2), kind=kOutput, calls=inner"
    return Product(case.name, module("\n".join((*outer, call)), inner))


@dataclass(frozen=True)
class Row:
    """Microseconds of our default and of each algorithm; `wrong`: what is, in words."""

    name: str
    ours: float
    library: tuple[float, ...]
    wrong: str

    def line(self) -> str:
        if not self.library:
            return f"{self.name:<36} {self.ours:>9.1f}  the library has no algorithm"
        ratios = f"{self.library[0] / self.ours:>6.2f} {min(self.library) / self.ours:>6.2f}"
        times = f"{self.ours:>9.1f} {self.library[0]:>9.1f} {min(self.library):>9.1f}"
        return f"{self.name:<36} {times} {ratios}  {self.wrong}"


HEADER = f"{'us':<36} {'ours':>9} {'first':>9} {'best':>9} {'first':>6} {'best':>6}  of the library, and over ours"


def measured(backend: Backend[Launcher], case: Product) -> Row:
    """Every form on the same drawn inputs, taking turns."""
    parsed = case.module()
    instr, inputs = parsed.entry.root, check.inputs(parsed.entry.params, case.text)
    # What follows a product may read it in its own type, of which the library has algorithms too.
    dot = instr if instr.opcode == "dot" else _product_in(instr)
    near = check.Tolerance(check.rounds_factors(instr, backend.target), check.rounding(dot.shape.element_type))
    want = [reference(instr, inputs)]
    candidates = backend.candidates(instr)
    trials: dict[Choice, Trial] = {}
    wrong = ""
    try:
        for choice in (candidates[0], *candidates.others):
            trials[choice] = trial(_compiled(parsed, backend, choice), inputs)
            said = check.difference(trials[choice].outputs(POISON), want, near) or trials[choice].overrun()
            wrong = wrong or (said and f"{choice!r}: {said}")
        seconds = interleaved(trials, ROUNDS)
    finally:
        for one in trials.values():
            one.close()
    ours, *library = (seconds[choice] * 1e6 for choice in trials)
    return Row(case.name, ours, tuple(library), wrong)


def _compiled(parsed: Module, backend: Backend[Launcher], choice: Choice) -> Launcher:
    options = CompileOptions(passes=False, fusion=False)
    return compiler.compile_module(parsed, backend, options, choices=Given(parsed.entry.root.name, choice)).executable


def reference(instr: Instr, inputs: list[np.ndarray]) -> np.ndarray:
    """The product in the widest type there is, rounded, or the update by it."""
    if instr.opcode == "dot":
        return np.asarray(_product(instr, inputs).astype(instr.shape.element_type.numpy))
    return np.asarray((inputs[2] - 0.125 * _product(_product_in(instr), inputs[:2])).astype(np.float32))


def _product_in(fusion: Instr) -> Instr:
    return next(i for i in fusion.attrs["calls"].instrs if i.opcode == "dot")


def _product(dot: Instr, inputs: list[np.ndarray]) -> np.ndarray:
    wide = np.complex128 if dot.shape.element_type.kind == "complex" else np.float64
    left, right = (a.astype(wide) for a in inputs)
    if dot.attrs["lhs_contracting_dims"][0] == left.ndim - 2:
        left = left.swapaxes(-1, -2)
    if dot.attrs["rhs_contracting_dims"][0] == right.ndim - 1:
        right = right.swapaxes(-1, -2)
    return np.asarray(left @ right)


def main(names: list[str]) -> int:
    backend = gpu.this_machine()
    print(backend.target.features, HEADER, sep="\n")
    wrong = 0
    for case in products():
        if not names or case.name.startswith(tuple(names)):
            row = measured(backend, case)
            wrong += bool(row.wrong)
            print(row.line(), flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
