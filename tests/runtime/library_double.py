"""What doubles of a GPU's libraries share: C functions as callbacks, counted, that fail where they are told to."""

from __future__ import annotations

import ctypes
import itertools
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .gpu_double import Library


class Status(Exception):
    """A status of the library that is not 0."""

    def __init__(self, code: int) -> None:
        self.code = code


class LibraryDouble:
    """The functions as attributes, each by the method of its name without the prefixes. `calls` counts them; `failing`:
    function -> status; `errors`: what a callback raised, which its caller sees as the status `internal`."""

    def __init__(
        self,
        driver: Library,
        signatures: Mapping[str, Sequence[Any]],
        prefixes: Sequence[str],
        internal: int,
        first_number: int,
    ) -> None:
        self.driver = driver
        self.calls: Counter[str] = Counter()
        self.failing: dict[str, int] = {}
        self.errors: list[str] = []
        self.numbers = itertools.count(first_number, 16)  # of descriptors and handles
        for name, kinds in signatures.items():
            method = name
            for prefix in prefixes:
                method = method.removeprefix(prefix)
            inner = getattr(self, f"_{method}")
            setattr(self, name, ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(self._guarded(name, inner, internal)))

    def _guarded(self, name: str, inner: Callable[..., None], internal: int) -> Callable[..., int]:
        def function(*args: int | None) -> int:
            self.calls[name] += 1
            if name in self.failing:
                return self.failing[name]
            try:
                inner(*(a or 0 for a in args))
            except Status as status:
                return status.code
            except Exception:  # noqa: BLE001 - a callback cannot raise
                self.errors.append(traceback.format_exc())
                return internal
            return 0

        return function
