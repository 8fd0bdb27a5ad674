"""tfxla-demo: an unchanged Keras CNN learns handwritten digits, with stock TensorFlow and with this package.

Three processes run the same program: stock TensorFlow, stock with jit_compile=True, and this package
switched on by TFXLA_FLAGS alone. Then the dump directory and its HTML report are written.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..child_process import Child
from ..errors import TfxlaError
from . import common
from .run import check_directory

FLAGS = "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit --xla_dump_to={directory}"
MODES = ("stock", "jit", "ours")
TIMED_STEPS = 22


def entry() -> int:
    return common.run("tfxla-demo", main)


def main(argv: Sequence[str]) -> int:
    """Trains, measures, writes the report and prints the table."""
    options = _parser().parse_args(argv)
    dump = Path(options.dump_to).resolve()
    check_directory(str(dump))
    result = measure(options, dump)
    result["report"] = str(write_report(dump, options.report))
    print_table(result)
    if options.json:
        print(json.dumps(result))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "tfxla-demo",
        description=__doc__,
        epilog=common.EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--image-size", type=common.number(int, 8, 512), default=8, help="side of the images, 8 (as shipped) to 512"
    )
    parser.add_argument("--epochs", type=common.number(int, 1, 10_000), default=12)
    parser.add_argument("--rounds", type=common.number(int, 1, 10_000), default=7, help="interleaved timing rounds")
    parser.add_argument("--dump-to", default="tfxla-demo-dump", help="directory of the dump")
    parser.add_argument("--report", default="tfxla-demo-report.html", help="file of the report")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    return parser


def _process(mode: str, image_size: int, dump: Path) -> Child:
    variables = {"TFXLA_FLAGS": FLAGS.format(directory=dump)} if mode == "ours" else {}
    arguments = [str(image_size), "True" if mode == "jit" else "auto"]
    return Child(mode, "tfxla_cluster.demo.worker", arguments, variables)


def _ask(child: Child, command: str) -> dict[str, Any]:
    print(f"tfxla-demo: {child.name}: {command}", file=sys.stderr, flush=True)
    return child.ask(command)


def measure(options: argparse.Namespace, dump: Path) -> dict[str, Any]:
    """Run the three modes; the figures of the table and of --json."""
    processes = {mode: _process(mode, options.image_size, dump) for mode in MODES}
    try:
        losses = {mode: _ask(process, "losses")["losses"] for mode, process in processes.items()}
        if not _ask(processes["ours"], "stats"):
            raise TfxlaError(
                "the process that was to run this package ran stock TensorFlow",
                "tfxla_cluster.pth is missing beside the installed packages: install this one again",
            )
        trained = {mode: _ask(process, f"train {options.epochs}") for mode, process in processes.items()}
        rounds: dict[str, list[float]] = {mode: [] for mode in MODES}
        for _ in range(options.rounds):
            for mode, process in processes.items():
                rounds[mode].append(_ask(process, f"time {TIMED_STEPS}")["step_ms"])
        stats = _ask(processes["ours"], "stats")
    finally:
        for process in processes.values():
            process.close()
    gap = {mode: max(abs(a - b) / max(abs(b), 1e-12) for a, b in zip(losses[mode], losses["stock"])) for mode in MODES}
    step = {mode: statistics.median(values) for mode, values in rounds.items()}
    return {
        "image_size": options.image_size,
        "accuracy": trained["ours"]["accuracy"],
        "reference_accuracy": trained["stock"]["accuracy"],
        "max_loss_gap": gap["ours"],
        "jit_max_loss_gap": gap["jit"],
        "step_ms": step["ours"],
        "reference_step_ms": step["stock"],
        "jit_step_ms": step["jit"],
        "compile_s": stats["compile_s"],
        "clusters": stats["clusters"],
        "clustered_share": stats["ops_clustered"] / max(stats["ops_total"], 1),
        "kernels": stats["kernels"],
        "native_kernels": stats["native_kernels"],
        "dump_dir": str(dump),
    }


def write_report(dump: Path, report: str) -> Path:
    """Render the dump directory with tfxla-inspect, as a user would."""
    command = [sys.executable, "-m", "tfxla_inspect", "report", str(dump), "-o", report]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise TfxlaError(f"the report failed: {done.stderr.strip()}", "The dump directory is kept")
    return Path(report).resolve()


def print_table(result: dict[str, Any]) -> None:
    """The figures, a line each."""
    print(f"handwritten digits, {result['image_size']}x{result['image_size']} pixels, Keras CNN, batch 64")
    print(f"  test accuracy        {result['accuracy']:.4f}   (stock {result['reference_accuracy']:.4f})")
    print(
        f"  largest loss gap     {result['max_loss_gap']:.2e} relative, first epoch, dropout off   "
        f"(stock jit_compile {result['jit_max_loss_gap']:.2e})"
    )
    print(
        f"  step                 {result['step_ms']:.2f} ms   (stock {result['reference_step_ms']:.2f}, "
        f"stock jit_compile {result['jit_step_ms']:.2f})"
    )
    print(f"  compile time         {result['compile_s']:.2f} s")
    print(
        f"  clusters             {result['clusters']}, holding {result['clustered_share']:.1%} of compilable op "
        "executions"
    )
    print(f"  kernels              {result['kernels']}, native {result['native_kernels']}")
    print(f"  dump                 {result['dump_dir']}")
    print(f"  report               {result['report']}")
