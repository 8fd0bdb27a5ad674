"""Convolutions on a GPU: products of the image and the window, whose elements are read where they lie.

What of the image lies outside is not read and counts as zero. A dilated base is several products, one for the output
points that meet the same taps; each group of features or batch is a product of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from .....ir.node import Instr
from .....target import Target
from ...choice import Knobs
from ...contraction import Contraction
from ...unit import Unit
from .. import convolution
from ..contraction_channels import fits
from ..contraction_fusion import parts_of
from .capability import has_descriptors
from .channels import lower_channels
from .image_choice import boxes
from .narrow_images import BITS, with_runs
from .products import lower_product


def lower_convolution(instr: Instr, target: Target, knobs: Knobs) -> Unit:
    """Kernels of a convolution, or of a fusion around one. Knobs are asked where one product is all."""
    phases = _phases(instr)
    asked = knobs if len(phases) == 1 else Knobs()
    return convolution.join([_lower(c, target, asked) for c in phases])


def _lower(c: Contraction, target: Target, knobs: Knobs) -> Unit:
    if fits(c):
        return lower_channels(c, target)
    narrow = with_runs(c) if has_descriptors(target) else None
    if narrow is not None and boxes(narrow[0], BITS):
        return lower_product(narrow[0], target, knobs, narrow[1])
    return lower_product(c, target, knobs)


def _phases(instr: Instr) -> Sequence[Contraction]:
    if instr.opcode != "fusion":
        return convolution.describe(instr, by_taps=True)
    return convolution.describe(*parts_of(instr), by_taps=True)
