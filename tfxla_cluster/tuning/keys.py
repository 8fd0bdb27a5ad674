"""Keys of executables with the choices that are in them.

Which kernels a module has is known when it was compiled once: their fingerprints are kept under the module's own key,
in memory and in the store; what was chosen for each is then looked up, and is part of the key of the executable.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from ..codegen.kernel.choice import Choices, Chosen
from ..ir import guard
from ..runtime.cache import Key
from ..runtime.store import Store
from .session import UNSETTLED, Session, fingerprints

_KIND = "fusions"
_REMEMBERED = 10_000


class TunedKeys:
    """One a service."""

    def __init__(self) -> None:
        self._fusions: dict[Key, tuple[str, ...]] = {}

    def key(self, module: Key, choices: Choices, store: Store | None) -> Key | None:
        """The key of the module's executable; None where some kernel of it may still be tuned, or is not known."""
        if not isinstance(choices, Session):
            return module
        fusions = self._fusions[module] if module in self._fusions else _stored(module, store)
        if fusions is None:
            return None
        self._remember(module, fusions)
        settled = choices.settled(fusions)
        return None if settled is None else _with(module, settled)

    def learn(self, module: Key, choices: Choices, chosen: Iterable[Chosen], store: Store | None) -> Key:
        """The key of the executable that was just compiled."""
        if not isinstance(choices, Session):
            return module
        fusions = fingerprints(chosen)
        self._remember(module, fusions)
        if store is not None:
            store.put(module, _KIND, {"fingerprints": json.dumps(fusions).encode()})
        return _with(module, choices.settled(fusions) or ())

    def _remember(self, module: Key, fusions: tuple[str, ...]) -> None:
        self._fusions[module] = fusions
        if len(self._fusions) > _REMEMBERED:
            del self._fusions[next(iter(self._fusions))]


def _stored(module: Key, store: Store | None) -> tuple[str, ...] | None:
    sections = None if store is None else store.get(module, _KIND).sections
    if sections is None:
        return None
    try:
        return tuple(map(str, json.loads(sections["fingerprints"])))
    except (KeyError, ValueError, TypeError):
        return None


def _with(module: Key, settled: Iterable[str]) -> Key:
    """Where all kernels have their default form it is what is made without any tuning."""
    settled = tuple(settled)
    if all(word == UNSETTLED for word in settled):
        return module
    digest = hashlib.sha256("\n".join(settled).encode()).hexdigest()[:16]
    return (*module, *guard.facts({"choices": digest}))
