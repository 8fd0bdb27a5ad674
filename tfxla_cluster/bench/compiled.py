"""What a dump says of the modules that were compiled while a function was called first."""

from __future__ import annotations

import contextlib
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import flags, trace


@dataclass(frozen=True, slots=True)
class Compiled:
    """Of all modules. Milliseconds of lowering (trace included) and of compilation; bytes that kernels read and write
    and scalar operations that they do, by their shapes; kernels and how many are native. None where none was made:
    the function is not this package's, or was compiled before."""

    lower_ms: float
    compile_ms: float
    bytes: int
    operations: int
    kernels: int
    native: int


def watch(call: Callable[[], Any]) -> tuple[Any, Compiled | None]:
    """(what `call` returns, what was compiled meanwhile)."""
    with _dump() as directory:
        start = time.time()
        result = call()
        return result, _read(directory, start)


@contextlib.contextmanager
def _dump() -> Iterator[Path]:
    """The directory of the program's dump, else one for the time being."""
    if trace.directory():
        yield Path(trace.directory())
        return
    with tempfile.TemporaryDirectory() as name, flags.patch(xla_dump_to=name):
        yield Path(name)


def _read(directory: Path, start: float) -> Compiled | None:
    records = [record for path in directory.glob("trace.*.jsonl") for record in _lines(path)]
    made = [r for r in records if r["kind"] == "compile" and not r["hit"] and r["time"] >= start]
    if not made:
        return None
    costs = [r["costs"] for r in made]
    kernels = [kernel for r in made for kernel in _kernels(directory, r["id"])]
    return Compiled(
        sum(c.get(name, 0.0) for c in costs for name in ("trace", "lowering", "generic")),
        sum(c["compile"] for c in costs),
        sum(k.get("bytes", 0) for k in kernels),
        sum(k.get("flops", 0) for k in kernels),
        sum(r["kernels"] for r in made),
        sum(r["native"] for r in made),
    )


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _kernels(directory: Path, number: int) -> list[dict[str, Any]]:
    (path,) = directory.glob(f"*module_{number:04d}.*.kernels.json")
    found: list[dict[str, Any]] = json.loads(path.read_text())
    return found
