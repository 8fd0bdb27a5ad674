"""What a trace is up to its sizes: whether Python made another program of a function at another size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...tf2xla import function_calls, sources
from ..compiler_port import Trace

_NO_PROGRAM = "VarIsInitializedOp"  # of a trace that makes variables, which no other has


def of(function: str, number: int) -> Trace | None:
    """A registered function's, a trace of the Python function of this number (0: none is known). None where it is not
    known of which, and where other traces of it differ in any case."""
    definitions = list(sources.reachable(function)) if number else []
    names = {definition.signature.name: str(place) for place, definition in enumerate(definitions)}
    nodes = {}
    for place, definition in enumerate(definitions):
        args = {arg.name: f"#{k}" for k, arg in enumerate(definition.signature.input_arg)}
        for node in definition.node_def:
            if node.op == _NO_PROGRAM:
                return None
            nodes[place, node.name] = node.op, "; ".join(_form(node, args, names))
    return Trace(number, nodes) if nodes else None


def _form(node: Any, args: dict[str, str], names: dict[str, str]) -> Iterator[str]:
    """Its inputs, types, and functions; no number, which may follow a size."""
    for text in node.input:
        name, port = text.partition(":")[::2]
        yield f"{args.get(name, name)}:{port}"
    for attr, value in sorted(node.attr.items()):
        if value.WhichOneof("value") == "type":
            yield f"{attr}={value.type}"
        elif called := function_calls.functions(value):
            yield f"{attr}={[names.get(function.name, '') for function in called]}"
