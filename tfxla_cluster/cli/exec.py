"""tfxla-exec: compile and run one HLO module on this machine, and compare it with a reference.

MODULE is HLO text (.txt, .hlo, '-' for standard input), or a proto or snapshot (.pb, also .pb.gz). Inputs are random,
the same for the same --seed, unless given. Flags of TFXLA_FLAGS may follow (`tfxla-run --help-flags`), such as
--xla_dump_to=DIR, and --tfxla_gpu_target=sm_90 for the kernels of a GPU that is not there. With --json the
last line on standard output is an object: module, ok, outputs (shape, dtype, sha256, nans, infs, minimum,
maximum), phases (ms), run_ms (the fastest run), median_ms, steps, kernels (steps that run code), native_kernels (those
of them that run machine code), and with a reference reference_ms and compared (max_abs, max_rel, mismatches, first per
output); where it failed: error, exit_code. --serve reads lines of JSON instead, each a list of the words of such a
command, and answers each with such an object: what may crash runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import child_process, flags
from ..errors import TfxlaError
from ..replay import arrays, runs, stages
from ..replay.module_file import read_module
from ..replay.verdicts import verdict
from . import common

SERVE = "--serve"


def entry() -> int:
    return common.run("tfxla-exec", main)


def main(argv: Sequence[str]) -> int:
    """0: it ran, and agrees with the reference where one was asked for; 1: it differs; else as EXIT_CODES."""
    if list(argv) == [SERVE]:
        child_process.serve(answer)
        return 0
    options, words = _parser().parse_known_args(argv)
    try:
        report = _report(options, words)
    except TfxlaError as error:
        if options.json:
            print(json.dumps(_failure(options.module, error)))
        raise
    print(json.dumps(report) if options.json else lines(report))
    return 0 if report["ok"] else 1


def answer(question: str) -> dict[str, Any]:
    """The report of the command whose words are the JSON list `question`; its failure where it fails, whatever it is:
    who asks wants to know."""
    words = [str(word) for word in json.loads(question)]
    try:
        return _report(*_parser().parse_known_args(words))
    except Exception as error:  # noqa: BLE001 - the answer says what it is
        return _failure(words[0], error)


def _failure(module: str, error: Exception) -> dict[str, Any]:
    code = error.exit_code if isinstance(error, TfxlaError) else common.exit_code(error)
    return {"module": module, "ok": False, "error": str(error) or type(error).__name__, "exit_code": code}


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
        "--until",
        metavar="STAGE",
        help=f"stop the passes after the last run of a pass (NAME:2: the second), '{stages.NONE}': run none, "
        f"'{stages.FUSION}': all and fusion, '{stages.OPTIMISED}': those that a module needs which XLA optimised",
    )
    parser.add_argument("--no-fusion", action="store_true", help="each instruction is a kernel of its own")
    parser.add_argument(
        "--backend", choices=runs.BACKENDS, default="cpu", help="what compiles and runs it (default cpu)"
    )
    parser.add_argument(
        "--reference", choices=runs.REFERENCES, help="compare with the NumPy meaning of the module, or with XLA"
    )
    parser.add_argument(
        "--kernel", metavar="FILE", type=Path, help="edited kernels of a dump, instead of generated ones"
    )
    parser.add_argument("--emit", metavar="FILE.hlo.pb", type=Path, help="write the module as it is after --until")
    parser.add_argument("--base", metavar="MODULE", help="the reference is the evaluator, of this module")
    parser.add_argument("--rtol", type=common.number(float, 0), help="relative tolerance (default by dtype)")
    parser.add_argument(
        "--repeat", type=common.number(int, 1, 10**9), default=1, help="runs; run_ms is the fastest (default 1)"
    )
    parser.add_argument("--save", metavar="DIR", help="write inputs and outputs as .npy")
    parser.add_argument("--json", action="store_true", help="report as one JSON object")
    return parser


def _report(options: argparse.Namespace, words: Sequence[str]) -> dict[str, Any]:
    """What was found, under the flags of `words`."""
    with flags.patch(**flags.parse(shlex.join(words), "the command line")):
        module = read_module(options.module)
        request = runs.Request(
            options.backend,
            options.reference or "",
            options.until,
            not options.no_fusion,
            options.rtol,
            options.repeat,
            options.kernel,
            options.emit,
            read_module(options.base) if options.base else None,
        )
        runs.check_memory(module, with_all=bool(request.reference))
        inputs = arrays.inputs(module, options.input, options.seed)
        report, outputs = runs.execute(module, inputs, request)
    if options.save:
        arrays.save(Path(options.save), inputs, outputs)
    return report


def lines(report: dict[str, Any]) -> str:
    """The report for people."""
    total = sum(report.get("phases", {}).values())
    made = f"compiled in {total:.1f} ms, " if total else ""
    steps = f", {report['steps']} steps" if "steps" in report else ""
    found = [f"{report['module']}: {made}ran in {report['run_ms']:.3f} ms{steps}"]
    compared = report.get("compared") or [None] * len(report["outputs"])
    for number, (row, difference) in enumerate(zip(report["outputs"], compared)):
        extent = f", {row['minimum']:.6g} to {row['maximum']:.6g}" if "minimum" in row else ""
        line = f"output {number}: {row['dtype']}{row['shape']}{extent}, sha256 {row['sha256']}"
        found.append(f"{line}; {verdict(difference)}" if difference is not None else line)
    return "\n".join(found)


if __name__ == "__main__":
    sys.exit(entry())
