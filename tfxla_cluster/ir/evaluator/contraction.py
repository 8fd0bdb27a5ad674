"""dot and convolution. Narrow floats accumulate in f32, integers in the result's type."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtype import DType
from ..node import Instr
from .core import Array, Evaluator, Meaning
from .move import pad_array
from .reduction import window_rows, window_sizes


def _accumulator(dtype: DType) -> np.dtype[Any]:
    """The type that products are summed in."""
    if dtype.is_float and dtype.bits < 32:
        return np.dtype(np.float32)
    return np.dtype(np.int64) if dtype.bits == 4 else dtype.numpy


def _finish(total: Array, dtype: DType) -> Array:
    return np.asarray(total.astype(dtype.numpy)) if dtype.kind != "pred" else np.asarray(total != 0)


def _dot(ev: Evaluator, instr: Instr, args: list[Any]) -> Array:
    a, out = instr.attrs, instr.shape.dtype
    assert out is not None
    wide = _accumulator(out)
    x, y = (np.asarray(v).astype(wide) for v in args)
    left = [i for i in range(x.ndim) if i not in a["lhs_batch_dims"] and i not in a["lhs_contracting_dims"]]
    right = [i for i in range(y.ndim) if i not in a["rhs_batch_dims"] and i not in a["rhs_contracting_dims"]]
    batch = [x.shape[i] for i in a["lhs_batch_dims"]]
    rows, cols = [x.shape[i] for i in left], [y.shape[i] for i in right]
    inner = int(np.prod([x.shape[i] for i in a["lhs_contracting_dims"]], dtype=int))
    flat = int(np.prod(batch, dtype=int))
    lhs = x.transpose(*a["lhs_batch_dims"], *left, *a["lhs_contracting_dims"])
    rhs = y.transpose(*a["rhs_batch_dims"], *a["rhs_contracting_dims"], *right)
    product = np.matmul(
        lhs.reshape(flat, int(np.prod(rows, dtype=int)), inner), rhs.reshape(flat, inner, int(np.prod(cols, dtype=int)))
    )
    return _finish(product.reshape((*batch, *rows, *cols)), out)


def _convolution(ev: Evaluator, instr: Instr, args: list[Any]) -> Array:
    """For each position of the kernel, one product of what it sees with its matrix of features."""
    a, out, n = instr.attrs, instr.shape.dtype, instr.attrs["dim_labels"]
    assert out is not None
    wide, window = _accumulator(out), a["window"]
    x = convert_wide(args[0], wide).transpose(n.lhs_batch, n.lhs_feature, *n.lhs_spatial)
    kernel = convert_wide(args[1], wide).transpose(n.rhs_output, n.rhs_input, *n.rhs_spatial)
    rows = [(0, 0, 0), (0, 0, 0), *window_rows(ev, window)]
    x = pad_array(x, 0, rows)
    kernel = np.flip(kernel, tuple(2 + i for i, w in enumerate(window) if w.reversal))
    x, kernel = _grouped(x, kernel, a["feature_group_count"], a["batch_group_count"])
    dims = ev.dims(instr.shape)
    spatial = [dims[d] for d in n.out_spatial]
    total = np.zeros([x.shape[0], x.shape[1], kernel.shape[1], *spatial], wide)
    for where in np.ndindex(*window_sizes(ev, window)):
        firsts = [k * w.window_dilation for k, w in zip(where, window)]
        at: tuple[Any, ...] = (
            ...,
            *(slice(f, f + (s - 1) * w.stride + 1 if s else 0, w.stride) for f, w, s in zip(firsts, window, spatial)),
        )
        total += np.einsum("gbi...,goi->gbo...", x[at], kernel[(..., *where)])
    return _finish(_ungrouped(total, a["batch_group_count"], n), out)


def convert_wide(x: Array, wide: np.dtype[Any]) -> Array:
    return np.asarray(x).astype(wide)


def _grouped(x: Array, kernel: Array, features: int, batches: int) -> tuple[Array, Array]:
    """x as [group, batch, in, ...] and kernel as [group, out, in, ...]."""
    groups = max(features, batches)
    outs = kernel.reshape(groups, kernel.shape[0] // groups, *kernel.shape[1:])
    if batches > 1:
        return x.reshape(batches, x.shape[0] // batches, *x.shape[1:]), outs
    split = x.reshape(x.shape[0], features, x.shape[1] // features, *x.shape[2:])
    return np.moveaxis(split, 1, 0), outs


def _ungrouped(total: Array, batches: int, n: Any) -> Array:
    """[group, batch, out, ...] as the result's dimensions; features run through the groups."""
    joined = np.moveaxis(total, 0, 1)
    joined = joined.reshape(joined.shape[0], joined.shape[1] * joined.shape[2], *joined.shape[3:])
    return np.asarray(joined.transpose(np.argsort([n.out_batch, n.out_feature, *n.out_spatial])))


MEANINGS: dict[str, Meaning] = {"dot": _dot, "convolution": _convolution}
