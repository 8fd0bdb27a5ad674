"""Named bytes kept under a key: in memory for this process, in the store of executables for others."""

from __future__ import annotations

from collections.abc import Mapping

from .. import trace
from ..ir.guard import fact_text
from ..options import StoreOptions
from .cache import Cache, Key
from .store import opened

_MOST = 64  # entries in memory
_LARGE = 4 << 20  # bytes: what is larger is in the store alone


class KeptSections:
    """Of one `kind`; thread safe."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._memory: Cache[Mapping[str, bytes]] = Cache(_MOST)

    def get(self, key: Key, options: StoreOptions | None) -> Mapping[str, bytes] | None:
        """What was put under the key; None for nothing."""
        found = self._memory.get(key)
        if found is not None:
            self._record("memory", True, key)
            return found
        store = opened(options)
        lookup = None if store is None else store.get(key, self._kind)
        if lookup is not None and lookup.sections is not None:
            self._record("disk", True, key)
            return self._remember(key, lookup.sections)
        self._record("memory" if lookup is None else "disk", False, key, lookup.reason if lookup else "not in memory")
        return None

    def put(
        self,
        key: Key,
        options: StoreOptions | None,
        sections: Mapping[str, bytes],
        about: Mapping[str, str] | None = None,
    ) -> None:
        """Keep them; in the store too where there is one. `about`: as Store.put has it."""
        self._remember(key, sections)
        store = opened(options)
        if store is not None:
            store.put(key, self._kind, sections, about)

    def clear(self) -> None:
        """Forget what is in memory."""
        self._memory.clear()

    def _remember(self, key: Key, sections: Mapping[str, bytes]) -> Mapping[str, bytes]:
        return sections if sum(map(len, sections.values())) > _LARGE else self._memory.put(key, sections)

    def _record(self, cache: str, hit: bool, key: Key, reason: str = "") -> None:
        if trace.wants("cache"):
            text = "; ".join(map(fact_text, key))
            trace.record("cache", cache=f"{self._kind} ({cache})", hit=hit, key=text, reason=reason)
