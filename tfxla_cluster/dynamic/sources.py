"""Which dimensions are sizes from the first call on, which once they change, which never: names, in order of weight.

    mark_dynamic              from the first call on, and an error where that cannot be
    mark_static               never
    maybe_mark_dynamic        from the first call on
    --tfxla_static_sources    never
    --tfxla_dynamic_sources   from the first call on, also in a function with dynamic=False
    dynamic=False             never
    dynamic=True, a dim that a trace leaves open (None), a profile     from the first call on
    variables, captured constants      never, but with --tfxla_dynamic_variables
    else                      once they change

The lists are as torch.compile's (its TORCH_COMPILE_DYNAMIC_SOURCES), in the form of `size_spec`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from ..ir.dim import LEAST_GENERIC
from ..size_spec import ANY, How, Mark, Size, Source

Place = tuple[int, int]
"""(input, axis)"""
LISTED_STATIC = "--tfxla_static_sources names it"
MARKED_STATIC = "it is marked static"
VARIABLE, CONSTANT = "it is a variable's", "it is a constant's of the program"
ASKED_STATIC = "the function is compiled with dynamic=False"
_STEP = 16  # a multiple of what strides and blocks of programs are: a sample leaves the same rest
_TRIES = 8  # steps from a size in which another is looked for
# Steps, a size each: none is a number of times another, by which one size could be taken for another one.
_NEAR = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53)
_FAR = (67, 71, 73, 79, 83, 89, 97, 101, 103, 107, 109, 113, 127, 131, 137, 139)


class When(Enum):
    """From when on a dimension is a size."""

    FIRST = "from the first call on"
    CHANGE = "once it changes"
    NEVER = "never"


class Rule(NamedTuple):
    """From when on a dimension is a size, what says so, and what is said about the size."""

    when: When
    reason: str
    size: Size = ANY


_MARKED = {
    How.DYNAMIC: (When.FIRST, "it is marked dynamic"),
    How.MAYBE: (When.FIRST, "it is marked as one that may be dynamic"),
    How.STATIC: (When.NEVER, MARKED_STATIC),
}


@dataclass(frozen=True)
class Asked:
    """What is asked for about the inputs of one function.

    dynamic: of `jit`. open: dimensions that the trace leaves open. profile: input's name -> axes that had
    several sizes. variables, constants: inputs that are. marks: of
    dimensions.
    """

    dynamic: bool | None = None
    open: frozenset[Place] = frozenset()
    profile: Mapping[str, Collection[int]] | None = None
    variables: frozenset[int] = frozenset()
    marks: Mapping[Place, Mark] = field(default_factory=dict)
    constants: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Lists:
    """Of the flags --tfxla_dynamic_sources and --tfxla_static_sources."""

    dynamic: tuple[Source, ...] = ()
    static: tuple[Source, ...] = ()

    def rule(self, number: int, name: str, axis: int, asked: Asked) -> Rule:
        """Of one dimension of input `number`, by the order of weight above."""
        listed = next((s.size for s in self.dynamic if s.matches(name, axis)), None)
        mark = asked.marks.get((number, axis))
        if mark is not None:
            return Rule(*_MARKED[mark.how], mark.size)
        says = (
            (any(s.matches(name, axis) for s in self.static), When.NEVER, LISTED_STATIC),
            (listed is not None, When.FIRST, "--tfxla_dynamic_sources names it"),
            (asked.dynamic is False, When.NEVER, ASKED_STATIC),
            (number in asked.variables, When.NEVER, VARIABLE),
            (number in asked.constants, When.NEVER, CONSTANT),
            (asked.dynamic is True, When.FIRST, "the function is compiled with dynamic=True"),
            ((number, axis) in asked.open, When.FIRST, "the trace leaves it open"),
            (axis in (asked.profile or {}).get(name, ()), When.FIRST, "it varied in the profile"),
        )
        return next((Rule(when, reason, listed or ANY) for holds, when, reason in says if holds), Rule(When.CHANGE, ""))

    def rules(self, names: Sequence[str], shapes: Sequence[Sequence[int]], asked: Asked) -> dict[Place, Rule]:
        """Of all dimensions of inputs with these names and shapes; those that lie outside of their range never vary."""
        found = {}
        for number, (name, dims) in enumerate(zip(names, shapes, strict=True)):
            for axis, dim in enumerate(dims):
                rule = self.rule(number, name, axis, asked)
                outside = rule.when is not When.NEVER and dim not in rule.size
                found[number, axis] = Rule(When.NEVER, f"{dim} is outside of {rule.size}") if outside else rule
        return found


def samples(
    dims: Mapping[Place, int], sizes: Mapping[Place, Size] = MappingProxyType({}), every: int = 0
) -> dict[Place, int]:
    """Other sizes for these dimensions, at which the same program may be lowered too, in their ranges and with the same
    predicates true; those that are equal stay equal, but for those that have different names. every: others than
    without it, which leave the same by that number and, where they can, not by a larger one.

    Sizes below LEAST_GENERIC have modules of their own and are left out, as are those that have no other.
    """
    groups = _groups({place: size for place, size in dims.items() if size >= LEAST_GENERIC}, sizes)
    found: dict[Place, int] = {}
    taken = set(dims.values())
    for number, places in enumerate(groups):
        factors, step = (_FAR, every) if every else (_NEAR, _STEP)
        steps = [step * k for k in (*factors[number:], *range(1, _TRIES + 1))]
        other = _other(dims[places[0]], steps, [sizes.get(place, ANY) for place in places], taken)
        if other is not None:
            taken.add(other)
            found |= dict.fromkeys(places, other)
    return found


def _groups(dims: Mapping[Place, int], sizes: Mapping[Place, Size]) -> list[list[Place]]:
    """Places whose sizes are one, by size and name; what has no name is with the first that is as large."""
    groups: dict[tuple[int, str], list[Place]] = {}
    named = sorted(dims, key=lambda place: (dims[place], not sizes.get(place, ANY).name, place))
    for place in named:
        size, name = dims[place], sizes.get(place, ANY).name
        key = next((known for known in groups if known[0] == size and (not name or known[1] == name)), (size, name))
        groups.setdefault(key, []).append(place)
    return list(groups.values())


def _other(size: int, steps: Sequence[int], said: Sequence[Size], taken: Collection[int]) -> int | None:
    """Another size that all of these allow, by one of the steps; None where there is none near."""
    near = (size + step * sign for step in steps for sign in (1, -1))
    any_near = (size + k * sign for k in range(1, _STEP * _TRIES) for sign in (1, -1))
    fits = (
        other
        for other in (*near, *any_near)
        if other >= LEAST_GENERIC
        and other not in taken
        and all(other in one and one.case(other) == one.case(size) for one in said)
    )
    return next(fits, None)
