"""What the lowerings ask of the libraries of a machine: which of their algorithms there are for a piece of work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from ... import trace
from .library_convolution import Convolution, Engine
from .library_product import Algorithm, Product

WORKSPACE_ALIGN = 256  # bytes that a workspace lies at a multiple of

Work = TypeVar("Work", contravariant=True)
How = TypeVar("How")


class Library(Protocol[Work, How]):
    """One library, for one kind of work."""

    def algorithms(self, work: Work) -> Sequence[How]:
        """Those that give the same bits in each run, the one that is said to be fastest first."""
        ...

    def refusal(self, work: Work, algorithm: How) -> str:
        """Why this machine's library does not work so; '' where it does."""
        ...


class NoLibrary(Library[Work, How]):
    """There is none, for the reason given, which is in the trace where one was asked for and `said`."""

    def __init__(self, reason: str, said: bool) -> None:
        self._reason, self._said = reason, said

    def algorithms(self, work: Work) -> Sequence[How]:
        if self._said:
            trace.record("autotune", event="library", reason=self._reason)
        return ()

    def refusal(self, work: Work, algorithm: How) -> str:
        return f"the library is not here: {self._reason}"


@dataclass(frozen=True, slots=True)
class Libraries:
    """Those of a machine."""

    products: Library[Product, Algorithm]
    convolutions: Library[Convolution, Engine]


_DESCRIBED = "the machine is only described"
NO_LIBRARIES = Libraries(NoLibrary(_DESCRIBED, said=False), NoLibrary(_DESCRIBED, said=False))
