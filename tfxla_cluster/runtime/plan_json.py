"""Launch plans as JSON, and back. Constants go beside it (as blobs) or inside it (base64).

step: {"step": "kernel", "symbol": ..., "inputs": [["temp", 0, 64], ...], ...}
place: [kind, index, offset]      shape: ["f32", [dims]]      guard: ["range", [input, axis], [least, most]]
dim: 5 | ["sym", "n", 100, low, high, every, rest] | ["bounded", "k", dim] | ["mul", dim, dim]
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from ..errors import InputFileError
from ..ir import dtype as dtypes
from ..ir import guard
from ..ir.dim import Dim, DimExpr, bounded, is_produced, sym
from ..ir.shape import Shape, array
from ..ir.size_operators import OPERATORS
from .plan import (
    BranchStep,
    CopyStep,
    KernelStep,
    LaunchPlan,
    LibraryStep,
    LoopStep,
    Ref,
    SizeSource,
    SizeStep,
    Step,
    TfOpStep,
)

FORMAT = 5
_STEPS: dict[str, type] = {
    "kernel": KernelStep,
    "library": LibraryStep,
    "tf_op": TfOpStep,
    "copy": CopyStep,
    "branch": BranchStep,
    "loop": LoopStep,
    "size": SizeStep,
}
_STEP_NAMES = {kind: name for name, kind in _STEPS.items()}


def dumps(plan: LaunchPlan, indent: int | None = None) -> str:
    """The whole plan, constants included."""
    data = to_data(plan)
    data["constants"] = [base64.b64encode(c).decode() for c in plan.constants]
    return json.dumps(data, indent=indent)


def loads(text: str) -> LaunchPlan:
    """The plan of `dumps`; InputFileError where the text is not one."""
    try:
        data = json.loads(text)
        constants = [base64.b64decode(c) for c in data["constants"]]
    except (ValueError, KeyError, TypeError) as error:
        raise InputFileError(f"not a launch plan: {error!r}") from None
    return from_data(data, constants)


def to_data(plan: LaunchPlan) -> dict[str, Any]:
    """JSON values of everything but the constants' bytes (their sizes instead)."""
    return {
        "format": FORMAT,
        "name": plan.name,
        "inputs": [_shape(s) for s in plan.inputs],
        "outputs": [_shape(s) for s in plan.outputs],
        "sizes": [[s.symbol, s.input, s.axis, _dim(s.bound)] for s in plan.sizes],
        "steps": [_step(s) for s in plan.steps],
        "constant_bytes": [len(c) for c in plan.constants],
        "arena_bytes": _dim(plan.arena_bytes),
        "aliases": [list(a) for a in plan.aliases],
        "guards": guard.to_data(plan.guards),
    }


def from_data(data: Any, constants: Sequence[bytes]) -> LaunchPlan:
    """The plan of `to_data`; InputFileError for another format, other constants and what is no plan."""
    try:
        return _read_plan(data, constants)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputFileError(f"not a launch plan: {error!r}") from None


def _read_plan(data: Any, constants: Sequence[bytes]) -> LaunchPlan:
    if data["format"] != FORMAT:
        raise InputFileError(f"launch plan of format {data['format']}, expected {FORMAT}")
    if [len(c) for c in constants] != data["constant_bytes"]:
        raise InputFileError("launch plan with other constants than it names")
    return LaunchPlan(
        str(data["name"]),
        tuple(map(_read_shape, data["inputs"])),
        tuple(map(_read_shape, data["outputs"])),
        tuple(SizeSource(str(s), int(i), int(a), _read_dim(b)) for s, i, a, b in data["sizes"]),
        _read_steps(data["steps"]),
        tuple(constants),
        _read_dim(data["arena_bytes"]),
        tuple((int(o), int(i)) for o, i in data["aliases"]),
        guard.from_data(data["guards"]),
    )


def _dim(dim: Dim) -> Any:
    if isinstance(dim, int):
        return dim
    if is_produced(dim):
        return [dim.op, dim.name, _dim(dim.bound)]
    return [dim.op, *dim.args] if dim.is_size else [dim.op, *map(_dim, dim.operands)]


def _read_dim(data: Any) -> Dim:
    if isinstance(data, int):
        return data
    op, a, b, *ends = data
    if op == "sym":
        low, high, every, rest = ends
        return sym(str(a), int(b), int(low), None if high is None else int(high), int(every), int(rest))
    if op == "bounded":
        return bounded(str(a), _read_dim(b))
    if op not in OPERATORS:
        raise ValueError(f"unknown size expression {op!r}")
    return DimExpr(op, (_read_dim(a), _read_dim(b)))


def _shape(shape: Shape) -> Any:
    return [str(shape.dtype), [_dim(d) for d in shape.dims]]


def _read_shape(data: Any) -> Shape:
    name, dims = data
    return array(dtypes.DTYPES[name], tuple(_read_dim(d) for d in dims))


def _ref(ref: Ref) -> Any:
    return [ref.kind, ref.index, _dim(ref.offset)]


def _read_ref(data: Any) -> Ref:
    kind, index, offset = data
    if kind not in ("input", "output", "temp", "const"):
        raise ValueError(f"unknown kind of place {kind!r}")
    return Ref(kind, int(index), _read_dim(offset))


def _refs(refs: Sequence[Ref]) -> Any:
    return [_ref(r) for r in refs]


def _read_refs(data: Any) -> tuple[Ref, ...]:
    return tuple(_read_ref(r) for r in data)


def _dims(dims: Sequence[Dim]) -> Any:
    return [_dim(d) for d in dims]


def _read_dims(data: Any) -> tuple[Dim, ...]:
    return tuple(_read_dim(d) for d in data)


def _steps(steps: Sequence[Step]) -> Any:
    return [_step(s) for s in steps]


def _read_steps(data: Any) -> tuple[Step, ...]:
    return tuple(_read_step(s) for s in data)


# Field of a step -> how it is written and read; other fields are JSON values as they are.
_FIELDS: dict[str, tuple[Any, Any]] = {
    **dict.fromkeys(("inputs", "outputs"), (_refs, _read_refs)),
    **dict.fromkeys(("source", "target", "selector", "flag"), (_ref, _read_ref)),
    **dict.fromkeys(("tasks", "cost", "bytes"), (_dim, _read_dim)),
    **dict.fromkeys(("condition", "body"), (_steps, _read_steps)),
    "sizes": (_dims, _read_dims),
    "branches": (lambda b: [_steps(s) for s in b], lambda b: tuple(_read_steps(s) for s in b)),
    **dict.fromkeys(("attrs", "params"), (lambda a: [list(p) for p in a], lambda a: tuple((n, v) for n, v in a))),
}


def _step(step: Step) -> dict[str, Any]:
    data: dict[str, Any] = {"step": _STEP_NAMES[type(step)]}
    for field in fields(step):
        value = getattr(step, field.name)
        data[field.name] = _FIELDS[field.name][0](value) if field.name in _FIELDS else value
    return data


def _read_step(data: dict[str, Any]) -> Step:
    values = {n: _FIELDS[n][1](v) if n in _FIELDS else v for n, v in data.items() if n != "step"}
    step: Step = _STEPS[data["step"]](**values)
    return step
