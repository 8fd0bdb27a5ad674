"""The contract of a pass."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..ir.node import Computation, Module
from ..ir.rewrite import map_computations


@dataclass(frozen=True, slots=True)
class Pass:
    """`run(module)` gives a new module, or the same object when nothing changed. `name` is its CLI word."""

    name: str
    run: Callable[[Module], Module]


def of_computations(name: str, fn: Callable[[Computation], Computation]) -> Pass:
    """A pass that treats each computation by itself, callees first."""
    return Pass(name, lambda module: map_computations(module, fn))
