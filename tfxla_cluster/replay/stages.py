"""A module as it is after a stage of the pipeline: a pass, or fusion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..backends.backend import Backend, Launcher
from ..errors import UsageError
from ..fusion import planner
from ..ir.node import Module
from ..passes import call_inliner, layout_normaliser, pipeline, pipelines
from ..passes.base import Pass

NONE, FUSION, OPTIMISED = "none", "fusion", "optimised"
"""Stages that are no pass: before all; after all and fusion; and `optimised`, for a module that XLA's own passes have
made: only what brings it into our form runs."""


def names(passes: Sequence[Pass]) -> list[str]:
    """Stages in order, with `:N` where a pass runs more than once."""
    often = Counter(p.name for p in passes)
    seen: Counter[str] = Counter()
    found = [NONE]
    for step in passes:
        seen[step.name] += 1
        found.append(f"{step.name}:{seen[step.name]}" if often[step.name] > 1 else step.name)
    return [*found, FUSION]


def module_at(module: Module, stage: str | None, backend: Backend[Launcher]) -> Module:
    """The module after `stage`, one of `names`; a pass that runs more than once, without `:N`, after its last run.
    None: the module itself. UsageError for an unknown stage, InternalError where a pass makes an invalid module."""
    if stage is None or stage == NONE:
        return module
    if stage == OPTIMISED:
        return pipeline.run(module, "optimised", [layout_normaliser.PASS, call_inliner.PASS], None)
    passes = pipelines.optimize(backend.target)
    known = names(passes)
    ends = [n for n, name in enumerate(known) if name == stage or name.rpartition(":")[0] == stage]
    if not ends:
        raise UsageError(f"no pass is called '{stage}'", f"Passes in order: {', '.join(known[1:])}")
    staged = pipeline.run(module, "optimize", passes[: ends[-1]], None)
    return planner.fuse(staged, backend.machine, lambda decision: None) if stage == FUSION else staged


def is_optimised(module: Module) -> bool:
    """Whether passes have made fusions or a schedule of it: to run them again over such a module may fail."""
    return module.is_scheduled or any(i.opcode == "fusion" for c in module.computations() for i in c.instrs)
