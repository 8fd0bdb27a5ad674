"""Convolutions that a library does, and their gradients as TensorFlow's bridge writes them: convolutions too.

The gradient by the image turns the window and puts zeros between the points of its left operand; that by the window
has for a window the gradient of the output. The library has operations of its own for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .....errors import UnsupportedError
from .....ir.dim import Dim, product
from .....ir.dtype import F32, DType
from .....ir.node import ConvDims, Instr, WindowDim
from ...choice import Choice
from ...library import Library
from ...library_convolution import BY_IMAGE, BY_WINDOW, CUDNN_TYPES, FORWARD, ROUTINE, Convolution, Engine, to_params
from ...unit import Unit
from ..dot import precision
from .library_fusion import Arranged, LibraryFusion, under_views

_SPATIAL = 2  # dims that images have


def choices(instr: Instr, library: Library[Convolution, Engine]) -> Sequence[Choice]:
    """Those by which a library convolves, for a convolution or a fusion around one; some of them `lower` refuses."""
    try:
        parts = _Parts(instr)
    except UnsupportedError:
        return ()
    found = (library.algorithms(parts.convolution(dtype)) for dtype in parts.results)
    return tuple(engine.choice() for engines in found for engine in engines)


def lower(instr: Instr, engine: Engine, library: Library[Convolution, Engine]) -> Unit:
    """The steps by that engine; UnsupportedError where the machine's library has none such, or the fusion's other parts
    have no kernels."""
    parts = _Parts(instr)
    dtype = next((d for d in parts.results if CUDNN_TYPES[d.name] == engine.result), None)
    if dtype is None:
        raise UnsupportedError(f"{instr.name}: the engine's result has another type")
    said = library.refusal(parts.convolution(dtype), engine)
    if said:
        raise UnsupportedError(f"{instr.name}: {said}")
    return parts.unit(engine, dtype)


class _Parts:
    """The convolution of an instruction or of a fusion around it; UnsupportedError where it is none that a library
    does. `results`: the types that it may be written in: what follows one of narrow floats reads it in f32, as in our
    own kernels, or in its own type, half the bytes."""

    def __init__(self, instr: Instr) -> None:
        self._fusion = LibraryFusion(instr)
        hero = self._fusion.hero
        if hero.opcode != "convolution":
            raise UnsupportedError(f"{instr.name} is no convolution")
        self._hero, self._kind = hero, _kind(hero)
        self._described = _described(hero, self._kind)
        own = hero.shape.element_type
        self.results = (F32, own) if own.bits < F32.bits and not self._fusion.ends else (own,)

    def convolution(self, result: DType) -> Convolution:
        return replace(self._described, result=CUDNN_TYPES[result.name])

    def unit(self, engine: Engine, result: DType) -> Unit:
        orders = _orders(self._hero.attrs["dim_labels"], self._kind)
        operands = [Arranged(_held(o), order) for o, order in zip(self._hero.operands, orders)]
        params = to_params(self.convolution(result), engine)
        return self._fusion.unit(ROUTINE, params, engine.workspace, operands, orders[2], result)


def _held(operand: Instr) -> Instr:
    """What lies in memory: under views that change no dim."""
    under = under_views(operand)
    return under if under.shape.dims == operand.shape.dims else operand


def _window(conv: Instr) -> Sequence[WindowDim]:
    window: Sequence[WindowDim] = conv.attrs.get("window", ())
    return window


def _kind(conv: Instr) -> int:
    """Which of the library's operations it is; UnsupportedError for none of them."""
    window, labels = _window(conv), conv.attrs["dim_labels"]
    if len(window) != _SPATIAL or any(int(conv.attrs.get(f"{k}_group_count", 1)) != 1 for k in ("feature", "batch")):
        raise UnsupportedError(f"{conv.name} has groups, or not two dimensions")
    turned = [w.reversal for w in window if w.size != 1]
    if any(w.base_dilation > 1 for w in window) or any(turned):
        if not all(turned) or any(w.stride > 1 for w in window):
            raise UnsupportedError(f"{conv.name} is no convolution and no gradient of one")
        return BY_IMAGE
    points = product(_number(conv.shape.dims[d], conv) for d in labels.out_spatial)
    return BY_WINDOW if _number(product(w.size for w in window), conv) > _number(points, conv) else FORWARD


