"""The C++ part of the native ops on a GPU, `gpu_context.cc`: compiled once a TensorFlow, kept in the user's cache.

TensorFlow's C API does not give the stream of its own GPU; its C++ headers, which come with the package, do.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import platformdirs
import tensorflow as tf

from ...errors import UnsupportedError
from .builder import GPU_API

SOURCE = Path(__file__).with_name("gpu_context.cc")
COMPILERS = ("g++", "c++", "clang++")
_FLAGS = ("-O2", "-fPIC", "-shared", "-w")
_REMEDY = "Install g++ (Debian and Ubuntu: apt install g++), or set CXX to a C++17 compiler"


@functools.cache
def addresses() -> Mapping[str, int]:
    """The functions of GPU_API by name; they stay loaded. UnsupportedError where they cannot be compiled or loaded."""
    path = library_file()
    try:
        loaded = ctypes.CDLL(str(path))
        return {name: ctypes.cast(loaded[name], ctypes.c_void_p).value or 0 for name in GPU_API}
    except (OSError, AttributeError) as error:
        raise UnsupportedError(f"{path} cannot be loaded: {error}", "Remove that file") from None


def library_file(directory: Path | None = None) -> Path:
    """The compiled library, made where it is not there yet; `directory`: of the cache (default the user's)."""
    flags = [*tf.sysconfig.get_compile_flags(), *_FLAGS, *tf.sysconfig.get_link_flags()]
    key = hashlib.sha256(repr((tf.__version__, flags)).encode() + SOURCE.read_bytes()).hexdigest()[:24]
    folder = directory or Path(platformdirs.user_cache_dir("tfxla_cluster"))
    target = folder / f"gpu_context-{key}.so"
    if not target.exists():
        _compile(target, flags)
    return target


def compiler() -> str:
    """The C++ compiler to use: CXX, or the first of COMPILERS that there is. UnsupportedError where there is none."""
    for name in filter(None, (os.environ.get("CXX"), *COMPILERS)):
        found = shutil.which(name)
        if found:
            return found
    raise UnsupportedError("there is no C++ compiler, which TensorFlow's stream on a GPU takes", _REMEDY)


def _compile(target: Path, flags: list[str]) -> None:
    """Beside the target, then renamed: another process sees all of it or nothing."""
    command = compiler()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            made = Path(folder, target.name)
            run = subprocess.run(
                [command, str(SOURCE), *flags, "-o", str(made)], capture_output=True, text=True, check=False
            )
            if run.returncode:
                said = next((line for line in run.stderr.splitlines() if "error" in line), run.stderr[-300:])
                raise UnsupportedError(f"{command} could not compile {SOURCE.name}: {said}", _REMEDY)
            made.replace(target)
    except OSError as error:
        raise UnsupportedError(f"{target} cannot be written: {error.strerror}", "Set XDG_CACHE_HOME") from None
