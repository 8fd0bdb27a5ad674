"""LLVM IR as text: kernels, what they call, and modules of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..kernel.makers import with_makers


@dataclass(frozen=True)
class Shared:
    """A large function that many kernels call, equal where the name is: its text and what that declares, and
    how callers declare it."""

    text: str
    declares: Mapping[str, str]
    prototype: str


@dataclass(frozen=True)
class Text:
    """LLVM IR of one kernel: its function, internal functions it calls, large functions that may stand in
    another module, and declarations, by name; `makers`: of the function's names the HLO instructions they are for."""

    function: str
    helpers: Mapping[str, str]
    declares: Mapping[str, str]
    shared: Mapping[str, Shared]
    makers: Mapping[str, str] = field(default_factory=dict)

    @property
    def listed(self) -> str:
        """The function for people: lines say what they were made for."""
        return with_makers(self.function, self.makers, ";")


def module_text(texts: Sequence[Text], whole: bool = True) -> str:
    """One module of the kernels' functions and what they call."""
    return "\n".join([*(t.function for t in texts), called_text(texts, whole)])


def called_text(texts: Sequence[Text], whole: bool = True) -> str:
    """What the kernels' functions call, each once: internal functions, then declarations.

    `whole`: with the large functions too, which are declared only otherwise.
    """
    helpers: dict[str, str] = {}
    declares: dict[str, str] = {}
    for text in texts:
        helpers.update(text.helpers)
        declares.update(text.declares)
        for name, function in text.shared.items():
            helpers[name] = function.text if whole else function.prototype
            declares.update(function.declares if whole else {})
    return "\n".join([*helpers.values(), *declares.values(), ""])


def shared_text(function: Shared) -> str:
    """A module of a large function alone."""
    return "\n".join([function.text, *function.declares.values(), ""])
