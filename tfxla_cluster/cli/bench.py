"""tfxla-bench: benchmark rows side by side with their peers, in one process. Ratios above 1: ours is faster.

`tfxla-bench cpu` runs the families memory and contraction (single functions, against stock TensorFlow, JAX and for
plain products NumPy), steps, compile time (of first steps, without their trace) and call overhead.

`tfxla-bench gpu` runs the GPU's rows through TensorFlow, against stock TensorFlow and, in a second process that takes
turns with it, PyTorch and XLA through JAX. `tfxla-bench gpu --steps` times training and decoding steps of whole models
(BERT-base, ResNet50, GPT-2-small), against stock TensorFlow.
`tfxla-bench gpu --make-bundle DIR` writes the GPU's rows as HLO with code for the GPU --target, which need not be
there. `tfxla-bench gpu --modules DIR` measures them, or any HLO modules, on this machine's GPU, against PyTorch and
XLA; it needs neither TensorFlow nor, with code for the GPU in DIR, Triton. A peer that is missing or wrong fails the
run (exit code 1).
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from ..bench import plot
from . import common

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def entry() -> int:
    return common.run("tfxla-bench", main)


def main(argv: Sequence[str]) -> int:
    """Runs the rows, prints them and their means; 0, or UsageError for a filter that matches none."""
    parser = argparse.ArgumentParser(
        "tfxla-bench",
        description=__doc__,
        epilog=common.EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("suite", choices=["cpu", "gpu"])
    parser.add_argument("--filter", default="", help="only rows whose name or family contains this")
    parser.add_argument("--rounds", type=common.number(int, 1, 100_000), default=25)
    parser.add_argument("--json", default="", metavar="FILE", help="write the rows and families")
    parser.add_argument("--plot", default="", metavar="FILE", help="draw the rows (.svg, .png or .pdf)")
    todo = parser.add_mutually_exclusive_group()
    todo.add_argument("--modules", metavar="DIR", help="gpu: measure the HLO modules of DIR")
    todo.add_argument("--make-bundle", metavar="DIR", help="gpu: write the rows' modules and code into DIR")
    todo.add_argument("--steps", action="store_true", help="gpu: measure steps of whole models")
    parser.add_argument("--batch", type=common.number(int, 1, 100_000), help="gpu --steps: examples of a step")
    parser.add_argument("--target", default="sm_90", choices=["sm_80", "sm_90"], help="gpu: of --make-bundle's code")
    options = parser.parse_args(argv)
    if options.plot:
        plot.check(options.plot)
    if options.suite == "gpu":
        return _gpu(options)
    if options.modules or options.make_bundle or options.steps:
        parser.error("--modules, --make-bundle and --steps are for tfxla-bench gpu")
    from . import bench_cpu

    return bench_cpu.run(options)


def _gpu(options: argparse.Namespace) -> int:
    from . import bench_gpu

    if options.make_bundle:
        return bench_gpu.make_bundle(options)
    if options.steps:
        return bench_gpu.run_steps(options)
    return bench_gpu.run(options) if options.modules else bench_gpu.run_tensorflow(options)
