"""Processes that run Triton: a job is (source, arch), its answer `Artefacts`, or the text of what failed."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import PackageNotFoundError, version

from ...decision import YES, Decision, no
from ...errors import KernelError, UnsupportedError, UserKernelError
from ...target import Target
from .process_pool import Lost, ProcessPool, serve
from .triton_source import Artefacts, Rejected, TritonSource

POOL = ProcessPool(__name__)
OLDEST = (3, 9)  # 3.6 silently compiles some products and attention to wrong numbers
REMEDY = "pip install 'triton>=3.9'"


def usable() -> Decision:
    """Is there a Triton whose code can be trusted? Asked without importing it."""
    try:
        found = version("triton")
    except PackageNotFoundError:
        return no("triton", f"Triton is not installed ({REMEDY})")
    if tuple(map(int, re.findall(r"\d+", found)[:2])) < OLDEST:
        return no("triton", f"Triton {found} is installed, and older ones than 3.9 make wrong code ({REMEDY})")
    return YES


def compile_sources(sources: Sequence[TritonSource], target: Target, count: int) -> list[Artefacts]:
    """What Triton makes of each source, in up to `count` processes at once.

    UnsupportedError where no usable Triton is installed; UserKernelError where it rejects a user's; KernelError, by
    the function's name, where it fails otherwise: it does not with right source.
    """
    if not sources:
        return []
    decision = usable()
    if not decision:
        raise UnsupportedError(decision.reason)
    with ThreadPoolExecutor(min(count, len(sources))) as threads:
        return list(threads.map(partial(_ask, target.arch), sources))


def _ask(arch: str, source: TritonSource) -> Artefacts:
    answer = POOL.ask((source, arch))
    if isinstance(answer, Artefacts):
        return answer
    if isinstance(answer, Rejected):
        raise UserKernelError(f"Triton rejects kernel {source.places[-1][0]}: {answer.message}", where=answer.where)
    said = "its process ended" if isinstance(answer, Lost) else str(answer)
    last = said.strip().splitlines()[-1]
    raise KernelError(f"Triton does not compile {source.function}: {last}", frozenset({source.function})) from (
        RuntimeError(said)
    )


def _answer(job: tuple[TritonSource, str]) -> object:
    from .artefacts import compile_source, compile_users

    source, arch = job
    try:
        return (compile_users if source.places else compile_source)(source, arch)
    except Exception:  # noqa: BLE001 - the parent raises it
        return traceback.format_exc()


if __name__ == "__main__":
    serve(_answer, sys.argv[1:])
