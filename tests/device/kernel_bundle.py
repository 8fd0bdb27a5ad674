"""Writes the GPU kernels of the table of HLO modules and of random ones, with arguments and expected results.

    python -m tests.device.kernel_bundle BUNDLE --arch sm_90     # here, with no GPU
    python tests/device/kernel_check.py BUNDLE                   # there: needs NumPy and a GPU's driver only

The bundle is a pickle of plain data. Modules with loops, branches or library calls are left out.
"""

from __future__ import annotations

import argparse
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.codegen.triton import gpu_module
from tests.codegen.triton.test_gpu_cases import ALL, drawn
from tfxla_cluster.codegen.triton.source import render
from tfxla_cluster.codegen.triton.triton_source import TritonSource
from tfxla_cluster.codegen.triton.workers import compile_sources
from tfxla_cluster.errors import UnsupportedError
from tfxla_cluster.ir import text
from tfxla_cluster.ir.dim import sample
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.ir.node import Module
from tfxla_cluster.runtime.plan import CopyStep, KernelStep, Ref
from tfxla_cluster.target import Target

RANDOM = range(1000, 1100)  # numbers of random modules; the tests in the interpreter have other ones


@dataclass
class Bundle:
    """Sources are compiled once, however many cases launch them."""

    sources: dict[TritonSource, int] = field(default_factory=dict)
    cases: list[dict[str, Any]] = field(default_factory=list)

    def add(self, name: str, module: Module, args: Sequence[np.ndarray], ulps: Sequence[int]) -> None:
        """A case, unless the GPU has no kernels for it or its plan is more than launches and copies."""
        try:
            made = gpu_module.compiled(module, gpu_module.Interpreted())
        except UnsupportedError:
            return
        if not all(isinstance(step, KernelStep | CopyStep) for step in made.plan.steps):
            return
        steps = []
        for step in made.plan.steps:
            if isinstance(step, KernelStep):
                number = self.sources.setdefault(render(made.code.kernels[step.symbol]), len(self.sources))
                places = [_place(ref) for ref in (*step.inputs, *step.outputs)]
                steps.append(("launch", number, sample(step.tasks), places, [sample(s) for s in step.sizes]))
            elif isinstance(step, CopyStep):
                steps.append(("copy", _place(step.source), _place(step.target), sample(step.bytes)))
        self.cases.append(
            {
                "name": name,
                "steps": steps,
                "arena": sample(made.plan.arena_bytes),
                "constants": made.plan.constants,
                "inputs": [np.ascontiguousarray(a).tobytes() for a in args],
                "outputs": [(a.tobytes(), a.shape, str(a.dtype)) for a in evaluate(module, args)],
                "ulps": list(ulps),
            }
        )


def _place(ref: Ref) -> tuple[str, int, int]:
    return ref.kind, ref.index, sample(ref.offset)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--processes", type=int, default=2, help="that run Triton (default 2)")
    options = parser.parse_args()
    bundle = Bundle()
    for case in ALL:
        module = text.parse(case.text)
        bundle.add(case.name, module, case.args(), [case.ulps] * 99)
    for number in RANDOM:
        made = drawn(number)
        bundle.add(made.module.name, made.module, made.args, made.ulps)
    compiled = compile_sources(list(bundle.sources), Target("gpu", options.arch), options.processes)
    kernels = [(a.cubin, a.entry, a.num_warps, a.shared_bytes) for a in compiled]
    options.bundle.write_bytes(pickle.dumps({"kernels": kernels, "cases": bundle.cases}))
    print(f"{len(bundle.cases)} cases, {len(kernels)} kernels for {options.arch}")


if __name__ == "__main__":
    main()
