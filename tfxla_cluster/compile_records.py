"""What a record `compile` says besides why: what the executable holds for, and the stacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from . import trace
from .compiler import APART
from .errors import RecompileLimitError
from .ir import guard
from .ir.guard import Guard

if TYPE_CHECKING:  # not at run time: `enable` may run within the import of tensorflow
    from .tf.compiler_port import CompileRequest

_PROGRAM = "hlo"  # the fact of a key that is the program itself


def serves(request: CompileRequest, own: Sequence[Guard], key: Iterable[Guard]) -> dict[str, Any]:
    """The guard set of an executable: {inputs: [{of, dtype, dims, guards, value}], python, process}.

    `own`: its guards about the HLO parameters. A dim that may be any is None; `guards` has what is asked of such ones;
    `value` is there where the input's value is compiled in. An input that is no parameter has the sizes of the request.
    """
    return {
        "inputs": _inputs(request, own),
        "python": dict(request.python),
        "process": {str(g.subject): str(g.wanted) for g in key if g.subject != _PROGRAM},
    }


def by_input(request: CompileRequest, own: Sequence[Guard]) -> list[str]:
    """The inputs of `serves`, a line each: `argument 'x': float32[32,None] = value`."""
    return [
        f"{entry['of']}: {entry['dtype']}[{','.join(map(str, entry['dims']))}]"
        f"{' = ' if 'value' in entry else ''}{entry.get('value', '')}"
        for entry in _inputs(request, own)
    ]


def _inputs(request: CompileRequest, own: Sequence[Guard]) -> list[dict[str, Any]]:
    names = request.names
    if names is None:
        return []
    found = []
    for asked in (g for g in request.guards if g.kind == "rank"):
        number, words = asked.place[0], names.input(asked.place[0])
        seen = [g for g in request.guards if g.place[0] == number]
        is_parameter = words in request.inputs
        at = request.inputs.index(words) if is_parameter else number
        sizes = [g for g in (own if is_parameter else seen) if g.place[0] == at and guard.KINDS[g.kind].about == "size"]
        exact = {g.place[1]: g.wanted for g in sizes if g.kind == "equal"}
        entry = {
            "of": words,
            "dtype": "".join(names.dtype(cast("int", g.wanted)) for g in seen if g.kind == "dtype"),
            "dims": [exact.get(axis) for axis in range(cast("int", asked.wanted))],
            "guards": [size_guard(g, request.inputs) for g in sizes if g.kind != "equal"],
        }
        values = [names.value(number, cast("bytes", g.wanted)) for g in seen if g.kind == "value"]
        found.append({**entry, "value": values[0]} if values else entry)
    return found


def size_guard(one: Guard, inputs: Sequence[str]) -> str:
    """What is asked of a dimension, in words: 'dim 0: at least 2'."""
    wanted = guard.KINDS[one.kind].text(one.wanted)
    if one.kind == "same":
        number, axis = cast("guard.Place", one.wanted)
        wanted = f"dim {axis} of {inputs[number]}"
    return f"dim {one.place[1]}: {wanted}"


def costs(request: CompileRequest, compiled: float | None = None) -> dict[str, float]:
    """Milliseconds by what they went into: 'trace' where known, 'lowering', 'generic', and 'compile' where it was."""
    known = request.costs if compiled is None else {**request.costs, "compile": compiled}
    return {name: round(spent, 3) for name, spent in known.items()}


def phases(request: CompileRequest, executable: trace.Phase) -> dict[str, float]:
    """Milliseconds of all that it took to have the executable, by phase; `executable`: the phase that is about to end.
    Their sum is what the program waited for, the trace included where it was not told before."""
    return {**request.costs, **executable.times.milliseconds(APART, {"compile"})}


def limited(request: CompileRequest, limit: int, error: RecompileLimitError) -> None:
    """Record that a function is compiled no more."""
    trace.record(
        "limit",
        function=request.name,
        what=request.kind,
        family=request.family or request.name,
        limit=limit,
        where=error.where,
        reason=error.message,
        remedy=error.remedy,
    )


def stack_of(request: CompileRequest, nodes: Iterable[str]) -> list[Mapping[str, Any]]:
    """The stack of the first of these TF nodes that has one."""
    return next((list(found) for node in nodes if (found := request.stack(node))), [])
