"""`tfxla-exec --serve` with a fault, which the environment variable PLANTED names: what bisect and minimize must find.

All but `pass` are in kernels that subtract floats.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tfxla_cluster.cli import exec as exec_
from tfxla_cluster.codegen.llvm import object_code
from tfxla_cluster.errors import UnsupportedError
from tfxla_cluster.ir.node import Instr
from tfxla_cluster.passes import base, pipelines
from tfxla_cluster.runtime.cpu.executable import Executable

PROGRAM = "tests.replay.planted"
_emit = object_code.emit


def wrong(text: Any) -> Any:
    return replace(text, function=text.function.replace(" fsub ", " fadd "))


def dies(text: Any) -> Any:
    os.kill(os.getpid(), signal.SIGSEGV)


def refuses(text: Any) -> Any:
    raise UnsupportedError(f"kernel of {len(text.function)} letters subtracts")


def hangs(text: Any) -> Any:
    time.sleep(1000)


def slow(text: Any) -> Any:
    run = Executable.run

    def late(self: Executable, arrays: Any) -> Any:
        time.sleep(0.1)
        return run(self, arrays)

    Executable.run = late  # type: ignore[method-assign]
    return text


KERNEL_FAULTS: dict[str, Callable[[Any], Any]] = {
    "kernel": wrong, "crash": dies, "message": refuses, "hang": hangs, "slow": slow,
}  # fmt: skip


def _emitted(fault: Callable[[Any], Any]) -> Callable[..., Any]:
    def emit(*arguments: Any) -> Any:
        text = _emit(*arguments)
        return fault(text) if " fsub " in text.function else text

    return emit


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
        object_code.emit = _emitted(KERNEL_FAULTS[what])


if __name__ == "__main__":
    plant(os.environ["PLANTED"])
    sys.exit(exec_.main(sys.argv[1:]))
