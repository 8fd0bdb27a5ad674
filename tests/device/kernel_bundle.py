"""Compiles the table of HLO modules and random ones for a GPU, with arguments and expected results.

    python -m tests.device.kernel_bundle BUNDLE --arch sm_90     # here, with no GPU
    python -m tests.device.kernel_check BUNDLE                   # there: needs the driver, not Triton nor TensorFlow

The bundle is an xz-compressed pickle of plain data: plans as JSON, cubins, NumPy arrays.
"""

from __future__ import annotations

import argparse
import lzma
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.codegen.triton.test_gpu_cases import ALL, drawn
from tests.device.convolution_cases import convolutions
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
    """Cubins lie there once, however many cases launch them."""

    backend: gpu.Gpu
    options: CompileOptions
    cubins: dict[bytes, int] = field(default_factory=dict)
    cases: list[dict[str, Any]] = field(default_factory=list)
    refused: int = 0

    def add(
        self, name: str, module: Module, args: Sequence[np.ndarray], ulps: Sequence[int], choices: Choices = UNTUNED
    ) -> None:
        """A case, unless the GPU has no kernels for it."""
        module = exact(module)
        try:
            made = compiler.compile_module(module, self.backend, self.options, choices=choices)
        except UnsupportedError:
            self.refused += 1
            return
        self.cases.append(
            {
                "name": name,
                "plan": plan_json.dumps(made.plan),
                "cubins": [self.cubins.setdefault(cubin, len(self.cubins)) for cubin in made.code.objects],
                "inputs": list(args),
                "outputs": list(evaluate(module, args)),
                "ulps": list(ulps),
            }
        )

    def write(self, path: Path) -> None:
        path.write_bytes(lzma.compress(pickle.dumps({"cubins": list(self.cubins), "cases": self.cases})))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--products", action="store_true", help="products and convolutions alone")
    parser.add_argument("--processes", type=int, default=2, help="that run Triton (default 2)")
    options = parser.parse_args()
    bundle = Bundle(gpu.described(options.arch), CompileOptions(compile_threads=options.processes))
    for one in (*products(), *convolutions()):
        bundle.add(one.name, one.module, one.args(), [one.ulps], one.choices)
    for case in [] if options.products else ALL:
        module = text.parse(case.text)
        bundle.add(case.name, module, case.args(), [case.ulps] * 99)
    for number in [] if options.products else RANDOM:
        made = drawn(number)
        bundle.add(made.module.name, made.module, made.args, made.ulps)
    bundle.write(options.bundle)
    print(f"{len(bundle.cases)} cases, {len(bundle.cubins)} cubins for {options.arch}; {bundle.refused} refused")


if __name__ == "__main__":
    main()
