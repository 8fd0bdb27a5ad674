"""A profile: which sizes the inputs of each function had, over runs and machines, and what was decided for them.

A lattice: `a | b` joins (commutative, associative, idempotent), so that profiles of many runs merge in any order and a
file that is merged twice changes nothing. Going up loses precision only, never a size that differed: a wrong or merged
profile costs generality or a compilation, and no number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..size_spec import Source, pattern

SCHEMA = 1
RECOMPILE_LIMIT = "recompile_limit"
MOST_SIZES = 16  # of a dimension that are kept: the most frequent


@dataclass(frozen=True)
class Counts:
    """Number -> how often it was asked for in the run that asked most; only the MOST_SIZES most frequent are kept."""

    of: Mapping[int, int] = field(default_factory=dict)

    @property
    def several(self) -> bool:
        return len(self.of) > 1

    @property
    def common(self) -> list[int]:
        """The most frequent first."""
        return sorted(self.of, key=lambda number: (-self.of[number], number))

    def __or__(self, other: Counts) -> Counts:
        both = {n: max(self.of.get(n, 0), other.of.get(n, 0)) for n in {*self.of, *other.of}}
        return Counts({n: both[n] for n in Counts(both).common[:MOST_SIZES]})

    def plus(self, number: int) -> Counts:
        """Asked for once more."""
        return self | Counts({number: self.of.get(number, 0) + 1})


@dataclass(frozen=True)
class Sizes:
    """Of one tensor, an axis each; None once tensors of several ranks came under its name."""

    axes: tuple[Counts, ...] | None = ()

    def __or__(self, other: Sizes) -> Sizes:
        if self.axes is None or other.axes is None or len(self.axes) != len(other.axes):
            return Sizes(None)
        return Sizes(tuple(mine | theirs for mine, theirs in zip(self.axes, other.axes)))

    def plus(self, dims: Iterable[int]) -> Sizes:
        """A tensor of these dims came once more."""
        dims = tuple(dims)
        if self.axes is None or len(self.axes) != len(dims):
            return Sizes(None)
        return Sizes(tuple(counts.plus(dim) for counts, dim in zip(self.axes, dims)))


@dataclass(frozen=True)
class FunctionProfile:
    """inputs: of tensors by name ('x', 'batch/features'). numbers: of Python integers by name. limits: what was
    reached (RECOMPILE_LIMIT)."""

    inputs: Mapping[str, Sizes] = field(default_factory=dict)
    numbers: Mapping[str, Counts] = field(default_factory=dict)
    limits: frozenset[str] = frozenset()

    def __or__(self, other: FunctionProfile) -> FunctionProfile:
        return FunctionProfile(
            _joined(self.inputs, other.inputs), _joined(self.numbers, other.numbers), self.limits | other.limits
        )

    def called(self, inputs: Mapping[str, Iterable[int]], numbers: Mapping[str, int]) -> FunctionProfile:
        """It was called once more, with tensors of these dims and these Python integers."""
        dims = {name: tuple(of) for name, of in inputs.items()}
        empty = {name: Sizes(tuple(Counts() for _ in of)) for name, of in dims.items()}
        return FunctionProfile(
            {**self.inputs, **{name: self.inputs.get(name, empty[name]).plus(of) for name, of in dims.items()}},
            {**self.numbers, **{name: self.numbers.get(name, Counts()).plus(n) for name, n in numbers.items()}},
            self.limits,
        )

    def dynamic(self) -> dict[str, tuple[int, ...]]:
        """Input -> axes that had several sizes. Where ranks differed no axis is known."""
        found = {name: _several(sizes) for name, sizes in sorted(self.inputs.items())}
        return {name: axes for name, axes in found.items() if axes}

    def varying(self) -> frozenset[str]:
        """The Python integers that had several values."""
        return frozenset(name for name, counts in self.numbers.items() if counts.several)


def _several(sizes: Sizes) -> tuple[int, ...]:
    return tuple(axis for axis, counts in enumerate(sizes.axes or ()) if counts.several)


def _joined(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    shared = {name: mine[name] | theirs[name] for name in mine.keys() & theirs.keys()}
    return {**mine, **theirs, **shared}


@dataclass(frozen=True)
class Profile:
    """Of a job: by identity of the function, which holds no path and no line."""

    functions: Mapping[str, FunctionProfile] = field(default_factory=dict)

    def __or__(self, other: Profile) -> Profile:
        return Profile(_joined(self.functions, other.functions))

    def sources(self) -> list[str]:
        """The entries of --tfxla_dynamic_sources that say the same without a profile."""
        dynamic = [f.dynamic() for f in self.functions.values()]
        found = {Source(pattern(name), axis) for of in dynamic for name, axes in of.items() for axis in axes}
        return sorted(map(str, found))


# --- as JSON ---
def to_json(profile: Profile) -> bytes:
    """Equal profiles give equal bytes."""
    functions = {
        name: {
            "inputs": {key: None if of.axes is None else list(map(_data, of.axes)) for key, of in f.inputs.items()},
            "numbers": {key: _data(of) for key, of in f.numbers.items()},
            "limits": sorted(f.limits),
        }
        for name, f in profile.functions.items()
    }
    return (json.dumps({"schema": SCHEMA, "functions": functions}, indent=1, sort_keys=True) + "\n").encode()


def _data(counts: Counts) -> dict[str, int]:
    return {str(number): count for number, count in counts.of.items()}


def from_json(data: bytes) -> Profile:
    """As `to_json` wrote it; ValueError says why these bytes are no profile."""
    try:
        found = json.loads(data)
        schema = found["schema"]
        if schema != SCHEMA:
            raise ValueError(f"its schema is {schema!r}, this version reads {SCHEMA}")
        return Profile({str(name): _function(f) for name, f in found["functions"].items()})
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not the form of a profile ({type(error).__name__}: {error})") from None


def _function(data: Mapping[str, Any]) -> FunctionProfile:
    return FunctionProfile(
        {
            str(name): Sizes(None if axes is None else tuple(map(_counts, axes)))
            for name, axes in data["inputs"].items()
        },
        {str(name): _counts(of) for name, of in data["numbers"].items()},
        frozenset(map(str, data["limits"])),
    )


def _counts(data: Mapping[str, Any]) -> Counts:
    found = {int(number): count for number, count in data.items()}
    if not all(type(count) is int and count > 0 for count in found.values()):
        raise ValueError(f"{dict(data)} does not say how often each size came")
    return Counts() | Counts(found)
