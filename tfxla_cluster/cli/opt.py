"""tfxla-opt: HLO text (or a proto) in, named passes, HLO text out.

tfxla-opt module.txt --passes=algebraic-simplifier,cse -o out.txt
tfxla-opt module.hlo.pb            # the whole pipeline; '-' reads HLO text from standard input
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .. import output_file
from ..errors import UsageError
from ..ir import text, verifier
from ..ir.node import Module
from ..passes import pipeline, pipelines
from ..passes.base import Pass
from ..replay.module_file import read_module
from ..target import Target
from . import common


def entry() -> int:
    return common.run("tfxla-opt", main)


def main(argv: Sequence[str]) -> int:
    """0 when the module was written; TfxlaError otherwise (`entry` makes one line and an exit code of it)."""
    options = _parser().parse_args(argv)
    if options.list_passes:
        print("\n".join(sorted(pipelines.PASSES)))
        return 0
    if options.module is None:
        raise UsageError("no module given", "Name a file, or - for standard input")
    module = read_module(options.module)
    verifier.verify(module)
    observer = _say if options.print_changes else None
    module = pipeline.run(module, "opt", _chosen(options.passes), observer, strict=options.strict)
    out = text.render(module, elide_literals=options.elide_literals)
    if options.output == "-":
        sys.stdout.write(out)
    else:
        output_file.write(options.output, out.encode(), [options.module])
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "tfxla-opt", description=__doc__, epilog=common.EXIT_CODES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "module", nargs="?", metavar="MODULE", help="HLO text, or a proto (.pb, .pb.gz); - for standard input"
    )
    parser.add_argument("--passes", metavar="A,B", help="passes in order; default: all that run before fusion")
    parser.add_argument("--list-passes", action="store_true", help="print the names of all passes")
    parser.add_argument("-o", "--output", default="-", metavar="FILE", help="default: standard output")
    parser.add_argument("--elide-literals", action="store_true", help="{...} for literals of more than 10 elements")
    parser.add_argument("--strict", action="store_true", help="catch passes that lie about what they changed")
    parser.add_argument("--print-changes", action="store_true", help="say on standard error which passes changed it")
    return parser


def _chosen(names: str | None) -> list[Pass]:
    if names is None:
        return pipelines.optimize(Target("cpu", "generic"))
    found = []
    for name in filter(None, names.split(",")):
        if name not in pipelines.PASSES:
            raise UsageError(f"unknown pass '{name}'", "See --list-passes")
        found.append(pipelines.PASSES[name])
    return found


def _say(module: Module, name: str, after: str, before: str) -> None:
    print(f"after {after}: {sum(len(c.instrs) for c in module.computations())} instructions", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(entry())