def _orders(labels: ConvDims, kind: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The dims of both operands and the result as the library has them: images by batch, points and channel, windows by
    output channel, taps and input channel."""
    left = (labels.lhs_batch, *labels.lhs_spatial, labels.lhs_feature)
    right = (labels.rhs_output, *labels.rhs_spatial, labels.rhs_input)
    out = (labels.out_batch, *labels.out_spatial, labels.out_feature)
    if kind == FORWARD:
        return left, right, out
    if kind == BY_IMAGE:
        return left, right[-1:] + right[1:-1] + right[:1], out
    return left[-1:] + left[1:-1] + left[:1], right[-1:] + right[1:-1] + right[:1], out[-1:] + out[1:-1] + out[:1]


def _described(conv: Instr, kind: int) -> Convolution:
    dtypes = {i.shape.element_type.name for i in (conv, *conv.operands)}
    (dtype, *others) = dtypes
    if others or dtype not in CUDNN_TYPES:
        raise UnsupportedError(f"no library convolves {', '.join(sorted(dtypes))} ({conv.name})")
    orders = _orders(conv.attrs["dim_labels"], kind)
    arrays = [_numbers(Arranged(i, order)) for i, order in zip((*conv.operands, conv), orders)]
    image, window, out = (arrays[n] for n in {FORWARD: (0, 1, 2), BY_IMAGE: (2, 1, 0), BY_WINDOW: (0, 2, 1)}[kind])
    ways = [_way(conv, w, kind) for w in _window(conv)]
    pads = [_padding(conv, ways[d], image[d + 1], window[d + 1], out[d + 1]) for d in range(_SPATIAL)]
    (batch, height, width, channels), (out_channels, taps_high, taps_wide, _) = image, window
    return Convolution(
        kind=kind,
        dtype=CUDNN_TYPES[dtype],
        result=CUDNN_TYPES[dtype],
        tf32=int(dtype == "f32" and precision(conv) == "default"),
        batch=batch,
        height=height,
        width=width,
        channels=channels,
        out_height=out[1],
        out_width=out[2],
        out_channels=out_channels,
        taps_high=taps_high,
        taps_wide=taps_wide,
        stride_high=ways[0][0],
        stride_wide=ways[1][0],
        dilation_high=ways[0][1],
        dilation_wide=ways[1][1],
        pad_top=pads[0][0],
        pad_left=pads[1][0],
        pad_bottom=pads[0][1],
        pad_right=pads[1][1],
    )


def _numbers(arranged: Arranged) -> tuple[int, int, int, int]:
    a, b, c, d = (_number(dim, arranged.instr) for dim in arranged.dims())
    return a, b, c, d


def _number(dim: Dim, instr: Instr) -> int:
    if not isinstance(dim, int) or dim < 1:
        raise UnsupportedError(f"{instr.name} has no known size")
    return dim


def _way(conv: Instr, w: WindowDim, kind: int) -> tuple[int, int, int]:
    """Stride, dilation and leading padding of the convolution that a window dim belongs to, or whose gradient it is."""
    if not isinstance(w.size, int) or not isinstance(w.pad_low, int):
        raise UnsupportedError(f"{conv.name} has no known size")
    if kind == FORWARD:
        return w.stride, w.window_dilation, w.pad_low
    if kind == BY_WINDOW:
        return w.window_dilation, w.stride, w.pad_low
    return w.base_dilation, w.window_dilation, w.window_dilation * (w.size - 1) - w.pad_low


def _padding(conv: Instr, way: tuple[int, int, int], image: int, taps: int, points: int) -> tuple[int, int]:
    """Before and after the image; what lies behind the last window needs none."""
    stride, dilation, before = way
    after = (points - 1) * stride + dilation * (taps - 1) + 1 - image - before
    if before < 0 or after <= -stride:
        raise UnsupportedError(f"{conv.name} leaves out a part of the image")
    return before, max(after, 0)
