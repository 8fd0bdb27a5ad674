"""What a kernel should compute, in higher precision than its own: the same computation with floats of 64 bits, made by
other kernels than those under trial.

Where two exact values that are near give others that are not (comparisons, rounding, sorts), more precise numbers may
fall on the other side, so that such computations have no reference here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from .. import compiler, trace
from ..backends.backend import Backend, Launcher
from ..dump.cost import bytes_of, flops_of
from ..errors import TfxlaError
from ..ir.dtype import DTYPES, F64, DType, from_numpy
from ..ir.literal import Literal, freeze
from ..ir.node import CALLED_ATTRS, Computation, Instr, Module
from ..ir.opcode import OPCODES
from ..ir.shape import Shape, array, tuple_of
from ..options import CompileOptions
from . import check, fingerprint

WORK = {"cpu": 2e10, "gpu": 4e12}  # scalar operations and bytes beyond which it would take seconds
_STEPS = frozenset(("ceil", "compare", "floor", "is-finite", "remainder", "round-nearest-afz", "round-nearest-even"))
_OTHERS = frozenset(("bitcast-convert", "reduce-precision", "sign", "stochastic-convert", "custom-call"))
_EDGES = frozenset(("acos", "acosh", "asin", "atanh", "divide", "log", "log-plus-one", "power", "rsqrt", "sqrt", "tan"))
_FEW = 1e-3  # of the elements
_KINDS = frozenset(("elementwise", "leaf", "move", "reduce", "contraction", "tuple"))
_PRECISION = {"algorithm": "", "operand_precision": ()}  # of products: those of floats of 64 bits have no other


def values(
    instr: Instr, inputs: Sequence[np.ndarray], backend: Backend[Launcher], options: CompileOptions
) -> tuple[list[np.ndarray] | None, str]:
    """What `instr` computes of `inputs`, rounded to its types, or None and why there is no such reference."""
    if flops_of(instr) + bytes_of(instr) > WORK.get(backend.target.backend, 0):
        return None, "it takes too long"
    found = wide(instr)
    if isinstance(found, str):
        return None, found
    try:
        with trace.muted():
            made = compiler.compile_module(found, backend, options).executable
        return made.run(inputs), ""
    except (TfxlaError, MemoryError) as error:
        return None, f"in f64 it does not run: {str(error).splitlines()[0]}"


def tolerance(instr: Instr, tf32: bool) -> check.Tolerance:
    """How near `values` a right result is. Narrow floats are rounded on the way, or are not; and where a function has
    an edge in its domain (the root of a number near 0), some elements lie on the other side of it."""
    inside = [i for i in _inside(instr) if i.shape.is_array and i.opcode != "parameter"]
    narrow = {i.shape.element_type for i in inside if _is_float(i.shape) and i.shape.element_type.bits < 32}
    edges = any(i.opcode in _EDGES and _is_float(i.shape) for i in inside)
    return check.Tolerance(tf32, max(map(check.rounding, narrow), default=0.0), _FEW if edges else 0.0)


def wide(instr: Instr) -> Module | str:
    """A module that computes what `instr` does with f64 and c128 in place of its floats, or why there is none. Its
    parameters and results have the types of the instruction's."""
    for inner in _inside(instr):
        if said := _refused(inner):
            return said
    body = _body(instr)
    params = [_parameter(p, p.shape) for p in body.params]
    entered = {p: _converted(f"{p.name}.wide", q, _wider(p.shape)) for p, q in zip(body.params, params)}
    inside = _Wider().inside(body, entered)
    results = list(_results(body.root, inside[body.root]))
    narrowed = [_converted(f"{r.name}.narrow", r, shape) for r, shape in results]
    root = narrowed[0]
    if body.root.shape.is_tuple:
        root = Instr("results", "tuple", tuple_of(*(n.shape for n in narrowed)), tuple(narrowed))
    order = [*params, *entered.values(), *inside.values(), *(r for r, _ in results), *narrowed, root]
    return Module(f"{instr.name}.wide", Computation("wide", tuple(dict.fromkeys(order)), root))


