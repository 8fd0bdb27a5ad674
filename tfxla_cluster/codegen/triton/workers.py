"""Processes that run Triton: a job is (source, arch), its answer `Artefacts`, or the text of what failed."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from ...errors import InternalError, UnsupportedError, UserKernelError
from ...target import Target
from .process_pool import Lost, ProcessPool, serve
from .triton_source import Artefacts, Rejected, TritonSource

POOL = ProcessPool(__name__)


def installed() -> bool:
    """Whether Triton is there, without importing it."""
    return importlib.util.find_spec("triton") is not None


def compile_sources(sources: Sequence[TritonSource], target: Target, count: int) -> list[Artefacts]:
    """What Triton makes of each source, in up to `count` processes at once.

    UnsupportedError where Triton is not installed; UserKernelError where it rejects a user's; InternalError where it
    fails otherwise: it does not with right source.
    """
    if not sources:
        return []
    if not installed():
        raise UnsupportedError("Triton is not installed", "pip install 'triton>=3.9'")
    with ThreadPoolExecutor(min(count, len(sources))) as threads:
        return list(threads.map(partial(_ask, target.arch), sources))


def _ask(arch: str, source: TritonSource) -> Artefacts:
    answer = POOL.ask((source, arch))
    if isinstance(answer, Artefacts):
        return answer
    if isinstance(answer, Rejected):
        raise UserKernelError(f"Triton rejects kernel {source.places[-1][0]}: {answer.message}", where=answer.where)
    said = "its process ended" if isinstance(answer, Lost) else answer
    raise InternalError(f"Triton does not compile {source.function}: {said}")


def _answer(job: tuple[TritonSource, str]) -> object:
    from .artefacts import compile_source, compile_users

    source, arch = job
    try:
        return (compile_users if source.places else compile_source)(source, arch)
    except Exception:  # noqa: BLE001 - the parent raises it
        return traceback.format_exc()


if __name__ == "__main__":
    serve(_answer, sys.argv[1:])
