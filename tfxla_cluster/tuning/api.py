"""`tfxla_cluster.autotune`: tune what a function compiles to, and results as an object to keep, merge and put on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from .. import __version__, flags
from ..errors import InputFileError
from . import session
from .persisted import files
from .persisted.results import Entry, Key, Results
from .tables import PROCESS


class AutotuningResult:
    """What was tuned: `data`, an Entry a kernel by its Key; `device_kinds` it was measured on; `version` of the package
    that made it.

    As a context manager its choices come before all others for what is compiled in the block (of two the innermost's).
    `a | b` merges, `b` winning; `save`, `load` take a path or URL (text by suffix, as XLA's files); `dumps`, `loads`.
    """

    def __init__(self, data: Mapping[Key, Entry], version: str = __version__) -> None:
        self.data, self.version = Results(dict(data)), version
        self._worn: list[ExitStack] = []

    @property
    def device_kinds(self) -> tuple[str, ...]:
        return tuple(sorted({key.device for key in self.data}))

    def __or__(self, other: object) -> AutotuningResult:
        if not isinstance(other, AutotuningResult):
            return NotImplemented
        return AutotuningResult(self.data | other.data, other.version)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AutotuningResult):
            return NotImplemented
        return files.serialised(self.data, text=False) == files.serialised(other.data, text=False)

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self.data)

    def __enter__(self) -> AutotuningResult:
        stack = ExitStack()
        stack.enter_context(PROCESS.overlaid(self.data))
        self._worn.append(stack)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._worn.pop().close()

    def __repr__(self) -> str:
        return f"<{len(self)} autotuning results on {', '.join(self.device_kinds) or 'no device'}>"

    def save(self, path: str) -> None:
        """Merge into the file `path` (made where it is not there); OutputError where that cannot be done."""
        files.merge_into(path, self.data)

    @classmethod
    def load(cls, path: str) -> AutotuningResult:
        """The results in a file; InputFileError where it is missing or holds none."""
        return cls(files.read(path))

    def dumps(self) -> str:
        """As text."""
        return files.serialised(self.data, text=True).decode()

    @classmethod
    def loads(cls, text: str) -> AutotuningResult:
        """Of `dumps`; InputFileError where it is no such text."""
        try:
            return cls(files.parse(text.encode(), text=True))
        except ValueError as error:
            raise InputFileError(f"not autotuning results: {error}") from None


def autotune(
    fn: Callable[..., Any],
    *args: Any,
    kwargs: Mapping[str, Any] | None = None,
    ignore_cache: bool = False,
    progress_bar: bool = True,
    timeout: float = 600,
    max_workers: int | None = None,
) -> AutotuningResult:
    """Compile `fn(*args, **kwargs)` as `jit` does, run it once, and tune each distinct kernel of it.

    Kernels that have a result (of this process, or where the flags say) keep it, unless `ignore_cache`. timeout:
    seconds after which kernels keep their default form (0: none). max_workers: candidates compiled at once.
    The process goes on to use what was found; `fn` itself is compiled anew where it is called. Raises
    tf.errors.InvalidArgumentError where `fn` cannot be compiled.
    """
    from ..api import jit  # tensorflow is imported there

    workers = {} if max_workers is None else {"tfxla_compile_threads": max_workers}
    on = {"xla_gpu_autotune_level": 4, "tfxla_autotune": "on", "tfxla_autotune_progress": progress_bar, **workers}
    with flags.patch(**on), session.budget(timeout), PROCESS.noting(again=ignore_cache) as asked:
        jit(fn)(*args, **(kwargs or {}))
    known = PROCESS.known()
    return AutotuningResult({key: known[key] for key in sorted(asked) if key in known})
