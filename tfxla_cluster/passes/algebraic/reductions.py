"""Reductions and products that combine nothing, or one element."""

from __future__ import annotations

from dataclasses import replace

from ...ir import dim as dims_
from ...ir.node import Instr
from ...ir.shape import array, tuple_of
from ...ir.windows import scan_of
from ..base import Rule
from ..match import broadcast, dtype_of, lift, make, reshape, splat


def _results(i: Instr, parts: list[Instr]) -> Instr:
    if not i.shape.is_tuple:
        return parts[0]
    return make(i, "tuple", tuple_of(*(p.shape for p in parts)), parts)


def reduce_empty(i: Instr) -> Instr | None:
    """reduce over a dimension without elements --> the initial value"""
    count = len(i.operands) // 2
    x = i.operands[0]
    if not any(x.shape.dims[d] == 0 for d in i.attrs["dimensions"]):
        return None
    dims = tuple(n for d, n in enumerate(x.shape.dims) if d not in i.attrs["dimensions"])
    return _results(i, [broadcast(i, init, dims) for init in i.operands[count:]])


def reduce_one(i: Instr) -> Instr | None:
    """reduce over dimensions of size 1 (or none) --> the combiner, applied to the initial value and x"""
    count = len(i.operands) // 2
    x = i.operands[0]
    if any(x.shape.dims[d] != 1 for d in i.attrs["dimensions"]):
        return None
    dims = tuple(n for d, n in enumerate(x.shape.dims) if d not in i.attrs["dimensions"])
    left = [broadcast(i, init, dims) for init in i.operands[count:]]
    right = [reshape(i, operand, dims) for operand in i.operands[:count]]
    return lift(i.attrs["to_apply"], [*left, *right], dims, i)


def reduce_after_reshape(i: Instr) -> Instr | None:
    """reduce(reshape(x)) that only adds or drops reduced dimensions of size 1 --> reduce without them"""
    count = len(i.operands) // 2
    x, where = i.operands[0], i.attrs["dimensions"]
    ones = [d for d in where if x.shape.dims[d] == 1]
    if not ones or len(ones) == len(where):
        return None
    kept = [d for d in range(x.shape.rank) if d not in ones]
    dims = [x.shape.dims[d] for d in kept]
    renamed = tuple(kept.index(d) for d in where if d not in ones)
    operands = [reshape(i, o, dims) for o in i.operands[:count]]
    return make(
        i, "reduce", i.shape, (*operands, *i.operands[count:]), dimensions=renamed, to_apply=i.attrs["to_apply"]
    )


def exclusive_scan(i: Instr) -> Instr | None:
    """reduce-window over the elements before each (or behind it) --> the initial value beside the scan with each"""
    window, count = i.attrs["window"], len(i.operands) // 2
    scan = scan_of(window, i.operands[0].shape.dims)
    if scan is None or scan.inclusive:
        return None
    dims, dim = list(i.operands[0].shape.dims), window[scan.axis]
    others = replace(dim, **{"pad_high" if scan.from_end else "pad_low": dims_.make("add", dim.size, -1)})
    shapes = [array(dtype_of(o), tuple(dims)) for o in i.operands[:count]]
    attrs = {"window": (*window[: scan.axis], others, *window[scan.axis + 1 :]), "to_apply": i.attrs["to_apply"]}
    scanned = make(i, "reduce-window", tuple_of(*shapes) if i.shape.is_tuple else shapes[0], i.operands, **attrs)
    dims[scan.axis] = 1
    parts = []
    for number, (shape, init) in enumerate(zip(i.shape.elements or (i.shape,), i.operands[count:])):
        part = make(i, "get-tuple-element", shapes[number], (scanned,), index=number) if i.shape.is_tuple else scanned
        both = (part, broadcast(i, init, dims)) if scan.from_end else (broadcast(i, init, dims), part)
        parts.append(make(i, "concatenate", shape, both, dimensions=(scan.axis,)))
    return _results(i, parts)


def dot_empty(i: Instr) -> Instr | None:
    """dot that sums nothing --> 0"""
    x = i.operands[0]
    empty = any(x.shape.dims[d] == 0 for d in i.attrs["lhs_contracting_dims"])
    return splat(i, 0, i.shape) if empty else None


def dot_one(i: Instr) -> Instr | None:
    """dot that sums one product each --> broadcast, multiply, + 0 (a sum that starts at 0 has no -0.0)"""
    x, y = i.operands
    a = i.attrs
    if any(x.shape.dims[d] != 1 for d in a["lhs_contracting_dims"]):
        return None
    if dtype_of(x) != dtype_of(i) or dtype_of(y) != dtype_of(i) or dtype_of(i).kind == "pred":
        return None
    batch = len(a["lhs_batch_dims"])
    left = [d for d in range(x.shape.rank) if d not in a["lhs_batch_dims"] and d not in a["lhs_contracting_dims"]]
    right = [d for d in range(y.shape.rank) if d not in a["rhs_batch_dims"] and d not in a["rhs_contracting_dims"]]
    places = {**{d: n for n, d in enumerate(a["lhs_batch_dims"])}, **{d: batch + n for n, d in enumerate(left)}}
    lhs = _spread(i, x, places)
    places = {
        **{d: n for n, d in enumerate(a["rhs_batch_dims"])},
        **{d: batch + len(left) + n for n, d in enumerate(right)},
    }
    rhs = _spread(i, y, places)
    shape = array(dtype_of(i), i.shape.dims)
    product = make(i, "multiply", shape, (lhs, rhs))
    return product if dtype_of(i).is_integer else make(i, "add", shape, (product, splat(i, 0, shape)))


def _spread(i: Instr, x: Instr, places: dict[int, int]) -> Instr:
    """`x` in the result's dims: dimension d goes to places[d], those of size 1 that are summed away go."""
    order = sorted(places, key=lambda d: places[d])
    gone = [d for d in range(x.shape.rank) if d not in places]
    if order != sorted(order):
        dims = tuple(x.shape.dims[d] for d in (*order, *gone))
        x = make(i, "transpose", array(dtype_of(x), dims), (x,), dimensions=(*order, *gone))
        gone = list(range(len(order), x.shape.rank))
    x = reshape(i, x, tuple(n for d, n in enumerate(x.shape.dims) if d not in gone))
    return broadcast(i, x, i.shape.dims, tuple(places[d] for d in order))


def sort_one(i: Instr) -> Instr | None:
    """sort of a dimension with at most one element --> the operands"""
    if i.operands[0].shape.dims[i.attrs["dimensions"][0]] not in (0, 1):
        return None
    return _results(i, list(i.operands))


RULES: dict[str, list[Rule]] = {
    "reduce": [reduce_empty, reduce_one, reduce_after_reshape],
    "reduce-window": [exclusive_scan],
    "dot": [dot_empty, dot_one],
    "sort": [sort_one],
}
