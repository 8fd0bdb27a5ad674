"""The backends by the names that `tfxla-exec --backend` knows, and by TensorFlow's device types."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..errors import UnsupportedError, UsageError
from ..runtime.cpu.executable import Executable
from . import cpu
from .backend import Backend, Launcher


def _gpu() -> Backend[Launcher]:
    from ..runtime.gpu.driver import available  # not at the start of every process
    from . import gpu

    return gpu.this_machine() if available() else gpu.described()


def _interpreter() -> Backend[Launcher]:
    from . import interpreter  # not at the start of every process

    return interpreter.this_machine()


BACKENDS: Mapping[str, Callable[[], Backend[Launcher]]] = {
    "cpu": cpu.this_machine,
    "gpu": _gpu,
    "interpreter": _interpreter,
}
# TensorFlow's device type -> the backend whose executables the native op runs there.
FOR_DEVICES: Mapping[str, Callable[[], Backend[Executable]]] = {"CPU": cpu.this_machine}


def named(name: str) -> Backend[Launcher]:
    """The backend of that name; UsageError where there is none."""
    if name not in BACKENDS:
        raise UsageError(f"no backend is called '{name}'", f"Known: {', '.join(BACKENDS)}")
    return BACKENDS[name]()


def for_device(device_type: str) -> Backend[Executable]:
    """The backend of a TensorFlow device type; UnsupportedError where there is none."""
    if device_type not in FOR_DEVICES:
        raise UnsupportedError(f"no backend compiles for devices of type {device_type}")
    return FOR_DEVICES[device_type]()
