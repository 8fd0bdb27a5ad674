"""HLO instruction -> Unit for GPUs: kernels whose tasks are programs over blocks.

They share index maps and element code with the CPU's.
"""

from __future__ import annotations

from collections.abc import Callable

from .....errors import UnsupportedError
from .....fusion.attention import KIND as ATTENTION
from .....fusion.hero import hero_of
from .....ir.node import Instr
from .....target import Target
from ....kernel.lower.gpu.attention import lower_attention
from ... import library_convolution, library_product
from ...choice import DEFAULT, Candidates, Choice, Knobs
from ...library import NO_LIBRARIES, Libraries
from ...unit import Unit
from .. import dimension_size, fused, rng_bit_generator
from . import (
    fft,
    library_convolutions,
    library_defaults,
    library_products,
    linear_solve,
    scatter,
    select_and_scatter,
    sort,
    topk,
    versions,
    windows,
)
from .convolutions import lower_convolution
from .plain import lower_plain
from .products import lower_dot
from .user_kernel import lower_user_kernel

Lowering = Callable[[Instr, Target], Unit]
TunedLowering = Callable[[Instr, Target, Knobs], Unit]


def lower_single(instr: Instr, target: Target, knobs: Knobs) -> Unit:
    """A kernel of one instruction: as a fusion that holds it alone."""
    return lower_plain(fused.wrap(instr), instr.name, knobs)


def lower_fusion(instr: Instr, target: Target, knobs: Knobs) -> Unit:
    """A fusion of elementwise, move and reduce instructions, around one contraction, or of attention."""
    if instr.attrs["kind"] == ATTENTION:
        return lower_attention(instr, target, knobs)
    hero = hero_of(instr.attrs["calls"])
    if hero is not None and hero.opcode == "dot":
        return lower_dot(instr, target, knobs)
    if hero is not None:
        return lower_convolution(instr, target, knobs)
    return lower_plain(instr.attrs["calls"], instr.name, knobs)


def _untuned(lowering: Lowering) -> TunedLowering:
    return lambda instr, target, knobs: lowering(instr, target)


OWN: dict[str, Lowering] = {
    "cholesky": linear_solve.lower_cholesky,
    "custom-call": lower_user_kernel,
    "fft": fft.lower,
    "get-dimension-size": dimension_size.lower,
    "rng-bit-generator": rng_bit_generator.lower,
    "select-and-scatter": select_and_scatter.lower,
    "triangular-solve": linear_solve.lower_triangular_solve,
}
LOWERINGS: dict[str, TunedLowering] = {
    **dict.fromkeys(fused.OPCODES, lower_single),
    "convolution": lower_convolution,
    "dot": lower_dot,
    "fusion": lower_fusion,
    "reduce-window": windows.lower,
    "scatter": scatter.lower,
    "sort": sort.lower,
    "topk": topk.lower,
    **{opcode: _untuned(lowering) for opcode, lowering in OWN.items()},
}


def lower(instr: Instr, target: Target, choice: Choice = DEFAULT, libraries: Libraries = NO_LIBRARIES) -> Unit:
    """The steps that compute `instr`: kernels, and where `choice` says so a call of a library; UnsupportedError names
    the opcode that has none on GPUs, or what of `choice` there is not."""
    algorithm = library_product.chosen(choice)
    if algorithm is not None:
        return library_products.lower(instr, algorithm, libraries.products)
    engine = library_convolution.chosen(choice)
    if engine is not None:
        return library_convolutions.lower(instr, engine, libraries.convolutions)
    preferred = None if choice else library_defaults.by_default(instr, libraries.products)
    if preferred is not None:
        return preferred
    knobs = Knobs(choice)
    unit = versions.lower(instr, lambda version: _lower(version, target, knobs))
    knobs.check()
    return unit


def candidates(instr: Instr, target: Target, libraries: Libraries = NO_LIBRARIES) -> Candidates:
    """The choices that `lower` takes for `instr`, its default first, some of which it refuses when asked;
    UnsupportedError as `lower`."""
    knobs = Knobs()
    _lower(instr, target, knobs)
    products = library_products.choices(instr, libraries.products)
    convolutions = library_convolutions.choices(instr, libraries.convolutions)
    return Candidates(knobs.space, (*products, *convolutions))


def _lower(instr: Instr, target: Target, knobs: Knobs) -> Unit:
    lowering = LOWERINGS.get(instr.opcode)
    if lowering is None:
        raise UnsupportedError(f"{instr.opcode} has no GPU kernel ({instr.name})")
    return lowering(instr, target, knobs)
