"""When a function is compiled no more (--tfxla_recompile_limit)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from . import flag_options
from .errors import RecompileLimitError
from .locks import ForkSafeLock

if TYPE_CHECKING:  # not at run time: `enable` may run within the import of tensorflow
    from .tf.compiler_port import CompileRequest

_REMEMBERED = 10_000  # functions: those that compiled first are forgotten
_REMEDIES = ("pad what varies to fewer sizes",)  # where the last compilation names none


@dataclass
class _Function:
    """modules: `rows.content` of each module that was compiled -> `CompileRequest.place` of the trace that it was
    compiled for. last: line that its traces begin at -> reason and remedies of the last compilation, as the record
    `compile` has them."""

    modules: dict[str, Callable[[], str | None]] = field(default_factory=dict)
    last: dict[str | None, tuple[str, Sequence[str]]] = field(default_factory=dict)

    def count(self, here: str | None) -> int:
        """Modules of traces that begin at this line; those of traces that are gone are forgotten."""
        places = {known: place() for known, place in self.modules.items()}
        for gone in [known for known, place in places.items() if place is None]:
            del self.modules[gone]
        return sum(place == here for place in places.values())


class RecompileLimit:
    """Executables by function of the program; thread safe."""

    def __init__(self) -> None:
        self._functions: dict[str, _Function] = {}
        self._lock = ForkSafeLock()

    @contextmanager
    def admitted(self, request: CompileRequest, content: str) -> Iterator[None]:
        """Around compiling a module of this `rows.content`, which counts from now on unless that fails.
        RecompileLimitError where the function has as many executables as it may have.

        Traces of one name are one function where they begin at one line of the program; those that TensorFlow has
        removed count no more. What was compiled before, for another trace or before it left memory, counts once.
        """
        limit, function, here = flag_options.recompile_limit(), self._of(request), request.place()
        with self._lock:
            is_new = content not in function.modules
            if is_new:
                count = function.count(here) if 0 < limit <= len(function.modules) else 0
                if limit and count >= limit:
                    raise _refusal(request, function, count, limit, here)
                function.modules[content] = request.place
        try:
            yield
        except BaseException:
            with self._lock:
                if is_new:
                    function.modules.pop(content, None)
            raise

    def note(self, request: CompileRequest, content: str, reason: str, remedies: Sequence[str]) -> None:
        """A module of this `rows.content` was compiled, for this reason, which these remedies would take away."""
        function = self._of(request)
        with self._lock:
            function.modules[content] = request.place
            function.last[request.place()] = reason, remedies

    def forget(self) -> None:
        """All executables are gone: as many may be compiled again."""
        with self._lock:
            self._functions.clear()

    def _of(self, request: CompileRequest) -> _Function:
        with self._lock:
            found = self._functions.setdefault(_name(request), _Function())
            if len(self._functions) > _REMEMBERED:
                del self._functions[next(iter(self._functions))]
            return found


def _refusal(
    request: CompileRequest, function: _Function, count: int, limit: int, here: str | None
) -> RecompileLimitError:
    what = f"{'a cluster of ' * (request.kind == 'cluster')}function {request.title or request.name}"
    reason, remedies = function.last.get(here, ("", ()))
    last = f" (the last one: {reason})" if reason else ""
    return RecompileLimitError(
        f"{what} has {count} executables, all that --tfxla_recompile_limit={limit} allows{last}",
        f"For fewer: {'; '.join(remedies or _REMEDIES)}; or raise the limit (0: none)",
        here or "",
        key=f"{_name(request)} at {here}",
    )


def _name(request: CompileRequest) -> str:
    return request.family or request.name
