"""Opcodes that combine elements: reduce, windows, scatter, sort, dot, convolution."""

from __future__ import annotations

from collections.abc import Sequence

from .. import dim as dims_
from .. import size_proofs
from ..dim import Dim
from ..dtype import PRED
from ..node import WindowDim
from ..rules import broken, check
from ..shape import Shape, array, tuple_of
from .common import Case, Rule, check_signature, distinct, fits_in, is_multiple, same, same_dims
from .move import padded_size, without


def _one_or_tuple(shapes: list[Shape]) -> Shape:
    return shapes[0] if len(shapes) == 1 else tuple_of(*shapes)


def _operand_pairs(case: Case) -> int:
    """Half of reduce's and reduce-window's operands are initial values (rule R1)."""
    count = len(case.operands) // 2
    fits = (
        count
        and len(case.operands) == 2 * count
        and all(case.array(count + i).rank == 0 and case.dtype(count + i) == case.dtype(i) for i in range(count))
    )
    check(bool(fits), "R1", f"{case.opcode} of ({', '.join(map(str, case.operands))})")
    return count


def _check_reducer(case: Case, types: Sequence[Shape]) -> None:
    """The combiner takes two scalars an operand and returns one each (rule R2)."""
    check_signature(case, case.attrs["to_apply"], [*types, *types], _one_or_tuple(list(types)), "R2")


def _reduce(case: Case) -> Shape:
    count, where = _operand_pairs(case), case.attrs["dimensions"]
    x = case.array(0)
    check(distinct(where, x.rank), "R3", f"reduce of {x} over {where}")
    for i in range(count):
        check(same_dims(case.array(i).dims, x.dims), "E1", f"reduce of {x} and {case.array(i)}")
    _check_reducer(case, [array(case.dtype(i)) for i in range(count)])
    dims = tuple(d for i, d in enumerate(x.dims) if i not in where)
    return _one_or_tuple([array(case.dtype(i), dims) for i in range(count)])


def window_size(size: Dim, w: WindowDim) -> Dim:
    """How many windows fit: floor((padded - dilated window) / stride) + 1, 0 when none does."""
    base = padded_size(size, w.pad_low, w.pad_high, w.base_dilation - 1)
    span = dims_.make("add", dims_.make("mul", dims_.make("add", w.size, -1), w.window_dilation), 1)
    room = dims_.make("add", base, dims_.make("mul", span, -1))
    count = dims_.make("add", dims_.make("floordiv", room, w.stride), 1)
    return dims_.make("max", count, 0)


def _check_window(case: Case, rank: int, window: tuple[WindowDim, ...]) -> None:
    fits = len(window) == rank and all(
        size_proofs.at_most(1, w.size) and w.stride > 0 and w.base_dilation > 0 and w.window_dilation > 0
        for w in window
    )
    check(fits, "R4", f"{case.opcode} of rank {rank} with window {window}")


def _reduce_window(case: Case) -> Shape:
    count, window = _operand_pairs(case), case.attrs["window"]
    x = case.array(0)
    _check_window(case, x.rank, window)
    _check_reducer(case, [array(case.dtype(i)) for i in range(count)])
    dims = tuple(window_size(d, w) for d, w in zip(x.dims, window))
    return _one_or_tuple([array(case.dtype(i), dims) for i in range(count)])


def _select_and_scatter(case: Case) -> Shape:
    x, source, window = case.array(0), case.array(1), case.attrs["window"]
    _check_window(case, x.rank, window)
    fits = same_dims(source.dims, [window_size(d, w) for d, w in zip(x.dims, window)])
    check(fits, "R4", f"select-and-scatter of {x} from {source}")
    scalar = array(case.dtype(0))
    check_signature(case, case.attrs["select"], [scalar, scalar], array(PRED), "R2")
    check_signature(case, case.attrs["scatter"], [scalar, scalar], scalar, "R2")
    return array(case.dtype(0), x.dims)


def _sort(case: Case) -> Shape:
    where = case.attrs["dimensions"]
    check(len(where) == 1 and distinct(where, case.array(0).rank), "R5", f"sort of {case.array(0)} in {where}")
    for i in range(len(case.operands)):
        check(same_dims(case.array(i).dims, case.array(0).dims), "E1", f"sort of {case.array(0)}, {case.array(i)}")
    pairs = [array(case.dtype(i)) for i in range(len(case.operands)) for _ in "ab"]
    check_signature(case, case.attrs["to_apply"], pairs, array(PRED), "R5")
    return _one_or_tuple([array(case.dtype(i), case.array(i).dims) for i in range(len(case.operands))])


