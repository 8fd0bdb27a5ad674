"""A computation of elementwise work and reductions on a GPU."""

from __future__ import annotations

from functools import partial

from .....ir.node import Computation
from ...choice import Knobs
from ...unit import Unit
from .. import fused
from .elementwise import loop_kernel
from .reductions import lower_reduction


def lower_plain(comp: Computation, name: str, knobs: Knobs) -> Unit:
    """UnsupportedError where it is not one loop program. Knobs: those of `loop_kernel` or `lower_reduction`."""
    return fused.lower_computation(comp, name, partial(loop_kernel, knobs=knobs), partial(lower_reduction, knobs=knobs))
