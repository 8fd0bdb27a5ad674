"""`tfxla-exec --serve` with a fault, which the environment variable PLANTED names: what bisect and minimize must find.

All but `pass` are in kernels that subtract floats.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from tfxla_cluster.cli import exec as exec_
from tfxla_cluster.codegen.llvm.math import FLOAT_FUNCTIONS
from tfxla_cluster.errors import UnsupportedError
from tfxla_cluster.ir.node import Instr
from tfxla_cluster.passes import base, pipelines
from tfxla_cluster.runtime.cpu.executable import Executable

PROGRAM = "tests.replay.planted"


def wrong(a: Any, b: Any) -> Any:
    return a + b


def dies(a: Any, b: Any) -> Any:
    os.kill(os.getpid(), signal.SIGSEGV)


def refuses(a: Any, b: Any) -> Any:
    raise UnsupportedError(f"%kernel.{id(a)} subtracts")


def hangs(a: Any, b: Any) -> Any:
    time.sleep(1000)


def slow(a: Any, b: Any) -> Any:
    run = Executable.run

    def late(self: Executable, arrays: Any) -> Any:
        time.sleep(0.1)
        return run(self, arrays)

    Executable.run = late  # type: ignore[method-assign]
    return a - b


KERNEL_FAULTS: dict[str, Callable[[Any, Any], Any]] = {
    "kernel": wrong, "crash": dies, "message": refuses, "hang": hangs, "slow": slow,
}  # fmt: skip


def _exchanged(instr: Instr) -> Instr | None:
    """A rule of a pass: the operands of a division by a tanh, the wrong way round."""
    if instr.operands[1].opcode != "tanh" or instr.operands[0].opcode == "tanh":
        return None
    return instr.replace(operands=instr.operands[::-1])


def _with_wrong_pass(optimize: Callable[..., list[base.Pass]]) -> Callable[..., list[base.Pass]]:
    bad = base.of_rules("sort-simplifier", {"divide": [_exchanged]})
    return lambda target: [bad if p.name == bad.name else p for p in optimize(target)]


def plant(what: str) -> None:
    if what == "pass":
        pipelines.optimize = _with_wrong_pass(pipelines.optimize)
    else:
        FLOAT_FUNCTIONS["subtract"] = lambda asm, a, b: KERNEL_FAULTS[what](a, b)


if __name__ == "__main__":
    plant(os.environ["PLANTED"])
    sys.exit(exec_.main(sys.argv[1:]))
