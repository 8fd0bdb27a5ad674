"""Runs a module step by step by its GPU kernels, in Triton's interpreter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.codegen.run_unit import flat_shapes
from tests.codegen.triton import interpreter
from tfxla_cluster.codegen.kernel.ir import Kernel
from tfxla_cluster.codegen.kernel.lower import gpu
from tfxla_cluster.codegen.kernel.unit import UnitCopy, UnitKernel
from tfxla_cluster.codegen.triton.source import render
from tfxla_cluster.codegen.triton.triton_source import TritonSource
from tfxla_cluster.errors import UnsupportedError
from tfxla_cluster.fusion import planner
from tfxla_cluster.ir import dim
from tfxla_cluster.ir.node import Instr, Module
from tfxla_cluster.target import Target

SM90 = Target("gpu", "sm_90", cores=132)
STEPS = ("while", "conditional", "call")  # of a launch plan, which this runner is not
FREE = ("parameter", "constant", "tuple", "get-tuple-element", "reshape", "bitcast")


def _poisoned(count: int, dtype: np.dtype) -> np.ndarray:
    array = np.empty(count, dtype)
    array.view(np.uint8)[...] = 0x5A if dtype != np.bool_ else 1
    return array


def unit(instr: Instr, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of `instr` (flattened) on `operands` (flattened)."""
    made = gpu.lower(instr, SM90)
    shapes = flat_shapes(instr.shape)
    places: dict[str, list[np.ndarray]] = {
        "operand": [np.ascontiguousarray(o).reshape(-1) for o in operands],
        "result": [_poisoned(dim.sample(s.element_count), s.element_type.numpy) for s in shapes],
        "temp": [_poisoned(dim.sample(b), np.dtype(np.uint8)) for b in made.temps],
    }
    for result, operand in made.inplace:
        places["result"][result] = places["operand"][operand].copy()
    for step in made.steps:
        if isinstance(step, UnitCopy):
            places[step.target.kind][step.target.index] = places[step.source.kind][step.source.index].copy()
            continue
        inputs = [places[r.kind][r.index] for r in step.inputs]
        outputs = [places[r.kind][r.index] for r in step.outputs]
        for ref, array in zip(step.outputs, launch(step.kernel, inputs, outputs)):
            places[ref.kind][ref.index] = array
    return [r.reshape(s.sample_dims) for r, s in zip(places["result"], shapes)]


def launch(kernel: Kernel, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    sizes = [dim.sample(d) for d in kernel.sizes]
    return interpreter.run(render(kernel), inputs, outputs, sizes, dim.sample(kernel.tasks))


def render_all(module: Module) -> list[TritonSource]:
    """The source of every kernel of the fused module; UnsupportedError for what has no GPU form."""
    found = []
    for instr in planner.fuse(module, SM90, lambda record: None).entry.instrs:
        if instr.opcode in STEPS:
            raise UnsupportedError(f"{instr.opcode} is a step of the plan")
        if instr.opcode not in FREE:
            steps = gpu.lower(instr, SM90).steps
            found += [render(s.kernel) for s in steps if isinstance(s, UnitKernel)]
    return found


def run(module: Module, args: Sequence[np.ndarray], fusion: bool = True) -> list[np.ndarray]:
    """The outputs (the root tuple flattened) on the entry's arguments; UnsupportedError for what has no GPU form."""
    if fusion:
        module = planner.fuse(module, SM90, lambda record: None)
    values: dict[Instr, list[np.ndarray]] = {}
    for instr in module.entry.instrs:
        operands = [values[o] for o in instr.operands]
        if instr.opcode == "parameter":
            values[instr] = [args[instr.attrs["parameter_number"]]]
        elif instr.opcode == "constant":
            values[instr] = [np.asarray(instr.attrs["literal"])]
        elif instr.opcode == "tuple":
            values[instr] = [x for o in operands for x in o]
        elif instr.opcode == "get-tuple-element":
            values[instr] = [operands[0][instr.attrs["index"]]]
        elif instr.opcode in ("reshape", "bitcast"):
            values[instr] = [operands[0][0].reshape(instr.shape.dims)]
        elif instr.opcode in STEPS:
            raise UnsupportedError(f"{instr.opcode} is a step of the plan")
        else:
            values[instr] = unit(instr, [x for o in operands for x in o])
    return values[module.entry.root]
