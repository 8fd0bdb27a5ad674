"""Device types: which have a backend here, and whether what lies on a device may be compiled.

TensorFlow places a graph before its optimizer runs: there a node carries a full name
(`/job:localhost/replica:0/task:0/device:GPU:0`). In a function that the graph calls it carries what the program
asked for, often nothing. What is on a device without a backend stays TensorFlow's.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from typing import ClassVar, NamedTuple

from tensorflow.python.eager import context
from tensorflow.python.framework import device as tf_device

from .. import trace
from ..decision import YES, Decision, no

BACKENDS: Mapping[str, str] = {"CPU": "cpu", "GPU": "gpu"}
"""Device type -> the backend that compiles for it. That of HOST is always there, another where `offer` says how."""

HOST = "CPU"


def device_of(number: int) -> str:
    """The name under which the compiler knows a device: HOST, or `GPU:N` of the GPU that CUDA numbers so."""
    return HOST if number < 0 else f"GPU:{number}"


class _Offers:
    """How each backend but the host's is made ready, and what came of it."""

    lock = threading.RLock()
    ways: ClassVar[dict[str, Callable[[], Decision]]] = {}
    decisions: ClassVar[dict[str, Decision]] = {}


def offer(device_type: str, make_ready: Callable[[], Decision]) -> None:
    """`make_ready()` is asked once, when this process first has a device of that type: can we compile and run there?"""
    with _Offers.lock:
        _Offers.ways[device_type] = make_ready


def backend(device_type: str) -> Decision:
    """Has this process a backend for devices of that type? Making it ready may take seconds the first time."""
    if device_type == HOST:
        return YES
    with _Offers.lock:
        if device_type not in _Offers.decisions:
            way = _Offers.ways.get(device_type)
            found = way() if way else no("device", "")
            why = f" ({found.reason})" if found.reason else ""
            _Offers.decisions[device_type] = (
                YES if found else no("device", f"there is no backend for {device_type} devices{why}")
            )
        return _Offers.decisions[device_type]


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


def host_of(device: str) -> str:
    """The CPU of the task that a device belongs to."""
    if place_of(device).target == HOST:
        return device
    return str(tf_device.DeviceSpec.from_string(device).replace(device_type=HOST, device_index=0).to_string())


def local_types() -> list[str]:
    """The types of the devices of TensorFlow's eager runtime, which starts if it has not."""
    return [device.device_type for device in context.context().list_logical_devices()]


class _Known:
    """The machine as TensorFlow last listed its devices; the list is a new object whenever it changes."""

    devices: object = None
    machine = Machine((), _LOCALHOST)
    has_others = False


def machine() -> Machine:
    """What this process has now."""
    ctx = context.context()
    listed = getattr(ctx, "_logical_devices", None)  # missing before the runtime starts
    if listed is None or listed is not _Known.devices:
        types = {t for t in local_types() if not t.startswith(_NEVER_CHOSEN)}
        server = ctx.get_server_def() or ctx._collective_ops_server_def
        task = (server.job_name, server.task_index) if server is not None else _LOCALHOST
        _Known.machine = Machine(tuple(sorted(t for t in types if not backend(t))), task)
        _Known.has_others = bool(types - {HOST} - set(_Known.machine.missing))
        _Known.devices = getattr(ctx, "_logical_devices", None)
    return _Known.machine


def has_accelerator() -> bool:
    """Has this process a device besides the host's that we compile for?"""
    machine()
    return _Known.has_others


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
    found = backend(place.type) if here.missing and place.type else YES
    if not found:
        return no("device", f"it is placed on {place.type}:{place.number}, and {found.reason}")
    if place.type or not here.missing:
        return YES
    return no("device", f"it asks for no device and may be placed on one without a backend ({', '.join(here.missing)})")


def say_left(reason: str) -> None:
    """Say, once a reason, that TensorFlow keeps a function or an operation for where it lies."""
    trace.once(f"device:{reason}", f"left to TensorFlow, as all that is placed so: {reason}")


def has_missing() -> bool:
    """Has this process a device without a backend? Then each node and call has to be looked at."""
    return bool(machine().missing)
