"""At which sizes a module for many runs where nothing was proven (--tfxla_dynamic_verify=first|off)."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from . import dynamic_records, flag_options
from .decision import YES, Decision, no
from .dynamic import boxes, prove, rows
from .dynamic.boxes import Box
from .dynamic.families import Choice
from .dynamic.sources import Place
from .dynamic.unifier import Generic
from .dynamic_records import Shapes
from .errors import LoweringError
from .ir import proto as hlo_proto
from .ir.dim import DimExpr
from .ir.guard import Guard
from .locks import ForkSafeLock
from .size_spec import Size

if TYPE_CHECKING:  # not at run time: `enable` may run within the import of tensorflow
    from collections.abc import Mapping

    from .tf.compiler_port import CompileRequest

_Trace = tuple[str, str, tuple[Guard, ...], str]
"""Its name and device, the values that it was lowered with, and the digest of the module for many sizes: another trace,
and the same one for another value, may be another program elsewhere."""
_MOST_TRACES = 4096
_MOST_REFUSED = 3  # boxes of a trace with a corner where it is another program: then each size is proven
RULE = "trusted-sizes"


@dataclass
class _Trusted:
    """Of one trace. never: the reason why it is trusted nowhere, None where that is not known yet."""

    never: Decision
    boxes: list[Box] = field(default_factory=list)
    refused: int = 0


class TrustedSizes:
    """Thread safe; of two threads that ask for one trace at once each may prove a box of its own."""

    def __init__(self) -> None:
        self._traces: OrderedDict[_Trace, _Trusted] = OrderedDict()
        self._lock = ForkSafeLock()

    def ranges(
        self, shapes: Shapes, request: CompileRequest, choice: Choice, said: Mapping[Place, Size]
    ) -> tuple[Guard, ...] | None:
        """The ranges of sizes around those of a request, about the module's parameters, in which the executable of a
        module for many sizes may run; None for these sizes alone. As the flag says, where the trace asks nothing about
        its sizes, and only if the module is also what the trace is at the ends of these ranges (`boxes`). `said`: about
        sizes, by dimension."""
        generic = choice.generic
        if generic is None or not generic.is_guarded or request.has_predicates:
            return None
        if not flag_options.is_trusted(choice.proofs):
            return None
        key = request.name, request.device, request.values, choice.digest
        with self._lock:
            trusted = self._traces.get(key)
        if trusted is None:
            trusted = _Trusted(_asks_nothing(request, generic))
            if not trusted.never:
                dynamic_records.trusted(trusted.never, request)
            self._keep(key, trusted)
        found = next((box for box in trusted.boxes if boxes.has(box, shapes)), None)
        if found is None and trusted.never and trusted.refused < _MOST_REFUSED:
            found = _proven(shapes, request, generic, said, trusted)
        return None if found is None else boxes.guards(found)

    def forget(self) -> None:
        """All that was seen."""
        with self._lock:
            self._traces.clear()

    def _keep(self, key: _Trace, trusted: _Trusted) -> None:
        with self._lock:
            self._traces[key] = trusted
            while len(self._traces) > _MOST_TRACES:
                self._traces.popitem(last=False)


def _asks_nothing(request: CompileRequest, generic: Generic) -> Decision:
    question = request.question()
    if question:
        return no(RULE, question)
    window = boxes.rounding(generic.module)
    return YES if window is None else no(RULE, f"%{window.name} goes along a size in steps, which may leave a rest")


def _proven(
    shapes: Shapes, request: CompileRequest, generic: Generic, said: Mapping[Place, Size], trusted: _Trusted
) -> Box | None:
    """A box around these sizes, kept; None where the trace is another program at a corner."""
    box = boxes.around(generic.module, shapes, _varying(request, generic), said)
    decision = _right_at_corners(box, request, generic)
    dynamic_records.trusted(decision, request, boxes.guards(box))
    if not decision:
        trusted.refused += 1
        return None
    trusted.boxes.append(box)
    return box


def _right_at_corners(box: Box, request: CompileRequest, generic: Generic) -> Decision:
    if len(box) > boxes.MOST_SIDES:
        return no(RULE, f"{len(box)} sizes vary")
    for corner in boxes.corners(box):
        try:
            proof = prove.prove(generic, rows.of_module(hlo_proto.read(request.relower(corner))))
        except LoweringError as error:
            proof = no(prove.RULE, error.message)
        if not proof:
            words = ", ".join(f"{request.inputs[n]} dim {axis} of {size}" for (n, axis), size in corner.items())
            return no(proof.rule, f"at {words}: {proof.reason}")
    return YES


def _varying(request: CompileRequest, generic: Generic) -> frozenset[Place]:
    """The sizes of the generic module that the trace may be called with others of."""
    return frozenset(
        (number, axis)
        for number, param in enumerate(generic.module.entry.params)
        for axis, dim in enumerate(param.shape.dims)
        if isinstance(dim, DimExpr) and (number in request.untold or (number, axis) in request.open)
    )
