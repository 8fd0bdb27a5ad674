"""How many rows `x[start:end]` has where both ends are computed: by algebra on what TensorFlow computes them from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from .known_values import Inferred

# Ops whose result has, along each dimension that is not known, the size that an operand has there.
_KEEPING = frozenset(
    [
        *("Abs", "AddV2", "BatchMatMulV2", "BiasAdd", "Cast", "Elu", "Exp", "Identity", "Log", "MatMul", "Maximum"),
        *("Minimum", "Mul", "Neg", "RealDiv", "Relu", "Sigmoid", "Softmax", "Sqrt", "Square", "Sub", "Tanh"),
    ]
)
_Sum = Mapping[tuple[str, ...], int]
"""A polynomial: product of values -> its factor."""


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
        both_known = set(begin) <= {()} and set(end) <= {()}
        if any(masked) or not both_known:
            size = _sum(end, begin, lambda a, b: a - b)
            yield size.get((), 0) if set(size) <= {()} and not any(masked) else None


def _elements(nodes: Mapping[str, Any], inferred: Inferred, text: str) -> list[_Sum]:
    """Those of a vector of indices; none where they cannot be told apart."""
    number = inferred.of(text).number
    if number is not None:
        return [{(): n} for n in number]
    node = nodes.get(text.partition(":")[0])
    return [_polynomial(nodes, inferred, source) for source in _data(node)] if _is_packed(node) else []


def _is_packed(node: Any) -> bool:
    return node is not None and node.op == "Pack"


def _polynomial(nodes: Mapping[str, Any], inferred: Inferred, text: str) -> _Sum:
    number = inferred.of(text).scalar
    if number is not None:
        return {(): number} if number else {}
    node = nodes.get(text.partition(":")[0])
    if node is None or node.op not in ("AddV2", "Add", "Sub", "Mul", "Identity"):
        return {(text,): 1}
    terms = [_polynomial(nodes, inferred, source) for source in _data(node)]
    if node.op == "Identity":
        return terms[0]
    if node.op == "Mul":
        product: Counter[tuple[str, ...]] = Counter()
        for (a, n), (b, m) in ((a, b) for a in terms[0].items() for b in terms[1].items()):
            product[tuple(sorted(a + b))] += n * m
        return {k: n for k, n in product.items() if n}
    return _sum(terms[0], terms[1], (lambda a, b: a - b) if node.op == "Sub" else (lambda a, b: a + b))


def _sum(a: _Sum, b: _Sum, op: Callable[[int, int], int]) -> _Sum:
    found = {k: op(a.get(k, 0), b.get(k, 0)) for k in (*a, *b)}
    return {k: n for k, n in found.items() if n}


def _data(node: Any) -> list[str]:
    return [text for text in node.input if not text.startswith("^")]
