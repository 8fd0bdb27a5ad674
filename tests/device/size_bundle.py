"""Compiles `size_cases` for a GPU: each function once for all sizes, and for some of them alone.

    python -m tests.device.size_bundle BUNDLE [PART OF A NAME...]   # here, with TensorFlow and no GPU
    python -m tests.device.size_check BUNDLE [check|times]          # there, with neither TensorFlow nor Triton

The bundle is as kernel_bundle's; a case has the generic module as a proto besides.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tests.device.kernel_bundle import Bundle
from tests.device.size_cases import CASES, SizeCase
from tfxla_cluster import compiler
from tfxla_cluster.backends import gpu
from tfxla_cluster.bench import gpu_bundle
from tfxla_cluster.dynamic import unify
from tfxla_cluster.dynamic.lowered import Lowered
from tfxla_cluster.dynamic.unifier import Generic
from tfxla_cluster.dynamic.unify import Limits
from tfxla_cluster.ir import proto
from tfxla_cluster.ir.node import Module
from tfxla_cluster.options import CompileOptions
from tfxla_cluster.runtime import plan_json


def generic(case: SizeCase) -> Module:
    """The module for all sizes, as two sizes of a program give it."""
    lowered = [Lowered(gpu_bundle.lowered(case.row(size))).rows for size in case.made]
    found = unify.unify(lowered, Limits(hands=True))
    assert isinstance(found, Generic), f"{case.name}: {found}"
    assert len(found.module.entry.params) == len(case.inputs(case.made[0])), f"{case.name}: a literal is handed over"
    return found.module


def entry(bundle: Bundle, case: SizeCase) -> dict[str, Any]:
    """A case of the bundle, with its kernels for all sizes and for those that are timed."""
    module = generic(case)
    statics = {size: Lowered(gpu_bundle.lowered(case.row(size))).module for size in case.timed}
    return {
        "name": case.name,
        "module": proto.write(module),
        "generic": code(bundle, module),
        "static": {size: code(bundle, own) for size, own in statics.items()},
        "inputs": {size: case.inputs(size) for size in (*case.timed, *case.checked)},
        "checked": case.checked,
        "ulps": case.ulps,
    }


def code(bundle: Bundle, module: Module) -> dict[str, Any]:
    """The plan of a module, and its cubins in the bundle."""
    made = compiler.compile_module(module, bundle.backend, bundle.options)
    cubins = [bundle.cubins.setdefault(cubin, len(bundle.cubins)) for cubin in made.code.objects]
    return {"plan": plan_json.dumps(made.plan), "cubins": cubins}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("names", nargs="*", help="parts of names; all cases without any")
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--processes", type=int, default=2, help="that run Triton (default 2)")
    options = parser.parse_args()
    bundle = Bundle(gpu.described(options.arch), CompileOptions(compile_threads=options.processes))
    for case in CASES:
        if not options.names or any(part in case.name for part in options.names):
            bundle.cases.append(entry(bundle, case))
            print(case.name, flush=True)
    bundle.write(options.bundle)
    print(f"{len(bundle.cases)} functions, {len(bundle.cubins)} cubins for {options.arch}")


if __name__ == "__main__":
    main()
