"""The builder: typed constructors with shape inference for every opcode.

b = Builder("main")
x, y = b.parameter("f32[2,3]"), b.parameter("f32[2,3]")
module = b.module(b.reduce([b.add(x, y)], [b.constant(0.0)], (1,), scalar_computation("add", "f32")))
"""

from __future__ import annotations

from .core import scalar_computation
from .elementwise import Elementwise
from .structure import Structure

__all__ = ["Builder", "scalar_computation"]


class Builder(Elementwise, Structure):
    """Builds one computation, see `Core`, `Elementwise` and `Structure` for the methods."""
