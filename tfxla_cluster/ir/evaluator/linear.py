"""Batch norm, linear algebra, Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..node import Instr
from .core import Array, Evaluator, Meaning


def _wide(x: Array) -> Array:
    return x.astype(np.float32) if x.dtype.itemsize < 4 else x


class _Norm:
    """What the three batch norms share: the feature dimension and sums over the others."""

    def __init__(self, instr: Instr, x: Array) -> None:
        self.axis, self.epsilon = instr.attrs["feature_index"], instr.attrs["epsilon"]
        self.others = tuple(i for i in range(x.ndim) if i != self.axis)
        self.spread = [-1 if i == self.axis else 1 for i in range(x.ndim)]

    def along(self, vector: Array) -> Array:
        return _wide(vector).reshape(self.spread)

    def mean(self, x: Array) -> Array:
        return np.asarray(np.mean(x, axis=self.others))


def _batch_norm_inference(ev: Evaluator, instr: Instr, args: list[Any]) -> Array:
    x, scale, offset, mean, variance = args
    norm = _Norm(instr, x)
    inverse = 1 / np.sqrt(norm.along(variance) + np.float32(norm.epsilon))
    out = (_wide(x) - norm.along(mean)) * inverse * norm.along(scale) + norm.along(offset)
    return np.asarray(out.astype(x.dtype))


def _batch_norm_training(ev: Evaluator, instr: Instr, args: list[Any]) -> Any:
    x, scale, offset = args
    norm, wide = _Norm(instr, x), _wide(x)
    mean = norm.mean(wide)
    variance = norm.mean(np.square(wide - norm.along(mean)))
    inverse = 1 / np.sqrt(norm.along(variance) + np.float32(norm.epsilon))
    out = (wide - norm.along(mean)) * inverse * norm.along(scale) + norm.along(offset)
    return out.astype(x.dtype), mean.astype(x.dtype), variance.astype(x.dtype)


def _batch_norm_grad(ev: Evaluator, instr: Instr, args: list[Any]) -> Any:
    x, scale, mean, variance, grad = args
    norm, wide, dy = _Norm(instr, x), _wide(x), _wide(grad)
    inverse = 1 / np.sqrt(norm.along(variance) + np.float32(norm.epsilon))
    centred = (wide - norm.along(mean)) * inverse
    d_offset, d_scale = dy.sum(axis=norm.others), (dy * centred).sum(axis=norm.others)
    d_x = norm.along(scale) * inverse * (dy - norm.along(norm.mean(dy)) - centred * norm.along(norm.mean(dy * centred)))
    return d_x.astype(x.dtype), d_scale.astype(x.dtype), d_offset.astype(x.dtype)


def _triangle(x: Array, lower: bool) -> Array:
    return np.tril(x) if lower else np.triu(x)


def _cholesky(ev: Evaluator, instr: Instr, args: list[Any]) -> Array:
    """Only the named triangle is read; NaN where the matrix is not positive definite."""
    (x,) = args
    lower = instr.attrs["lower"]
    half = _triangle(_wide(x), lower)
    whole = half + np.conj(np.swapaxes(np.triu(half, 1) if not lower else np.tril(half, -1), -1, -2))
    out = np.empty_like(whole)
    for where in np.ndindex(x.shape[:-2]):
        try:
            out[where] = np.linalg.cholesky(whole[where])
        except np.linalg.LinAlgError:
            out[where] = np.tril(np.full(x.shape[-2:], np.nan))
    out = out if lower else np.conj(np.swapaxes(out, -1, -2))
    return np.asarray(out.astype(x.dtype))


def _triangular_solve(ev: Evaluator, instr: Instr, args: list[Any]) -> Array:
    a, b = map(_wide, args)
    attrs = instr.attrs
    matrix = _triangle(a, attrs["lower"])
    if attrs["unit_diagonal"]:
        eye = np.eye(a.shape[-1], dtype=a.dtype)
        matrix = matrix * (1 - eye) + eye
    if attrs["transpose_a"] != "NO_TRANSPOSE":
        matrix = np.swapaxes(matrix, -1, -2)
    if attrs["transpose_a"] == "ADJOINT":
        matrix = np.conj(matrix)
    if attrs["left_side"]:
        out = _solve(matrix, b)
    else:
        out = np.swapaxes(_solve(np.swapaxes(matrix, -1, -2), np.swapaxes(b, -1, -2)), -1, -2)
    return np.asarray(out.astype(args[1].dtype))


def _solve(matrix: Array, b: Array) -> Array:
    """Substitution, so that a zero on the diagonal gives inf and NaN instead of an error."""
    count, lower = matrix.shape[-1], bool(np.all(np.triu(matrix, 1) == 0))
    out = np.zeros_like(b)
    for i in range(count) if lower else reversed(range(count)):
        known = np.matmul(matrix[..., i : i + 1, :], out)[..., 0, :]
        out[..., i, :] = (b[..., i, :] - known) / matrix[..., i, i][..., None]
    return out


def _fft(ev: Evaluator, instr: Instr, args: list[Any]) -> Array:
    lengths, dtype = [ev.number(n) for n in instr.attrs["fft_length"]], instr.shape.element_type
    axes = tuple(range(args[0].ndim - len(lengths), args[0].ndim))
    transform: dict[str, Any] = {"FFT": np.fft.fftn, "IFFT": np.fft.ifftn, "RFFT": np.fft.rfftn, "IRFFT": np.fft.irfftn}
    if 0 in args[0].shape:
        return np.zeros(ev.dims(instr.shape), dtype.numpy)
    return np.asarray(transform[instr.attrs["fft_type"]](args[0], lengths, axes).astype(dtype.numpy))


MEANINGS: dict[str, Meaning] = {
    "batch-norm-inference": _batch_norm_inference,
    "batch-norm-training": _batch_norm_training,
    "batch-norm-grad": _batch_norm_grad,
    "cholesky": _cholesky,
    "triangular-solve": _triangular_solve,
    "fft": _fft,
}
