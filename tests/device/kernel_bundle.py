"""Compiles the table of HLO modules and random ones for a GPU, with arguments and expected results.

    python -m tests.device.kernel_bundle BUNDLE --arch sm_90     # here, with no GPU; --part for several processes
    python -m tests.device.kernel_check BUNDLE                   # there: needs the driver, not Triton nor TensorFlow

The bundle is an xz-compressed pickle of plain data: plans as JSON, cubins, NumPy arrays.
"""

from __future__ import annotations

import argparse
import lzma
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.codegen.triton.test_gpu_cases import ALL, drawn
from tests.device.convolution_cases import convolutions
from tests.device.large_cases import large
from tests.device.product_cases import exact, products
from tfxla_cluster import compiler
from tfxla_cluster.backends import gpu
from tfxla_cluster.codegen.kernel.choice import UNTUNED, Choices
from tfxla_cluster.errors import UnsupportedError
from tfxla_cluster.ir import text
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.ir.node import Module
from tfxla_cluster.options import CompileOptions
from tfxla_cluster.runtime import plan_json

RANDOM = range(1000, 1100)  # numbers of random modules; the tests in the interpreter have other ones


@dataclass
class Bundle:
    """Cubins lie there once, however many cases launch them. `part`: (n, count), every count-th module from number n
    on."""

    backend: gpu.Gpu
    options: CompileOptions
    part: tuple[int, int] = (0, 1)
    modules: int = 0
    cubins: dict[bytes, int] = field(default_factory=dict)
    cases: list[dict[str, Any]] = field(default_factory=list)
    refused: int = 0

    def add(
        self,
        name: str,
        module: Module,
        sets: Sequence[Sequence[np.ndarray]],
        ulps: int | Sequence[int],
        choices: Choices = UNTUNED,
        any_order: bool = False,
    ) -> None:
        """A case for each set of arguments, unless the GPU has no kernels for the module. `ulps`: of all outputs, or of
        each; `any_order`: as Target has it."""
        self.modules += 1
        if (self.modules - 1) % self.part[1] != self.part[0]:
            return
        try:
            backend = replace(self.backend, target=replace(self.backend.target, any_order=any_order))
            made = compiler.compile_module(module, backend, self.options, choices=choices)
        except UnsupportedError:
            self.refused += 1
            return
        cubins = [self.cubins.setdefault(cubin, len(self.cubins)) for cubin in made.code.objects]
        for args in sets:
            case = {"name": name, "plan": plan_json.dumps(made.plan), "cubins": cubins, "inputs": list(args)}
            outputs = evaluate(module, args)
            each = [ulps] * len(outputs) if isinstance(ulps, int) else list(ulps)
            self.cases.append({**case, "outputs": list(outputs), "ulps": each})

    def write(self, path: Path) -> None:
        path.write_bytes(lzma.compress(pickle.dumps({"cubins": list(self.cubins), "cases": self.cases})))


def _products(bundle: Bundle) -> None:
    for one in (*products(), *convolutions()):
        bundle.add(one.name, exact(one.module), [one.args()], one.ulps, one.choices)


def _table(bundle: Bundle) -> None:
    for case in ALL:
        bundle.add(case.name, exact(text.parse(case.text)), [case.args()], case.ulps)


def _random(bundle: Bundle) -> None:
    for number in RANDOM:
        made = drawn(number)
        bundle.add(made.module.name, exact(made.module), [made.args], made.ulps)


def _large(bundle: Bundle) -> None:
    for one in large():
        bundle.add(one.name, one.module, one.args, one.ulps, one.choices, one.any_order)


# Products and convolutions, the table of modules, random ones, and those too large for an interpreter of kernels.
KINDS: dict[str, Callable[[Bundle], None]] = {
    "products": _products,
    "table": _table,
    "random": _random,
    "large": _large,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--only", choices=KINDS, action="append", help="of these kinds alone")
    parser.add_argument("--part", default="0/1", metavar="N/COUNT", help="every COUNT-th module, from number N on")
    parser.add_argument("--processes", type=int, default=2, help="that run Triton (default 2)")
    options = parser.parse_args()
    part, _, count = options.part.partition("/")
    compiled = CompileOptions(compile_threads=options.processes)
    bundle = Bundle(gpu.described(options.arch), compiled, (int(part), int(count)))
    for kind in options.only or KINDS:
        KINDS[kind](bundle)
    bundle.write(options.bundle)
    print(f"{len(bundle.cases)} cases, {len(bundle.cubins)} cubins for {options.arch}; {bundle.refused} refused")


if __name__ == "__main__":
    main()