def _parameter(instr: Instr, shape: Shape) -> Instr:
    """A parameter of that shape."""
    return Instr(instr.name, "parameter", shape, attrs={"parameter_number": instr.attrs["parameter_number"]})


def _body(instr: Instr) -> Computation:
    found = instr.attrs["calls"] if instr.opcode == "fusion" else fingerprint.alone(instr)
    assert isinstance(found, Computation)
    return found


def _inside(instr: Instr) -> Iterator[Instr]:
    """All that is computed, in computations that are called too."""
    todo = [_body(instr)]
    while todo:
        comp = todo.pop()
        for inner in comp.instrs:
            yield inner
            todo += inner.called


def _refused(instr: Instr) -> str:
    floats = any(_is_float(o.shape) for o in instr.operands)
    steps = instr.opcode in _STEPS or (instr.opcode == "convert" and not _is_float(instr.shape))
    if instr.opcode in _OTHERS or (floats and steps):
        return f"{instr.opcode} ({instr.name}) makes much of small differences"
    if OPCODES[instr.opcode].category not in _KINDS or instr.opcode == "select-and-scatter":
        return f"{instr.opcode} ({instr.name}) is not one of its operations"
    return ""


def _is_float(shape: Shape) -> bool:
    return shape.is_array and shape.element_type.kind in ("float", "complex")


def _wider(shape: Shape) -> Shape:
    if shape.is_tuple:
        return tuple_of(*map(_wider, shape.elements))
    return array(_wide_type(shape.element_type), shape.dims)


def _wide_type(dtype: DType) -> DType:
    return {"float": F64, "complex": DTYPES["c128"]}.get(dtype.kind, dtype)


def _converted(name: str, instr: Instr, shape: Shape) -> Instr:
    plain = array(shape.element_type, shape.dims)
    return instr if instr.shape.same_as(plain) else Instr(name, "convert", plain, (instr,))


def _results(root: Instr, made: Instr) -> Iterator[tuple[Instr, Shape]]:
    """Each result, and the shape that it should have."""
    if not root.shape.is_tuple:
        yield made, root.shape
    elif root.opcode == "tuple":
        yield from zip(made.operands, (o.shape for o in root.operands))
    else:
        for n, shape in enumerate(root.shape.elements):
            yield (
                Instr(f"{made.name}.part{n}", "get-tuple-element", made.shape.elements[n], (made,), {"index": n}),
                shape,
            )


class _Wider:
    """Copies with wider types; of a computation that is called more than once one."""

    def __init__(self) -> None:
        self._made: dict[Computation, Computation] = {}

    def inside(self, comp: Computation, entered: Mapping[Instr, Instr]) -> dict[Instr, Instr]:
        """For each instruction of `comp` its copy; `entered`: what stands for its parameters."""
        made = dict(entered)
        for instr in comp.instrs:
            if instr not in made:
                operands = tuple(made[o] for o in instr.operands)
                made[instr] = Instr(instr.name, instr.opcode, _wider(instr.shape), operands, self._attrs(instr))
        return made

    def _attrs(self, instr: Instr) -> dict[str, object]:
        kept = {name: _PRECISION.get(name, value) for name, value in instr.attrs.items()}
        if instr.opcode == "constant":
            kept["literal"] = _literal(kept["literal"])
        return {name: self._called(value) if name in CALLED_ATTRS else value for name, value in kept.items()}

    def _called(self, value: object) -> object:
        if isinstance(value, tuple):
            return tuple(map(self._called, value))
        assert isinstance(value, Computation)
        if value not in self._made:
            made = self.inside(value, {p: _parameter(p, _wider(p.shape)) for p in value.params})
            self._made[value] = Computation(value.name, tuple(made[i] for i in value.instrs), made[value.root])
        return self._made[value]


def _literal(value: Literal) -> Literal:
    if isinstance(value, tuple):
        return tuple(map(_literal, value))
    dtype = _wide_type(from_numpy(value.dtype))
    return freeze(value.astype(dtype.numpy))
