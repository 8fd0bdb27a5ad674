"""Which dimensions are sizes from the first call on, which once they change, which never: names, in order of weight.

    --tfxla_static_sources    never, whatever else is said
    --tfxla_dynamic_sources   from the first call on, also in a function with dynamic=False
    dynamic=False             never
    dynamic=True, a dim that a trace leaves open (None), a profile     from the first call on
    variables                 never
    else                      once they change

As torch.compile's lists (its TORCH_COMPILE_DYNAMIC_SOURCES): comma separated; an entry is a name or a regular
expression that matches from its start, `:N` behind it names one dimension.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from ..errors import FlagError
from ..ir.dim import LEAST_GENERIC

Place = tuple[int, int]
"""(input, axis)"""
LISTED_STATIC = "--tfxla_static_sources names it"
ASKED_STATIC = "the function is compiled with dynamic=False"
_STEP = 16  # a multiple of what strides and blocks of programs are: a sample leaves the same rest
_ENTRY = re.compile(r"(?P<name>.*?)(:(?P<axis>\d+))?", re.DOTALL)


class When(Enum):
    """From when on a dimension is a size."""

    FIRST = "from the first call on"
    CHANGE = "once it changes"
    NEVER = "never"


class Rule(NamedTuple):
    """From when on a dimension is a size, and what says so."""

    when: When
    reason: str


@dataclass(frozen=True)
class Source:
    """An entry of a list. axis: None for all."""

    name: str
    axis: int | None = None

    def matches(self, name: str, axis: int) -> bool:
        if self.axis not in (None, axis):
            return False
        return name == self.name or re.match(self.name, name) is not None


def parse(flag: str, text: str) -> tuple[Source, ...]:
    """The entries of a list; FlagError for one that is no regular expression."""
    return tuple(_source(flag, word) for word in filter(None, (w.strip() for w in text.split(","))))


def _source(flag: str, word: str) -> Source:
    found = _ENTRY.fullmatch(word)
    assert found is not None  # the pattern matches every text
    try:
        re.compile(found["name"])
    except re.error as error:
        raise FlagError(f"--{flag}: '{word}' is no regular expression ({error})") from None
    return Source(found["name"], None if found["axis"] is None else int(found["axis"]))


@dataclass(frozen=True)
class Asked:
    """What is asked for about the inputs of one function.

    dynamic: of `jit`. open: dimensions that the trace leaves open. profile: input's name -> axes that had
    several sizes. variables: inputs that are.
    """

    dynamic: bool | None = None
    open: frozenset[Place] = frozenset()
    profile: Mapping[str, Collection[int]] | None = None
    variables: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Lists:
    """Of the flags --tfxla_dynamic_sources and --tfxla_static_sources."""

    dynamic: tuple[Source, ...] = ()
    static: tuple[Source, ...] = ()

    def rule(self, number: int, name: str, axis: int, asked: Asked) -> Rule:
        """Of one dimension of input `number`, by the order of weight above."""
        says = (
            (any(s.matches(name, axis) for s in self.static), When.NEVER, LISTED_STATIC),
            (any(s.matches(name, axis) for s in self.dynamic), When.FIRST, "--tfxla_dynamic_sources names it"),
            (asked.dynamic is False, When.NEVER, ASKED_STATIC),
            (number in asked.variables, When.NEVER, "it is a variable's"),
            (asked.dynamic is True, When.FIRST, "the function is compiled with dynamic=True"),
            ((number, axis) in asked.open, When.FIRST, "the trace leaves it open"),
            (axis in (asked.profile or {}).get(name, ()), When.FIRST, "it varied in the profile"),
        )
        return next((Rule(when, reason) for holds, when, reason in says if holds), Rule(When.CHANGE, ""))

    def rules(self, names: Sequence[str], ranks: Sequence[int], asked: Asked) -> dict[Place, Rule]:
        """Of all dimensions."""
        return {
            (number, axis): self.rule(number, name, axis, asked)
            for number, (name, rank) in enumerate(zip(names, ranks, strict=True))
            for axis in range(rank)
        }


def pattern(name: str) -> str:
    """An entry of a list that matches an input of this name, whatever is in it."""
    return name if re.fullmatch(r"[\w./]+", name) else re.escape(name).replace(",", ".").replace(":", "[:]")


def samples(dims: Mapping[Place, int]) -> dict[Place, int]:
    """Other sizes for these dimensions, at which the same program may be lowered too; those that are equal stay equal.

    Sizes below LEAST_GENERIC have modules of their own and are left out.
    """
    sizes = sorted({size for size in dims.values() if size >= LEAST_GENERIC})
    others = {size: size + _STEP * (number + 1) for number, size in enumerate(sizes)}
    return {place: others[size] for place, size in dims.items() if size in others}
