"""What a module for many sizes was made from, kept between processes in the store of executables.

The next process makes the same module of the same two, proves it at the first size that it sees, and finds its machine
code in the store: nothing is compiled. What is read is proven as what is made, so that it cannot give a wrong number.
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import trace
from ..code_version import code_version
from ..errors import TfxlaError
from ..ir import guard, proto
from ..ir.node import Module
from ..options import StoreOptions
from .store import opened

KIND = "sizes"


class KeptModules:
    """Of the function `family` and modules of one `structure`; nothing is kept where `options` is None."""

    def __init__(self, options: StoreOptions | None, family: str, structure: str) -> None:
        self._store, self._family = opened(options), family
        self._key = guard.facts({"family": family, "structure": structure, "code": code_version()})

    def load(self) -> tuple[Module, ...]:
        """In the order in which they were kept; none where there is no entry, or one that cannot be read."""
        found = None if self._store is None else self._store.get(self._key, KIND).sections
        if not found:
            return ()
        try:
            return tuple(proto.read(found[str(number)]) for number in range(len(found)))
        except (TfxlaError, KeyError) as error:
            trace.record("store", event="unusable", reason=f"modules for sizes that vary cannot be read: {error}")
            return ()

    def save(self, modules: Sequence[Module]) -> None:
        """Instead of what was kept."""
        if self._store is not None:
            params = [", ".join(str(param.shape) for param in module.entry.params) for module in modules]
            sections = {str(n): proto.write(module) for n, module in enumerate(modules)}
            self._store.put(self._key, KIND, sections, {"function": self._family, "inputs": " and ".join(params)})
