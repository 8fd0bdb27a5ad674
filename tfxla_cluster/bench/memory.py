"""How much memory a call takes at most: what Linux says of this process, or TensorFlow of a GPU."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from pathlib import Path

import tensorflow as tf

_CLEAR = Path("/proc/self/clear_refs")
_PEAK = "5"  # what clear_refs takes to set the greatest resident memory back to that of now (man 5 proc)


def peak(call: Callable[[], object], device: str) -> int | None:
    """Bytes by which memory grew at most during `call`: of TensorFlow's allocator on 'GPU:0', else resident memory
    of the process after idle memory was given back. None where the system does not tell."""
    if device.startswith("GPU"):
        tf.config.experimental.reset_memory_stats(device)
        before = tf.config.experimental.get_memory_info(device)["current"]
        call()
        return int(tf.config.experimental.get_memory_info(device)["peak"] - before)
    _give_back()
    try:
        _CLEAR.write_text(_PEAK)
    except OSError:
        return None
    before = _resident("VmRSS")
    result = call()  # kept alive until it is counted
    grown = max(_resident("VmHWM") - before, 0)
    del result
    return grown


def _give_back() -> None:
    """Free memory of this package's executions and of the C library to the system: else a call finds it there."""
    from ..runtime.cpu import executable

    executable.trim_memory()
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)


def _resident(field: str) -> int:
    found = re.search(rf"^{field}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0
