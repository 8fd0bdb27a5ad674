"""A program in a process of its own that answers what it is asked: a line a question, a line of JSON an answer."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

from .errors import TfxlaError

FLAGS = ("TFXLA_FLAGS", "TF_XLA_FLAGS", "XLA_FLAGS")


class Child:
    """`module` run by this Python with `arguments`; `name` is what messages call it. `variables` are added to the
    environment, from which flags of this package and of XLA are taken away. `errors`: where its standard error goes,
    None: to that of this process."""

    def __init__(
        self,
        name: str,
        module: str,
        arguments: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
        errors: IO[str] | None = None,
    ) -> None:
        kept = {k: v for k, v in os.environ.items() if k not in FLAGS}
        kept.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        self.name = name
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**kept, **(variables or {})},
        )

    def ask(self, question: str) -> dict[str, Any]:
        """The answer; TfxlaError where the process ends without one."""
        self.send(question)
        return self.answer()

    def send(self, question: str) -> None:
        """Asks; `answer` waits."""
        with contextlib.suppress(BrokenPipeError):  # The process ended: the missing answer says so.
            print(question, file=self._stream(self._process.stdin), flush=True)

    def answer(self) -> dict[str, Any]:
        """The answer to what was sent; TfxlaError where the process ends without one."""
        line = self._stream(self._process.stdout).readline()
        if not line:
            raise TfxlaError(
                f"the {self.name} process ended with code {self._process.wait()} before it answered",
                "Its own message stands above",
            )
        found: dict[str, Any] = json.loads(line)
        return found

    def kill(self) -> None:
        """Ends the process at once, also from another thread while an answer is waited for."""
        self._process.kill()

    def wait(self) -> int:
        """The code that the process ended with, of a signal -N, once it has."""
        return self._process.wait()

    def close(self) -> None:
        """Ends the process by the end of its input; kills it where it does not end in two minutes."""
        with contextlib.suppress(BrokenPipeError):  # It ended, and what was sent last is still buffered.
            self._stream(self._process.stdin).close()
        try:
            self._process.wait(timeout=120)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stream(self._process.stdout).close()

    @staticmethod
    def _stream(stream: IO[str] | None) -> IO[str]:
        assert stream is not None
        return stream


def serve(answer: Callable[[str], Mapping[str, Any]]) -> None:
    """The child's side: answers the lines of standard input until it ends. What libraries print goes to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        print(json.dumps(answer(line.strip())), file=answers, flush=True)
