"""What the emission of a statement sees of the kernel that is being written (`source.Emitter`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ...errors import UnsupportedError
from ..kernel.ir import Buffer, Region, Stmt, Var


@dataclass(frozen=True, slots=True)
class Axis:
    """An open axis: its lanes, the name of the block that says which are in use ('': all), and the number of the first
    lane."""

    width: int
    mask: str
    start: str


class Writer(Protocol):
    """`names` and `axes`: of the values written so far, the text and the axes of the block. `open`: the open axes,
    `rank` of which the kernel has at most. `depth`: of the indentation. `position`: axes of the open tiles."""

    rank: int
    names: dict[Var, str]
    axes: dict[Var, frozenset[int]]
    open: list[Axis]
    depth: int
    position: dict[Var, int]

    def put(self, line: str) -> None:
        """Appends a line."""
        ...

    def fresh(self, prefix: str) -> str:
        """A name that is not in use."""
        ...

    def body(self, body: Iterable[Stmt]) -> None:
        """Appends statements."""
        ...

    def define(self, var: Var, text: str, axes: frozenset[int]) -> None:
        """Appends a value."""
        ...

    def name(self, var: Var) -> str: ...

    def pointer(self, buffer: Buffer) -> str:
        """The name of its parameter."""
        ...

    def axes_of(self, *variables: Var | None) -> frozenset[int]: ...

    def every_axis(self) -> frozenset[int]: ...

    def mask(self, axes: Iterable[int], own: Var | None) -> str:
        """Where an access happens, '' everywhere: in lanes in use of its axes, and where its own condition holds."""
        ...

    def place(self, offset: Var, axes: frozenset[int], mask: str) -> str:
        """An offset as a block with these axes."""
        ...

    def spread(self, var: Var) -> str:
        """The value as a block with every open axis (a scalar where none is)."""
        ...

    def lanes_of(self, var: Var, axis: int, start: str, stop: str, width: int) -> Axis:
        """Defines `var` as lanes along `axis`; a `stop` of '' says that all are in use."""
        ...

    def combine_helper(self, region: Region) -> str:
        """The name of a jitted function of the region."""
        ...

    def carry(self, args: Sequence[Var], init: Sequence[Var]) -> None:
        """Variables that a loop assigns over."""
        ...

    def assign(self, args: Sequence[Var], values: Sequence[Var]) -> None: ...

    def unsupported(self, what: str) -> UnsupportedError: ...
