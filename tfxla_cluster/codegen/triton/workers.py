"""Processes that run Triton: a job is a pickled (source, arch), its answer `Artefacts`, or the text of what failed."""

from __future__ import annotations

import importlib.util
import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from queue import SimpleQueue

from ...errors import InternalError, UnsupportedError
from ...target import Target
from .triton_source import Artefacts, TritonSource

Process = subprocess.Popen[bytes]


def installed() -> bool:
    """Whether Triton is there, without importing it."""
    return importlib.util.find_spec("triton") is not None


def compile_sources(sources: Sequence[TritonSource], target: Target, count: int) -> list[Artefacts]:
    """What Triton makes of each source, in up to `count` processes at once.

    UnsupportedError where Triton is not installed; InternalError where it fails: it does not with right source.
    """
    if not installed():
        raise UnsupportedError("Triton is not installed", "pip install 'triton>=3.9'")
    count = min(count, len(sources))
    idle: SimpleQueue[Process] = SimpleQueue()
    with _processes(count) as processes, ThreadPoolExecutor(max(count, 1)) as pool:
        for process in processes:
            idle.put(process)
        return list(pool.map(partial(_ask, idle, target.arch), sources))


@contextmanager
def _processes(count: int) -> Iterator[list[Process]]:
    """They end with the block, whatever they are at."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment.pop("TFXLA_FLAGS", None)
    command = [sys.executable, "-m", __name__]
    with ExitStack() as ends:
        found: list[Process] = []
        for _ in range(count):
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
            ends.callback(_end, process)
            found.append(process)
        yield found


def _end(process: Process) -> None:
    process.kill()
    process.communicate()


def _ask(idle: SimpleQueue[Process], arch: str, source: TritonSource) -> Artefacts:
    process = idle.get()
    try:
        answer = _exchange(process, (source, arch))
    finally:
        idle.put(process)
    if isinstance(answer, Artefacts):
        return answer
    raise InternalError(f"Triton does not compile {source.function}: {answer}")


def _exchange(process: Process, job: tuple[TritonSource, str]) -> object:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        pickle.dump(job, process.stdin)
        process.stdin.flush()
        return pickle.load(process.stdout)
    except (EOFError, OSError):
        return "its process ended"


def main() -> None:
    """Answers jobs until standard input ends; whatever is printed goes to standard error."""
    from .artefacts import compile_source

    answers, sys.stdout = sys.stdout.buffer, sys.stderr
    while True:
        try:
            job = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer: object = compile_source(*job)
        except Exception:  # noqa: BLE001 - the parent raises it
            answer = traceback.format_exc()
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    main()
