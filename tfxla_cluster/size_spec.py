"""What is said about sizes of inputs: one form for the flags, `jit`, marks on tensors and profiles.

    x:0=batch[2..512],y:0=batch,mask/.*

Entries by comma: a name, or a regular expression that matches from the start of one, `:N` one dimension (else all),
behind `=` what its size is: sizes of one name are equal, `[2..512]` is the range that an executable is for, both ends
in it, either may be left out. Sizes outside of it have executables of their own.
"""

from __future__ import annotations

import functools
import re
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from .errors import UsageError

_NAME = r"[A-Za-z_]\w*"
_SIZE = rf"(?P<size>{_NAME})?(\[(?P<least>\d{{0,18}})\.\.(?P<most>\d{{0,18}})\])?"  # sizes have 64 bits
_ENTRY = re.compile(rf"(?P<name>.*?)(\s*:\s*(?P<axis>\d{{1,18}}))?(=(?P<says>{_SIZE}))?", re.DOTALL)
_UNREAD = re.compile(r"(?<![?<P[])=")  # an '=' that is no part of a regular expression
_NO_AXIS = re.compile(r"(?<![?\[\\]):([^:\])]*)$")  # what is behind the last ':', if that is no part of one
_MOST_AXIS = 253  # TensorFlow's shapes have at most 254 dimensions
_FORM = "Write it as name:axis=size[least..most], all but the name as needed"

Predicate = Callable[[int], bool]


def _predicates(given: Any) -> tuple[Predicate, ...]:
    found = tuple(given) if isinstance(given, Iterable) else (given,)
    if not isinstance(given, Iterable) or not all(map(callable, found)):
        wrong = next((one for one in found if not callable(one)), given)
        raise UsageError(f"specialize_on has {wrong!r}, which is no predicate", "Give a list of functions of one size")
    return found


