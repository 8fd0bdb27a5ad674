"""Where TensorFlow's profiler takes what ran when, for the runtime: each kernel stands in profiles by name."""

from __future__ import annotations

import ctypes

import tensorflow as tf

# What the runtime needs -> where TensorFlow's framework library (and the C++ library it is linked with) has it.
_SYMBOLS = {
    "level": "_ZN3tsl8profiler8internal13g_trace_levelE",
    "record": "_ZN3tsl8profiler15TraceMeRecorder6RecordEONS1_5EventE",
    "allocate": "_Znwm",
}


def addresses() -> dict[str, int]:
    """By what steps are recorded (runtime.cpu.profiler.WORDS); none where this TensorFlow has another recorder."""
    library = ctypes.CDLL(f"{tf.sysconfig.get_lib()}/libtensorflow_framework.so.2")
    try:
        return {
            word: ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value or 0 for word, symbol in _SYMBOLS.items()
        }
    except AttributeError:
        return {}
