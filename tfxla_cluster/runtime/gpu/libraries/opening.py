"""Finds NVIDIA's libraries: the copy that the process has already, as TensorFlow's, else NVIDIA's wheel's or the
system's."""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Iterator, Sequence
from pathlib import Path


def opened(names: Sequence[str]) -> ctypes.CDLL | None:
    """The library of one of these names, earlier ones first."""
    tries = [(name, os.RTLD_NOLOAD | os.RTLD_NOW) for name in names]
    tries += [(str(path), os.RTLD_NOW) for path in _wheels(names)]
    tries += [(name, os.RTLD_NOW) for name in names]
    for name, mode in tries:
        try:
            return ctypes.CDLL(name, mode=mode)
        except OSError:
            continue
    return None


def _wheels(names: Sequence[str]) -> Iterator[Path]:
    spec = importlib.util.find_spec("nvidia")
    for root in (spec.submodule_search_locations or ()) if spec else ():
        for name in names:
            yield from sorted(Path(root).glob(f"*/lib/{name}"))
