"""Device types: which have a backend, and whether what lies on a device may be compiled.

TensorFlow places a graph before its optimizer runs: there a node carries a full name
(`/job:localhost/replica:0/task:0/device:GPU:0`). In a function that the graph calls it carries what the program
asked for, often nothing. What is on a device without a backend stays TensorFlow's.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import NamedTuple

from tensorflow.python.eager import context
from tensorflow.python.framework import device as tf_device

from .. import trace
from ..decision import YES, Decision, no

BACKENDS: Mapping[str, str] = {"CPU": "cpu"}
"""Device type -> the backend that compiles for it. The native ops have kernels for these types only."""

HOST = "CPU"


def device_of(number: int) -> str:
    """The name under which the compiler knows a device: HOST, or `GPU:N` of the GPU that CUDA numbers so."""
    return HOST if number < 0 else f"GPU:{number}"


_LOCALHOST = ("localhost", 0)
_NEVER_CHOSEN = ("XLA_", "TPU_SYSTEM")
"""Types (by their beginnings) on which TensorFlow places nothing that does not ask for them."""


class Place(NamedTuple):
    """A parsed device name. `task`: (job, number), None where the name has no job; `type` '' where it has none."""

    task: tuple[str, int] | None
    type: str
    number: int

    @property
    def target(self) -> str:
        """The device type to compile for; what has no device is on the host."""
        return self.type or HOST


class Machine(NamedTuple):
    """The devices of this process: their types without a backend, and its own task in a cluster."""

    missing: tuple[str, ...]
    task: tuple[str, int]


@functools.lru_cache(maxsize=4096)
def place_of(device: str) -> Place:
    """The parts of a device name, or of a part of one ('' too). Raises ValueError where it is none."""
    spec = tf_device.DeviceSpec.from_string(device)
    task = None if spec.job is None else (spec.job, spec.task or 0)
    return Place(task, (spec.device_type or "").upper(), spec.device_index or 0)


def local_types() -> list[str]:
    """The types of the devices of TensorFlow's eager runtime, which starts if it has not."""
    return [device.device_type for device in context.context().list_logical_devices()]


class _Known:
    """The machine as TensorFlow last listed its devices; the list is a new object whenever it changes."""

    devices: object = None
    machine = Machine((), _LOCALHOST)


def machine() -> Machine:
    """What this process has now."""
    ctx = context.context()
    listed = getattr(ctx, "_logical_devices", None)  # missing before the runtime starts
    if listed is None or listed is not _Known.devices:
        types = {t for t in local_types() if not t.startswith(_NEVER_CHOSEN)}
        server = ctx.get_server_def() or ctx._collective_ops_server_def
        task = (server.job_name, server.task_index) if server is not None else _LOCALHOST
        _Known.machine = Machine(tuple(sorted(types - BACKENDS.keys())), task)
        _Known.devices = getattr(ctx, "_logical_devices", None)
    return _Known.machine


def decide(device: str) -> Decision:
    """May what carries this device name ('' for none) be compiled, as a node of a graph or an eager call?

    Where every device has a backend the type does not count: TensorFlow itself replaces a device that it lacks.
    """
    return _decide(device, machine())


@functools.lru_cache(maxsize=4096)
def _decide(device: str, here: Machine) -> Decision:
    place = place_of(device)
    if place.task is not None and place.task not in (here.task, _LOCALHOST):
        return no("task", f"it is placed on /job:{place.task[0]}/task:{place.task[1]}, which is another process")
    if not here.missing or place.type in BACKENDS:
        return YES
    if place.type:
        return no(
            "device",
            f"it is placed on {place.type}:{place.number}, and there is no backend for {place.type} devices yet",
        )
    return no("device", f"it asks for no device and may be placed on one without a backend ({', '.join(here.missing)})")


def say_left(reason: str) -> None:
    """Say, once a reason, that TensorFlow keeps a function or an operation for where it lies."""
    trace.once(f"device:{reason}", f"left to TensorFlow, as all that is placed so: {reason}")


def has_missing() -> bool:
    """Has this process a device without a backend? Then each node and call has to be looked at."""
    return bool(machine().missing)
