"""Ops on arrays of sizes that a run produces, in forms that are exact: the bridge counts from the largest size, or
refuses.

    v[-3:], v[::2], v[::-1], v[-1]   gathers of places that are counted from the size
    Split, SplitV, Roll, MirrorPad   the same
    MatrixDiag                       a choice where row and column are one
    ScatterNd                        added to zeros of the shape
    stateless random numbers         as many as there may be, cut to the size: each hangs on its place alone

A vector of places is a Range, whose length's bound the bridge infers; of sizes that it knows each form is what it was.
In FunctionDefs only; outputs keep their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from tensorflow.core.framework import types_pb2
from tensorflow.python.framework import dtypes, tensor_util

from ..graph.view import NodeDef, attr
from .random_ops import INTEGER_OPS, Builder, algorithms, is_philox

_I32, _BOOL = types_pb2.DT_INT32, types_pb2.DT_BOOL


def expand(nodes: Iterable[NodeDef], of_such_size: frozenset[str]) -> list[NodeDef] | None:
    """The nodes with those of the ops rewritten that read such arrays, by name; None where there is none to rewrite."""
    found = list(nodes)
    if not any(node.op in _FORMS and node.name in of_such_size for node in found):
        return None
    constants = {
        f"{node.name}:output:0": tensor_util.MakeNdarray(node.attr["value"].tensor)
        for node in found
        if node.op == "Const" and attr(node, "dtype") in (_I32, types_pb2.DT_INT64)
    }
    chosen = algorithms(found)
    result: list[NodeDef] = []
    for node in found:
        form = _FORMS.get(node.op) if node.name in of_such_size else None
        writer = _Writer(node, constants, form is _random and is_philox(node, chosen))
        result.extend(writer.nodes if form is not None and form(writer) else [node])
    return result if len(result) > len(found) else None


class _Writer(Builder):
    """Nodes that compute with s32 scalars and vectors beside one node."""

    def __init__(self, node: NodeDef, constants: Mapping[str, np.ndarray], is_philox: bool) -> None:
        super().__init__(node, True, [])
        self.is_philox = is_philox
        self._known = constants
        self._count = 0

    def known(self, position: int) -> np.ndarray | None:
        """The value of an input, where it is a constant."""
        return self._known.get(self.original.input[position])

    def made(self, op: str, inputs: Sequence[str | int], out: str = "z", **types: int | list[int]) -> str:
        """A node of a name of its own; a number among the inputs is an s32 scalar."""
        self._count += 1
        names = [text if isinstance(text, str) else self.number(text) for text in inputs]
        return self.add(f"{op.lower()}_{self._count}", op, names, out, **types)

    def number(self, value: int | Sequence[int]) -> str:
        """An s32 constant."""
        self._count += 1
        return self.constant(f"number_{self._count}", np.array(value, np.int32))

    def op(self, op: str, a: str | int, b: str | int) -> str:
        """Of two s32 numbers or vectors."""
        return self.made(op, (a, b), T=_I32)

    def size(self, x: str, axis: int, kind: int) -> str:
        """Of one dimension of an array of dtype `kind`, which may be counted from the last."""
        shape = self.made("Shape", [x], "output", T=kind, out_type=_I32)
        last = axis == -1
        ends = [self.number([axis]), self.number([0 if last else axis + 1]), self.number([1])]
        found = self.made("StridedSlice", [shape, *ends], "output", T=_I32, Index=_I32)
        masks = {"shrink_axis_mask": 1, "end_mask": int(last), "begin_mask": 0, "ellipsis_mask": 0, "new_axis_mask": 0}
        for name, mask in masks.items():
            self.nodes[-1].attr[name].i = mask
        return found

    def places(self, count: str | int, start: str | int = 0, step: int = 1) -> str:
        """start, start + step, ...: `count` of them."""
        found = self.made("Range", (0, count, 1), "output", Tidx=_I32)
        found = found if step == 1 else self.op("Mul", found, step)
        return found if start == 0 else self.op("AddV2", found, start)

    def gathered(self, x: str, places: str, axis: int, kind: int) -> str:
        found = self.made("GatherV2", [x, places, axis], "output", Tparams=kind, Tindices=_I32, Taxis=_I32)
        self.nodes[-1].attr["batch_dims"].i = 0
        return found

    def results(self, values: Sequence[str], kind: int) -> bool:
        """They are what the node gives."""
        if len(values) == 1:
            self.add("", "Identity", values, "output", T=kind)
        else:
            self.add("", "IdentityN", values, "output", T=[kind] * len(values))
        return True


def _strided_slice(w: _Writer) -> bool:
    spec = [w.known(k) for k in (1, 2, 3)]
    begin, end, strides = (None if part is None else [int(n) for n in part] for part in spec)
    if begin is None or end is None or strides is None:
        return False
    masks = {name: int(attr(w.original, f"{name}_mask", 0)) for name in _MASKS}
    x, kind = w.original.input[0], attr(w.original, "T")
    hard = [k for k in range(len(begin)) if _from_the_end(k, begin, strides, masks)]
    for k in hard:
        axis = _axis(k, len(begin), masks)
        size = w.size(x, axis, kind)
        if strides[k] == -1 and _is_whole(k, masks):
            x = w.made("ReverseV2", [x, w.number([axis])], "output", T=kind, Tidx=_I32)
            begin[k], end[k], strides[k] = 0, 0, 1
            continue
        if masks["shrink_axis"] >> k & 1:
            place = w.op("Maximum", w.op("AddV2", size, begin[k]), 0)
            places = w.made("Reshape", [place, w.number([1])], "output", T=_I32, Tshape=_I32)
            begin[k], end[k] = 0, 1
        else:
            first = None if masks["begin"] >> k & 1 else begin[k]
            places = _stepped(w, size, first, None if masks["end"] >> k & 1 else end[k], strides[k])
            masks["begin"], masks["end"] = masks["begin"] | 1 << k, masks["end"] | 1 << k
            begin[k], end[k] = 0, 0  # of a size that the run produces the bridge reads an end that is masked
        strides[k] = 1
        x = w.gathered(x, places, axis, kind)
    if not hard:
        return False
    if not masks["new_axis"] and all(_is_whole(k, masks) and strides[k] == 1 for k in range(len(begin))):
        return w.results([x], kind)
    w.add("", "StridedSlice", [x, *map(w.number, (begin, end, strides))], "output", T=kind, Index=_I32)
    for name, mask in masks.items():
        w.nodes[-1].attr[f"{name}_mask"].i = mask
    return True


_MASKS = ("begin", "end", "ellipsis", "new_axis", "shrink_axis")


def _from_the_end(k: int, begin: Sequence[int], strides: Sequence[int], masks: Mapping[str, int]) -> bool:
    """A part that is counted from the end, or in steps; or that begins behind the first element, of which the module
    does not tell it apart."""
    if (masks["ellipsis"] | masks["new_axis"]) >> k & 1:
        return False
    if masks["shrink_axis"] >> k & 1:
        return begin[k] < 0
    return strides[k] != 1 or (begin[k] != 0 and not masks["begin"] >> k & 1)


def _is_whole(k: int, masks: Mapping[str, int]) -> bool:
    return bool((masks["begin"] & masks["end"] & ~masks["shrink_axis"]) >> k & 1)


def _axis(k: int, length: int, masks: Mapping[str, int]) -> int:
    """Which dimension a part is of; behind an ellipsis, counted from the last."""
    around = range(k, length) if any(masks["ellipsis"] >> e & 1 for e in range(k)) else range(k)
    own = sum(not masks["new_axis"] >> e & 1 for e in around)
    return -own if around.start else own if k else 0


def _stepped(w: _Writer, size: str, begin: int | None, end: int | None, step: int) -> str:
    """The places of begin:end:step."""

    def place(number: int | None, masked: str | int, least: int, most: str) -> str | int:
        if number is None:
            return masked
        if number < 0:
            return w.op("Maximum", w.op("AddV2", size, number), least)
        return w.op("Minimum", most, number)

    if step > 0:
        first, last = place(begin, 0, 0, size), place(end, size, 0, size)
        reach = w.op("Sub", last, first)
        if begin is not None and begin < 0 and (end is None or end < 0):
            reach = w.op("Minimum", reach, max((end or 0) - begin, 0))
    else:
        top = w.op("Sub", size, 1)
        first, last = place(begin, top, -1, top), place(end, -1, -1, top)
        reach = w.op("Sub", first, last)
    reach = w.op("Maximum", reach, 0)
    count = reach if abs(step) == 1 else w.op("Div", w.op("AddV2", reach, abs(step) - 1), abs(step))
    return w.places(count, first, step)


def _split(w: _Writer) -> bool:
    axis, count, kind = w.known(0), int(attr(w.original, "num_split", 0)), attr(w.original, "T")
    if axis is None:
        return False
    x = w.original.input[1]
    each = w.op("Div", w.size(x, int(axis), kind), count)
    parts = [w.places(each, w.op("Mul", each, k)) for k in range(count)]
    return w.results([w.gathered(x, places, int(axis), kind) for places in parts], kind)


def _split_sizes(w: _Writer) -> bool:
    sizes, axis, kind = w.known(1), w.known(2), attr(w.original, "T")
    if sizes is None or axis is None:
        return False
    x, parts = w.original.input[0], []
    whole = w.size(x, int(axis), kind)
    rest = w.op("Maximum", w.op("Sub", whole, int(sizes[sizes >= 0].sum())), 0)
    start: str | int = 0
    for size in sizes.tolist():
        parts.append(w.places(rest if size < 0 else size, start))
        start = w.op("AddV2", rest if size < 0 else int(size), start)
    return w.results([w.gathered(x, places, int(axis), kind) for places in parts], kind)


def _roll(w: _Writer) -> bool:
    shifts, axes = w.known(1), w.known(2)
    if shifts is None or axes is None:
        return False
    x, kind = w.original.input[0], attr(w.original, "T")
    for shift, axis in zip(shifts.reshape(-1).tolist(), axes.reshape(-1).tolist(), strict=True):
        size = w.size(x, axis, kind)
        places = w.op("FloorMod", w.places(size, -shift), w.op("Maximum", size, 1))
        x = w.gathered(x, places, axis, kind)
    return w.results([x], kind)


def _mirror_pad(w: _Writer) -> bool:
    paddings, kind = w.known(1), attr(w.original, "T")
    if paddings is None:
        return False
    x, edge = w.original.input[0], int(attr(w.original, "mode") == b"SYMMETRIC")
    for axis, (before, after) in enumerate(paddings.tolist()):
        if before or after:
            size = w.size(x, axis, kind)
            places = w.places(w.op("AddV2", size, before + after), -before)
            for _ in range(2):  # at the first element, then, counted from the last, at that
                places = w.op("Maximum", places, w.op("Sub", -edge, places))
                places = w.op("Sub", w.op("Sub", size, 1), places)
            x = w.gathered(x, w.op("Maximum", places, 0), axis, kind)
    return w.results([x], kind)


def _matrix_diag(w: _Writer) -> bool:
    if w.original.op != "MatrixDiag":
        ends = [w.known(k) for k in (1, 2, 3)]
        if any(end is None or end.size != 1 or int(end.reshape(-1)[0]) != n for end, n in zip(ends, (0, -1, -1))):
            return False
    x, kind = w.original.input[0], attr(w.original, "T")
    row = w.places(w.size(x, -1, kind))
    sides = [w.made("ExpandDims", [row, axis], "output", T=_I32, Tdim=_I32) for axis in (0, 1)]
    on = w.made("Equal", sides, T=_I32)
    column = w.made("ExpandDims", [x, -1], "output", T=kind, Tdim=_I32)
    zero = np.array(0, dtypes.as_dtype(kind).as_numpy_dtype)
    around = w.constant("zero", zero) if w.original.op == "MatrixDiag" else w.original.input[4]
    w.add("", "SelectV2", [on, column, around], "output", T=kind)
    return True


def _scatter_nd(w: _Writer) -> bool:
    indices, updates, shape = w.original.input[:3]
    kind, index = attr(w.original, "T"), attr(w.original, "Tindices")
    if w.known(2) is not None or not dtypes.as_dtype(kind).is_numpy_compatible or kind == _BOOL:
        return False
    zero = w.constant("zero", np.array(0, dtypes.as_dtype(kind).as_numpy_dtype))
    zeros = w.made("Fill", [shape, zero], "output", T=kind, index_type=index)
    w.add("", "TensorScatterAdd", [zeros, indices, updates], "output", T=kind, Tindices=index)
    return True


def _random(w: _Writer) -> bool:
    """One row of all elements: of the largest size, then cut to the one that there is. (Of other algorithms numbers
    hang on how many there are.)"""
    if w.known(0) is not None or not w.is_philox:
        return False
    shape, kind, index = w.original.input[0], attr(w.original, "dtype"), attr(w.original, "Tshape", _I32)
    false = w.constant("false", np.array(False))
    whole = w.made("Fill", [shape, false], "output", T=_BOOL, index_type=index)
    row = w.made("Reshape", [whole, w.number([-1])], "output", T=_BOOL, Tshape=_I32)
    most = w.made("XlaRemoveDynamicDimensionSize", [row, 0], "output", T=_BOOL)
    most = w.made("Shape", [most], "output", T=_BOOL, out_type=_I32)
    drawn = w.made(w.original.op, [most, *w.original.input[1:]], "output")
    for name in w.original.attr:
        w.nodes[-1].attr[name].CopyFrom(w.original.attr[name])
    w.nodes[-1].attr["Tshape"].type = _I32
    kept = w.made("SelectV2", [row, drawn, drawn], "output", T=kind)  # as long as the row
    w.add("", "Reshape", [kept, shape], "output", T=kind, Tshape=index)
    return True


_FORMS: dict[str, Callable[[_Writer], bool]] = {
    "StridedSlice": _strided_slice,
    "Split": _split,
    "SplitV": _split_sizes,
    "Roll": _roll,
    "MirrorPad": _mirror_pad,
    **dict.fromkeys(("MatrixDiag", "MatrixDiagV2", "MatrixDiagV3"), _matrix_diag),
    "ScatterNd": _scatter_nd,
    **dict.fromkeys((*INTEGER_OPS, "StatelessRandomUniformV2", "StatelessRandomNormalV2"), _random),
}
