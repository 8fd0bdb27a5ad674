"""Random HLO modules over most opcodes, whose values are exact: results of two compilers must agree in full.

Values are small integers (with NaN, infinities and -0.0 among the arguments); sums and products are clamped,
so no order of operations shows. Only outputs may end in a function that is not exact.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from tests.fuzz.draft import Draft
from tests.fuzz.steps import NAMES, STEPS
from tests.fuzz.steps.nested import NESTED
from tfxla_cluster.ir.node import Module

INEXACT = ("exponential", "tanh", "logistic", "log", "sine", "sqrt", "rsqrt", "exponential-minus-one", "erf")


@dataclass
class Program:
    """`ulps[i]` says how far output i may be off, in units of its type."""

    module: Module
    args: list[np.ndarray]
    ulps: list[int]


def program(seed: int, length: int = 0) -> Program:
    """The program of that number, with `length` steps or as many as the seed says."""
    draft = Draft(random.Random(seed))
    for _ in range(draft.rng.randint(1, 4)):
        draft.parameter(draft.kind(), draft.shape())
    for _ in range(length or draft.rng.choice((3, 6, 10, 16, 24))):
        STEPS[draft.rng.choice(NAMES)](draft)
    return finish(draft, f"fuzz_{seed}")


def nested_program(seed: int) -> Program:
    """The program of that number made of control flow in control flow."""
    draft = Draft(random.Random(seed))
    for _ in range(3):
        draft.parameter(draft.kind(), draft.shape(draft.rng.randint(0, 2)))
    for _ in range(draft.rng.choice((1, 2, 3))):
        for _ in range(draft.rng.randint(0, 2)):
            STEPS[draft.rng.choice(NAMES)](draft)
        draft.rng.choice(NESTED)(draft)
    return finish(draft, f"nested_{seed}")


def finish(draft: Draft, name: str) -> Program:
    """The module of the last value and some others."""
    roots = dict.fromkeys([draft.values[-1], *(draft.pick() for _ in range(draft.rng.randint(0, 2)))])
    outputs, ulps = [], []
    for root in roots:
        inexact = root.shape.element_type.is_float and draft.rng.random() < 0.4
        outputs.append(draft.b.add_op(draft.rng.choice(INEXACT), root) if inexact else root)
        ulps.append(8 if inexact else 0)
    return Program(Module(name, draft.b.build(*outputs)), draft.args, ulps)
