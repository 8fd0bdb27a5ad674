"""What becomes of sizes that vary, as records `dynamic` (log topic `dynamic`): a size gets a name, a module for all
sizes is proven at one more or is not the program there, a function is compiled for its own sizes because of something,
an executable asks something of its sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from . import compile_records, flags, trace
from .decision import Decision
from .dynamic.families import Choice
from .dynamic.misfit import Misfit
from .dynamic.unifier import Generic
from .ir import guard
from .ir.dim import DimExpr
from .ir.shape import Shape

if TYPE_CHECKING:  # not at run time: `enable` may run within the import of tensorflow
    from .tf.compiler_port import CompileRequest

KIND = "dynamic"
Shapes = Sequence[Shape]
"""Of a module's parameters."""
_ASKED = frozenset({"range", "divisible", "residue", "same"})  # kinds of guards that a module for all sizes may add


def chosen(choice: Choice, shapes: Shapes, request: CompileRequest) -> None:
    """A module whose parameters have these shapes is compiled as `choice` says."""
    if not trace.wants(KIND):
        return
    for misfit in choice.refused:
        sizes, where = _sizes(shapes, request), place(misfit, request)
        _record("refused", request, ok=False, sizes=sizes, where=where, reason=str(misfit))
    if choice.misfit is not None:
        specialised(choice.misfit, shapes, request)
    elif choice.generic is not None and choice.proofs:
        sizes = _sizes(shapes, request, choice.generic)
        _record("proven", request, sizes=sizes, reason=f"the program lowered at this size is it ({choice.proofs})")
    elif choice.generic is not None:
        named(choice.generic, request, "the modules of these sizes are one")


def named(generic: Generic, request: CompileRequest, reason: str) -> None:
    """A record for each size of a module for many sizes, at the first dimension that is it."""
    seen: set[str] = set()
    for number, param in enumerate(generic.module.entry.params):
        for axis, dim in enumerate(param.shape.dims):
            if not isinstance(dim, DimExpr) or not dim.is_size or dim.name in seen:
                continue
            seen.add(dim.name)
            values = [str(module.entry.params[number].shape.dims[axis]) for module in generic.origin]
            _record(
                "symbol",
                request,
                size=dim.name,
                of=request.inputs[number],
                axis=axis,
                range=[dim.low, dim.high],
                reason=f"{reason}: {', '.join(values)}",
            )


def specialised(misfit: Misfit, shapes: Shapes, request: CompileRequest) -> None:
    """It is compiled for its own sizes."""
    if trace.wants(KIND):
        where = place(misfit, request)
        _record("specialised", request, sizes=_sizes(shapes, request), where=where, reason=str(misfit))


def guarded(guards: Iterable[guard.Guard], request: CompileRequest) -> None:
    """What a compiled module for all sizes asks of them."""
    asked = (g for g in guards if g.kind in _ASKED and g.place[0] < len(request.inputs))
    for one in asked if trace.wants(KIND) else ():
        words = compile_records.size_guard(one, request.inputs)
        _record("guard", request, of=request.inputs[one.place[0]], axis=one.place[1], reason=words)


def trusted(decision: Decision, request: CompileRequest, ranges: Iterable[guard.Guard] = ()) -> None:
    """It runs at sizes in these ranges that were not proven, or does not."""
    words = ", ".join(compile_records.size_guard(one, request.inputs) for one in ranges)
    right = f"it is right at the ends ({words})" if decision else f"it is no other size's ({decision.reason})"
    reason = f"--tfxla_dynamic_verify={flags.get('tfxla_dynamic_verify')}: {right}"
    _record("trusted" if decision else "untrusted", request, ok=decision.ok, reason=reason)


def place(misfit: Misfit, request: CompileRequest) -> str:
    """The user's line of the instruction at which modules part, '' where none is known."""
    nodes = sorted(misfit.instr.sources) if misfit.instr is not None else []
    return next((request.lines[node] for node in nodes if node in request.lines), "")


def _sizes(shapes: Shapes, request: CompileRequest, generic: Generic | None = None) -> Mapping[str, object]:
    """Input -> its dimensions; of a module for many sizes each size's name -> what it is here."""
    if generic is None:
        return {words: list(map(str, shape.dims)) for words, shape in zip(request.inputs, shapes)}
    pairs = zip(generic.module.entry.params, shapes)
    dims = [pair for param, shape in pairs for pair in zip(param.shape.dims, shape.dims)]
    return {dim.name: number for dim, number in dims if isinstance(dim, DimExpr) and dim.is_size}


def _record(event: str, request: CompileRequest, ok: bool = True, **fields: object) -> None:
    trace.record("dynamic", event=event, ok=ok, function=request.name, family=request.family, **fields)
