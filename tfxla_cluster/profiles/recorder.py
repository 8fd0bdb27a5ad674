"""The profile of this process: what earlier runs left, and what is seen now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..locks import ForkSafeLock
from ..options import ProfileOptions
from .profile import FunctionProfile, Profile
from .store import ProfileStore, local_directory


class Recorder:
    """Thread safe. One for each job and place."""

    def __init__(self, options: ProfileOptions) -> None:
        self._lock = ForkSafeLock()
        self._store = ProfileStore(options.url or local_directory(), options.job, options.read_only)
        self._before = self._store.load()
        self._seen = Profile()

    def dynamic(self, function: str) -> Mapping[str, tuple[int, ...]]:
        """Input -> axes that had several sizes in earlier runs."""
        return self._before.functions.get(function, FunctionProfile()).dynamic()

    def note(self, function: str, inputs: Mapping[str, Iterable[int]], numbers: Mapping[str, int]) -> None:
        """Tensors of these dims and these Python integers came to the function; what is new is
        written at once, as processes are killed."""
        with self._lock:
            before = self._seen.functions.get(function, FunctionProfile())
            now = before.called(inputs, numbers)
            self._seen = Profile({**self._seen.functions, function: now})
        new = not (before.inputs or before.numbers) and function not in self._before.functions
        if new or (now.dynamic(), now.varying()) != (before.dynamic(), before.varying()):
            self.save()

    def reached(self, function: str, limit: str) -> None:
        """The function came to a limit (one of profile.FunctionProfile.limits); written at once where that is new."""
        with self._lock:
            before = self._seen.functions.get(function, FunctionProfile())
            if limit in before.limits:
                return
            now = before | FunctionProfile(limits=frozenset({limit}))
            self._seen = Profile({**self._seen.functions, function: now})
        self.save()

    def save(self) -> None:
        """Join what was seen into the file."""
        with self._lock:
            seen = self._seen
        if seen.functions:
            self._store.join(seen)