@dataclass(frozen=True)
class Size:
    """What is said about the size of one dimension.

    name: sizes of one name are equal ('': of none). min, max: what an executable is for, both in it (None: any).
    specialize_on: sizes of which other ones of these are true have an executable of their own. UsageError for a name
    that is none, a range without a size, and predicates that cannot be called.
    """

    name: str = ""
    min: int | None = None
    max: int | None = None
    specialize_on: tuple[Predicate, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or (self.name and not re.fullmatch(_NAME, self.name)):
            raise UsageError(f"{self.name!r} is no name of a size", "Use letters, digits and _, a letter first")
        for end in (self.min, self.max):
            if end is not None and (type(end) is not int or end < 0):
                raise UsageError(f"{end!r} is no end of a range of sizes", "Give integers from 0 on")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise UsageError(f"no size is from {self.min} to {self.max}", "Give the smaller end first")
        object.__setattr__(self, "specialize_on", _predicates(self.specialize_on))

    @property
    def is_one(self) -> bool:
        """Its range has one size."""
        return self.min is not None and self.min == self.max

    def case(self, size: int) -> tuple[int, ...]:
        """The numbers of the predicates that are true of a size; UsageError where one fails."""
        return tuple(number for number, predicate in enumerate(self.specialize_on) if _true(predicate, size))

    def joined(self, other: Size) -> Size:
        """Both are said: this name, else the other, and the range that both have; this one alone where they have none
        in common."""
        ends = [[e for e in pair if e is not None] for pair in ((self.min, other.min), (self.max, other.max))]
        least, most = (f(of) if of else None for f, of in zip((max, min), ends))
        if least is not None and most is not None and least > most:
            return self
        return Size(self.name or other.name, least, most, (*self.specialize_on, *other.specialize_on))

    def __contains__(self, size: int) -> bool:
        return (self.min is None or size >= self.min) and (self.max is None or size <= self.max)

    def __str__(self) -> str:
        if self.min is None and self.max is None:
            return self.name
        least, most = ("" if end is None else str(end) for end in (self.min, self.max))
        return f"{self.name}[{least}..{most}]"


ANY = Size()
"""A size of which nothing is said."""


@dataclass(frozen=True)
class Source:
    """An entry: `name` or pattern of inputs, `axis` None for all of their dimensions, and what their size is."""

    name: str
    axis: int | None = None
    size: Size = ANY

    def matches(self, name: str, axis: int) -> bool:
        """Is it about this dimension of the input `name`?"""
        if self.axis not in (None, axis):
            return False
        return name == self.name or re.match(self.name, name) is not None

    def __str__(self) -> str:
        axis = "" if self.axis is None else f":{self.axis}"
        return f"{self.name}{axis}{f'={self.size}' if str(self.size) else ''}"


class How(Enum):
    """What a mark says of a dimension, the strongest first."""

    DYNAMIC = "it is a size, or the program is in error"
    STATIC = "each of its sizes has an executable of its own"
    MAYBE = "it is a size where it can be"


@dataclass(frozen=True)
class Mark:
    """Of one dimension of a tensor."""

    how: How
    size: Size = ANY


def stronger(one: Mark | None, other: Mark) -> Mark:
    """Both are said of one dimension: the stronger, of equals the second."""
    order = list(How)
    return other if one is None or order.index(other.how) <= order.index(one.how) else one


def _true(predicate: Predicate, size: int) -> bool:
    try:
        return bool(predicate(size))
    except Exception as error:
        said = f"a predicate of specialize_on fails for {size}: {type(error).__name__}: {error}"
        raise UsageError(said, "Give functions of one size", _line_in(error)) from error


def _line_in(error: Exception) -> str:
    """`file:line` of the predicate that raised it, '' where that is no Python function."""
    frames = traceback.extract_tb(error.__traceback__)[1:2]
    return f"{frames[0].filename}:{frames[0].lineno}" if frames else ""


@functools.lru_cache(maxsize=256)
def parse(text: str) -> tuple[Source, ...]:
    """The entries of a text that somebody wrote; UsageError for what is none, names no input, or an axis that none
    has."""
    words = [stripped for word in text.split(",") if (stripped := word.strip())]
    found = tuple(map(_source, words))
    for word, one in zip(words, found):
        if not one.name:
            raise UsageError(f"'{word}' does not name an input", _FORM)
        if one.axis is not None and one.axis > _MOST_AXIS:
            raise UsageError(f"'{word}' has an axis that no input has", f"Axes are from 0 to {_MOST_AXIS}")
    return found


def nameless(text: str) -> tuple[Source, ...]:
    """The entries of what `text` made of some without names: of the dimensions of one tensor."""
    return tuple(map(_source, text.split(","))) if text else ()


def _source(word: str) -> Source:
    found = _ENTRY.fullmatch(word)
    assert found is not None  # the pattern matches every text
    name, axis = found["name"].rstrip(), found["axis"]
    if _UNREAD.search(name) or found["says"] == "":
        raise UsageError(f"'{word}' does not say what a size is behind '='", _FORM)
    _check_pattern(name, word)
    if axis is None and (unread := _NO_AXIS.search(name)):
        raise UsageError(
            f"'{unread[1]}' in '{word}' is no number of an axis", "Axes count from 0; a ':' of a name is written [:]"
        )
    return Source(name, None if axis is None else int(axis), _size(found))


def _check_pattern(name: str, word: str) -> None:
    try:
        re.compile(name)
    except re.error as error:
        raise UsageError(f"'{word}' is no regular expression ({error})") from None


def entry(name: Any, axis: Any, says: Any) -> Source:
    """An entry of its parts, `says` a Size or what `size` reads; UsageError for what is none."""
    if not isinstance(name, str) or not name:
        raise UsageError(f"{name!r} is no name of an argument", "Name it as the function does: {'x': {0: 'batch'}}")
    _check_pattern(name, name)
    if type(axis) is not int or axis < 0:
        raise UsageError(f"{axis!r} in '{name}' is no number of an axis", "Axes count from 0")
    if not isinstance(says, str | Size):
        raise UsageError(f"{says!r} does not say what size {axis} of '{name}' is", "Give its name, or a Size")
    return Source(name, axis, size(says) if isinstance(says, str) else says)


def size(text: str) -> Size:
    """What stands behind `=` of an entry, '' for any size; UsageError for anything else."""
    found = re.fullmatch(_SIZE, text.strip())
    if found is None:
        raise UsageError(f"'{text}' does not say what a size is", "Write it as name[least..most], either as needed")
    return _size(found)


def _size(found: re.Match[str]) -> Size:
    least, most = (int(found[end]) if found[end] else None for end in ("least", "most"))
    return Size(found["size"] or "", least, most)


def text(sources: tuple[Source, ...]) -> str:
    """As `parse` reads it; predicates are left out."""
    return ",".join(map(str, sources))


def pattern(name: str) -> str:
    """The name of an entry that matches an input of this name, whatever is in it."""
    if re.fullmatch(r"[\w./]+", name):
        return name
    written = {",": ".", ":": "[:]", "=": "[=]", " ": r"\x20"}
    return "".join(written.get(letter) or re.escape(letter) for letter in name)
