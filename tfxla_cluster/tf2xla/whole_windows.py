"""Steps that are never taken, as 1: those of a window over a whole dimension, and gaps between elements where one is.

A mean over the image, `tf.nn.avg_pool2d(x, [h, w], [h, w], "VALID")`, goes along it in steps as long as it is, and does
not move. Modules whose steps follow a size are one for each size; with steps of 1 they are one for all.

    window={size=1x12x16x1 stride=1x12x16x1}    -->    window={size=1x12x16x1}        over f32[2,12,16,3]
    padding=0_0x11_11_11x15_15_15x0_0           -->    padding=0_0x11_11x15_15x0_0    of f32[2,1,1,3]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..ir import proto
from ..ir.proto.reader import LOCAL

_WINDOWS = ("reduce-window", "select-and-scatter")
_MARKS = tuple(opcode.encode() for opcode in _WINDOWS)


def in_single_steps(module: bytes) -> bytes:
    """A serialised module with such steps replaced; the same bytes where there are none."""
    if not any(mark in module for mark in _MARKS):
        return module
    message = proto.decode(module)
    changed = [_in_computation(comp) for comp in message.computations]
    return bytes(message.SerializeToString()) if any(changed) else module


def _in_computation(comp: Any) -> bool:
    """Was something changed?"""
    shapes = {instr.id & LOCAL: instr.shape.dimensions for instr in comp.instructions}
    changed = [_in_instruction(instr, shapes) for instr in comp.instructions]
    return any(changed)


def _in_instruction(instr: Any, shapes: Mapping[int, Iterable[int]]) -> bool:
    if instr.opcode not in (*_WINDOWS, "pad"):
        return False
    dims = shapes[instr.operand_ids[0] & LOCAL]
    if instr.opcode == "pad":
        between = [p for p, dim in zip(instr.padding_config.dimensions, dims) if dim <= 1 and p.interior_padding]
        for padding in between:
            padding.interior_padding = 0
        return bool(between)
    still = [w for w, dim in zip(instr.window.dimensions, dims) if w.stride > 1 and _is_whole(w, dim)]
    for window in still:
        window.stride = 1
    return bool(still)


def _is_whole(window: Any, dim: int) -> bool:
    """Is there one place for the window, with its padding?"""
    is_plain = window.base_dilation == window.window_dilation == 1
    return is_plain and bool(window.size == window.padding_low + dim + window.padding_high)