def _scatter(case: Case) -> Shape:
    count = (len(case.operands) - 1) // 2
    check(count > 0 and len(case.operands) == 2 * count + 1, "S8", f"scatter has {len(case.operands)} operands")
    x, indices, a = case.array(0), case.array(count), case.attrs
    batch = without(indices.dims, a["index_vector_dim"])
    vector = indices.dims[a["index_vector_dim"]] if a["index_vector_dim"] < indices.rank else 1
    dropped = {*a["inserted_window_dims"], *a["input_batching_dims"]}
    window = [d for i, d in enumerate(x.dims) if i not in dropped]
    for update in map(case.array, range(count + 1, 2 * count + 1)):
        rows = [d for i, d in enumerate(update.dims) if i not in a["update_window_dims"]]
        cols = [update.dims[i] for i in a["update_window_dims"] if i < update.rank]
        fits = (
            same_dims(rows, batch)
            and len(cols) == len(window) == len(a["update_window_dims"])
            and all(map(fits_in, cols, window))
            and same(vector, len(a["scatter_dims_to_operand_dims"]))
            and distinct(a["scatter_dims_to_operand_dims"], x.rank)
        )
        check(fits, "V9", f"scatter of {x} at {indices} by {update} with {dict(a)}")
    _check_reducer(case, [array(case.dtype(i)) for i in range(count)])
    return _one_or_tuple([array(case.dtype(i), case.array(i).dims) for i in range(count)])


def _dot(case: Case) -> Shape:
    x, y, a = case.array(0), case.array(1), case.attrs
    left, right = a["lhs_contracting_dims"], a["rhs_contracting_dims"]
    left_batch, right_batch = a["lhs_batch_dims"], a["rhs_batch_dims"]
    fits = (
        distinct((*left, *left_batch), x.rank)
        and distinct((*right, *right_batch), y.rank)
        and same_dims([x.dims[d] for d in left], [y.dims[d] for d in right])
        and same_dims([x.dims[d] for d in left_batch], [y.dims[d] for d in right_batch])
    )
    check(fits, "D1", f"dot of {x} and {y} with {dict(a)}")
    rows = tuple(d for i, d in enumerate(x.dims) if i not in left and i not in left_batch)
    cols = tuple(d for i, d in enumerate(y.dims) if i not in right and i not in right_batch)
    dtype = case.result.dtype if case.result is not None else case.dtype(0)
    return array(dtype or case.dtype(0), (*(x.dims[d] for d in left_batch), *rows, *cols))


def _convolution(case: Case) -> Shape:
    x, kernel, n = case.array(0), case.array(1), case.attrs["dim_labels"]
    groups, batches = case.attrs["feature_group_count"], case.attrs["batch_group_count"]
    rank = len(n.lhs_spatial) + 2
    named = (
        (n.lhs_batch, n.lhs_feature, *n.lhs_spatial),
        (n.rhs_input, n.rhs_output, *n.rhs_spatial),
        (n.out_batch, n.out_feature, *n.out_spatial),
    )
    check(
        x.rank == kernel.rank == rank and all(len(m) == rank and distinct(m, rank) for m in named),
        "D2",
        f"convolution of {x} and {kernel} with {n}",
    )
    _check_window(case, rank - 2, case.attrs["window"])
    features, inputs = x.dims[n.lhs_feature], kernel.dims[n.rhs_input]
    outputs, batch = kernel.dims[n.rhs_output], x.dims[n.lhs_batch]
    fits = (
        same(features, dims_.make("mul", inputs, groups))
        and is_multiple(outputs, groups)
        and is_multiple(batch, batches)
        and is_multiple(outputs, batches)
    )
    check(fits, "D3", f"convolution of {x} and {kernel} in {groups} feature and {batches} batch groups")
    dims: list[Dim] = [0] * rank
    dims[n.out_batch] = dims_.make("floordiv", batch, batches)
    dims[n.out_feature] = outputs
    for i, w in enumerate(case.attrs["window"]):
        if not same(w.size, kernel.dims[n.rhs_spatial[i]]):
            broken("R4", f"convolution's window {w} does not fit its kernel {kernel}")
        dims[n.out_spatial[i]] = window_size(x.dims[n.lhs_spatial[i]], w)
    dtype = case.result.dtype if case.result is not None else case.dtype(0)
    return array(dtype or case.dtype(0), tuple(dims))


RULES: dict[str, Rule] = {
    "reduce": _reduce,
    "reduce-window": _reduce_window,
    "select-and-scatter": _select_and_scatter,
    "sort": _sort,
    "scatter": _scatter,
    "dot": _dot,
    "convolution": _convolution,
}
