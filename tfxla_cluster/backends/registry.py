"""The backends by the names that `tfxla-exec --backend` knows, and by TensorFlow's device types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from ..decision import YES, Decision, no
from ..errors import UnsupportedError, UsageError
from . import cpu
from .backend import Backend, Launcher, NativeExecutable


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


def _gpu_of_number(number: int, any_order: bool) -> Backend[NativeExecutable]:
    from . import gpu

    return cast("Backend[NativeExecutable]", gpu.this_machine(number, any_order))  # of a GPU that is here


# TensorFlow's device type -> the backend whose executables the native op runs on the device of that number, and whether
# sums of scatters may be in any order.
FOR_DEVICES: Mapping[str, Callable[[int, bool], Backend[NativeExecutable]]] = {
    "CPU": lambda number, any_order: cpu.this_machine(),
    "GPU": _gpu_of_number,
}


def named(name: str) -> Backend[Launcher]:
    """The backend of that name; UsageError where there is none."""
    if name not in BACKENDS:
        raise UsageError(f"no backend is called '{name}'", f"Known: {', '.join(BACKENDS)}")
    return BACKENDS[name]()


def for_device(device: str, any_order: bool = False) -> Backend[NativeExecutable]:
    """The backend of a device: a TensorFlow device type, with `:N` device N of that type (CUDA's number of a GPU).
    `any_order`: as Target has it. UnsupportedError where there is none."""
    device_type, _, number = device.partition(":")
    if device_type not in FOR_DEVICES:
        raise UnsupportedError(f"no backend compiles for devices of type {device_type}")
    return FOR_DEVICES[device_type](int(number or 0), any_order)


def usable(device_type: str) -> Decision:
    """Can executables for devices of that type be made and run in this process?"""
    if device_type not in FOR_DEVICES:
        return no("device", f"no backend compiles for devices of type {device_type}")
    if device_type == "CPU":
        return YES
    from ..codegen.triton import workers
    from ..runtime.gpu.driver import available

    return workers.usable() and available()
