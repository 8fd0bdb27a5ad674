"""Runs a fused module step by step, every instruction of the entry by its kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.codegen import run_unit
from tfxla_cluster.ir.node import Instr, Module


def run(module: Module, args: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs (the root tuple flattened) on the entry's arguments."""
    values: dict[Instr, list[np.ndarray]] = {}
    for instr in module.entry.instrs:
        operands = [values[o] for o in instr.operands]
        if instr.opcode == "parameter":
            values[instr] = [args[instr.attrs["parameter_number"]]]
        elif instr.opcode == "constant":
            values[instr] = [np.asarray(instr.attrs["literal"])]
        elif instr.opcode == "tuple":
            values[instr] = [o[0] for o in operands]
        elif instr.opcode == "get-tuple-element":
            values[instr] = [operands[0][instr.attrs["index"]]]
        elif instr.opcode in ("reshape", "bitcast"):
            values[instr] = [operands[0][0].reshape(instr.shape.dims)]
        else:
            values[instr] = run_unit.run(instr, [x for o in operands for x in o])
    return values[module.entry.root]


def kernels(module: Module) -> list[str]:
    """Names of entry instructions that take kernels."""
    free = ("parameter", "constant", "tuple", "get-tuple-element", "reshape", "bitcast")
    return [i.name for i in module.entry.instrs if i.opcode not in free]
