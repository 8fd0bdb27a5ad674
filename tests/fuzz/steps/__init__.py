"""What a random computation may do next: a function an opcode or family, in STEPS."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.draft import Draft

from . import control, elementwise, moves, reductions

STEPS: dict[str, Callable[[Draft], None]] = {
    "binary": elementwise.binary,
    "unary": elementwise.unary,
    "compare": elementwise.compare,
    "convert": elementwise.convert,
    "broadcast": moves.broadcast,
    "reshape": moves.reshape,
    "transpose": moves.transpose,
    "slice": moves.slice_,
    "pad": moves.pad,
    "concatenate": moves.concatenate,
    "reverse": moves.reverse,
    "iota": moves.iota,
    "dynamic_slice": moves.dynamic_slice,
    "dynamic_update": moves.dynamic_update,
    "gather": moves.gather,
    "scatter": moves.scatter,
    "reduce": reductions.reduce,
    "argmax": reductions.argmax,
    "reduce_window": reductions.reduce_window,
    "dot": reductions.dot,
    "convolution": reductions.convolution,
    "sort": control.sort,
    "while": control.while_,
    "conditional": control.conditional,
}
NAMES = (*STEPS, *("binary",) * 8, *("broadcast", "reduce", "unary", "compare") * 2)
