"""How many rows `x[start:end]` has where both ends are computed: by algebra on what TensorFlow computes them from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..ir.dim import Dim, make, sym
from ..ir.polynomial import as_dim, polynomial
from .known_values import Inferred

# Ops whose result has, along each dimension that is not known, the size that an operand has there.
_KEEPING = frozenset(
    [
        *("Abs", "AddV2", "BatchMatMulV2", "BiasAdd", "Cast", "Elu", "Exp", "Identity", "Log", "MatMul", "Maximum"),
        *("Minimum", "Mul", "Neg", "RealDiv", "Relu", "Sigmoid", "Softmax", "Sqrt", "Square", "Sub", "Tanh"),
    ]
)


def is_of(definition: Any, inferred: Inferred, text: str, dims: Sequence[int]) -> bool:
    """Has the FunctionDef's value `text` these sizes? What TensorFlow does not know has to come from slices."""
    known = inferred.of(text).dims
    if known is None or len(known) != len(dims):
        return False
    if any(size is not None and size != wanted for size, wanted in zip(known, dims)):
        return False
    open_ = {wanted for size, wanted in zip(known, dims) if size is None}
    nodes = {node.name: node for node in definition.node_def}
    # One size: which dimension of the value is which of the slice need not be followed.
    return len(open_) <= 1 and set(_sizes(nodes, inferred, text)) <= open_


def _sizes(nodes: Mapping[str, Any], inferred: Inferred, text: str) -> Iterator[int | None]:
    """Of the slices that a value's unknown sizes come from; None for one that cannot be told."""
    dims = inferred.of(text).dims
    if dims is not None and None not in dims:
        return
    node = nodes.get(text.partition(":")[0])
    if node is not None and node.op == "StridedSlice":
        yield from _of_slice(nodes, inferred, node)
    elif node is not None and node.op in _KEEPING:
        for source in (source for source in node.input if not source.startswith("^")):
            yield from _sizes(nodes, inferred, source)
    else:
        yield None


def _of_slice(nodes: Mapping[str, Any], inferred: Inferred, node: Any) -> Iterator[int | None]:
    dims = inferred.of(node.input[0]).dims
    strides = inferred.of(node.input[3]).number
    masks = (node.attr[f"{kind}_mask"].i for kind in ("ellipsis", "new_axis"))
    if dims is None or None in dims or strides is None or set(strides) != {1} or any(masks):
        yield None
        return
    begins, ends = (_elements(nodes, inferred, source) for source in node.input[1:3])
    if len(begins) != len(strides) or len(ends) != len(strides):
        yield None
        return
    for axis, (begin, end) in enumerate(zip(begins, ends)):
        masked = [node.attr[f"{kind}_mask"].i >> axis & 1 for kind in ("begin", "end", "shrink_axis")]
        if masked[2] or (masked[0] and masked[1]):
            continue
        if any(masked) or not (isinstance(begin, int) and isinstance(end, int)):
            size = as_dim(polynomial(_minus(end, begin)))
            yield size if isinstance(size, int) and not any(masked) else None


def _elements(nodes: Mapping[str, Any], inferred: Inferred, text: str) -> list[Dim]:
    """Those of a vector of indices; none where they cannot be told apart."""
    number = inferred.of(text).number
    if number is not None:
        return list(number)
    node = nodes.get(text.partition(":")[0])
    return [_expression(nodes, inferred, source) for source in _data(node)] if _is_packed(node) else []


def _is_packed(node: Any) -> bool:
    return node is not None and node.op == "Pack"


def _expression(nodes: Mapping[str, Any], inferred: Inferred, text: str) -> Dim:
    """A scalar as sums and products of those that nothing more is known of, each a size by its name."""
    number = inferred.of(text).scalar
    if number is not None:
        return number
    node = nodes.get(text.partition(":")[0])
    if node is None or node.op not in ("AddV2", "Add", "Sub", "Mul", "Identity"):
        return sym(text, 0)
    first, *rest = (_expression(nodes, inferred, source) for source in _data(node))
    if node.op == "Identity":
        return first
    if node.op == "Sub":
        return _minus(first, rest[0])
    return make("mul" if node.op == "Mul" else "add", first, rest[0])


def _minus(a: Dim, b: Dim) -> Dim:
    return make("add", a, make("mul", b, -1))


def _data(node: Any) -> list[str]:
    return [text for text in node.input if not text.startswith("^")]
