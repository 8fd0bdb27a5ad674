"""What a lowering may be told to choose: named small numbers (sizes of blocks and the like), and who chooses.

A lowering asks for each number where it uses it (`Knobs.take`), with its default and the alternatives. What it asks
for while an instruction is lowered without a choice is the instruction's space of candidates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, overload

from ...errors import UnsupportedError
from ...ir.node import Instr


class Choice(Mapping[str, int]):
    """A frozen mapping knob -> number, in the order of names; without any the default of the lowering."""

    __slots__ = ("_hash", "_values")

    def __init__(self, values: Mapping[str, int] | None = None) -> None:
        self._values = dict(sorted((values or {}).items()))
        self._hash = hash(tuple(self._values.items()))

    def __getitem__(self, name: str) -> int:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self._values.items()) or "default"


DEFAULT = Choice()


class Knobs:
    """What a lowering asks. `space`: each knob that was asked for -> its values, the default first."""

    def __init__(self, choice: Choice = DEFAULT) -> None:
        self._choice = choice
        self.space: dict[str, tuple[int, ...]] = {}

    def take(self, name: str, default: int, others: Sequence[int]) -> int:
        """The number to use: the choice's, else `default`. UnsupportedError for one that is not among those offered."""
        known = self.space[name] = tuple(dict.fromkeys((default, *others)))
        value = self._choice.get(name, default)
        if value not in known:
            offered = ", ".join(map(str, sorted(known)))
            raise UnsupportedError(f"{name}={value} is not one of the values that are offered: {offered}")
        return value

    def check(self) -> None:
        """UnsupportedError where the choice names a knob that no lowering asked for."""
        for name in self._choice:
            if name not in self.space:
                raise UnsupportedError(f"there is no '{name}' to choose")


class Candidates(Sequence[Choice]):
    """Every choice of a space, that of the first values (the defaults) first; made when they are asked for, since
    spaces have thousands. Behind them `others`, which have knobs of their own."""

    def __init__(self, space: Mapping[str, Sequence[int]], others: Sequence[Choice] = ()) -> None:
        self.space = {name: tuple(values) for name, values in space.items()}
        self.others = tuple(others)
        self._count = math.prod(map(len, self.space.values()))

    def space_alone(self) -> Candidates:
        """Without the others."""
        return Candidates(self.space)

    def __len__(self) -> int:
        return self._count + len(self.others)

    @overload
    def __getitem__(self, index: int) -> Choice: ...

    @overload
    def __getitem__(self, index: slice) -> list[Choice]: ...

    def __getitem__(self, index: int | slice) -> Choice | list[Choice]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        rest = range(len(self))[index]
        if rest >= self._count:
            return self.others[rest - self._count]
        chosen: dict[str, int] = {}
        for name, values in reversed(self.space.items()):
            rest, at = divmod(rest, len(values))
            chosen[name] = values[at]
        return Choice(chosen)

    def __contains__(self, choice: object) -> bool:
        if not isinstance(choice, Choice):
            return False
        if choice.keys() != self.space.keys():
            return choice in self.others
        return all(value in self.space[name] for name, value in choice.items())


@dataclass(frozen=True, slots=True)
class Chosen:
    """A choice for one instruction. `source`: 'default', 'file', 'tuned' or 'given'; `reason`: a sentence, above all
    why it is the default. `fingerprint`: canonical text of the instruction, where its results were asked for."""

    choice: Choice = DEFAULT
    source: str = "default"
    reason: str = ""
    fingerprint: str = ""


class Choices(Protocol):
    """Who chooses, for the instructions of one compilation on one backend."""

    def begin(self, instrs: Sequence[Instr]) -> None:
        """These will be asked for: what takes long for several at once may be done now. Raises as `choose`."""
        ...

    def choose(self, instr: Instr) -> Chosen:
        """The choice for an instruction that becomes kernels. Raises TfxlaError where it must be known and is not."""
        ...

    def refused(self, instr: Instr, chosen: Chosen, reason: str) -> Chosen:
        """What stands instead of a choice that the lowering refused, saying why. Raises as `choose`."""
        ...


@dataclass(frozen=True, slots=True)
class Untuned:
    """Choices: the default of every lowering."""

    reason: str = "tuning is off"

    def begin(self, instrs: Sequence[Instr]) -> None:
        pass

    def choose(self, instr: Instr) -> Chosen:
        return Chosen(reason=self.reason)

    def refused(self, instr: Instr, chosen: Chosen, reason: str) -> Chosen:
        return Chosen(reason=reason)


UNTUNED = Untuned()


@dataclass(frozen=True, slots=True)
class Given:
    """Choices: `choice` for one instruction by name, the default for all others. UnsupportedError where it is
    refused."""

    name: str
    choice: Choice

    def begin(self, instrs: Sequence[Instr]) -> None:
        pass

    def choose(self, instr: Instr) -> Chosen:
        return Chosen(self.choice, "given") if instr.name == self.name else Chosen(reason="another one is tuned")

    def refused(self, instr: Instr, chosen: Chosen, reason: str) -> Chosen:
        raise UnsupportedError(f"{instr.name}: {reason}")
