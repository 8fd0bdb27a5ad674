"""Named pipelines: which passes, in which order."""

from __future__ import annotations

from ..target import Target
from . import (
    algebraic,
    band_literals,
    barriers,
    batch_contraction,
    batch_norm,
    call_inliner,
    constant_folding,
    cse,
    custom_calls,
    dce,
    layout_normaliser,
    linear_algebra,
    map_inliner,
    operand_folding,
    product_precision,
    reshape_mover,
    rng_expander,
    size_namer,
    sort_simplifier,
    while_simplifier,
    while_trip_count,
)
from .base import Pass

PASSES: dict[str, Pass] = {
    p.name: p
    for p in (
        algebraic.PASS,
        band_literals.PASS,
        barriers.PASS,
        batch_contraction.PASS,
        batch_norm.PASS,
        call_inliner.PASS,
        constant_folding.PASS,
        cse.PASS,
        cse.DEDUPLICATE,
        custom_calls.PASS,
        dce.PASS,
        layout_normaliser.PASS,
        linear_algebra.PASS,
        map_inliner.PASS,
        operand_folding.PASS,
        product_precision.PASS,
        reshape_mover.PASS,
        rng_expander.PASS,
        size_namer.PASS,
        sort_simplifier.PASS,
        while_simplifier.PASS,
        while_trip_count.PASS,
    )
}


def optimize(target: Target) -> list[Pass]:
    """What runs before fusion. Afterwards no layouts, dead code, inlinable call or map, batch norm are left."""
    return [
        dce.PASS,
        product_precision.PASS,
        call_inliner.PASS,
        size_namer.PASS,
        layout_normaliser.PASS,
        cse.DEDUPLICATE,
        batch_norm.PASS,
        custom_calls.PASS,
        *([linear_algebra.PASS] if target.backend == "cpu" else []),
        rng_expander.PASS,
        map_inliner.PASS,
        algebraic.PASS,
        constant_folding.PASS,
        band_literals.PASS,
        while_simplifier.PASS,
        reshape_mover.PASS,
        algebraic.PASS,
        sort_simplifier.PASS,
        call_inliner.PASS,
        batch_contraction.PASS,
        operand_folding.PASS,
        cse.DEDUPLICATE,
        cse.PASS,
        while_simplifier.PASS,
        barriers.PASS,
        dce.PASS,
        while_trip_count.PASS,
    ]
