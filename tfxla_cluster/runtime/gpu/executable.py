"""An executable on a GPU: a launch plan, its kernels on a device, laid out for `gpu_execute`."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Union

import numpy as np

from ...codegen.kernel.code import Code
from ...decision import no
from ...errors import InternalError, TfxlaError, UnsupportedError
from ...held import Held
from ...ir.dim import Dim, make
from ...ir.shape import Shape
from ...options import ALL_EXECUTIONS
from .. import random_state
from ..cpu import native as cpu_native
from ..launcher import opened, records
from ..launcher.encode import Runs, encode
from ..launcher.opened import Opened
from ..launcher.record_layout import RECORD
from ..launcher.step_times import StepTimes
from ..plan import KernelStep, LaunchPlan, LibraryStep, walk
from . import driver as drivers
from . import loaded, native
from .driver import Device, Driver
from .graphs import Graphs, can_capture
from .libraries import cublaslt, cudnn, on_device
from .libraries.on_device import OnDevice
from .prepared import Prepared
from .record_layout import GPU_RECORD, STATUS_CONVOLUTION, STATUS_CUDA, STATUS_PRODUCT, STATUS_TOO_LARGE


class Executable(Opened["_Body"]):
    """Runs `plan` on the GPU `device`.

    `entry` is the address of `int32 gpu_execute(void* record, void** inputs, void** outputs, int64* sizes,
    int64* launch)`: inputs and outputs are device pointers, `launch` is laid out as record_layout.LAUNCH. Any number of
    threads may call it, with no GIL; it returns before the device is done. Returns 0 or what `status_error` explains.
    `sizes` holds one number for each of plan.sizes; those that an instruction produces are written back to it.

    `captured`: whether executions are CUDA graphs, which plans of at least `least_graph` kernels and copies are that
    need nothing from the host. The first `timed` never are: their steps are timed. `libraries`: those that the plan
    calls, this process's otherwise.

    UnsupportedError where there is no such GPU, or no library that the plan calls; MemoryError where it has no room for
    the constants.
    """

    def __init__(
        self,
        plan: LaunchPlan,
        code: Code,
        device: int = 0,
        timed: int = 0,
        driver: Driver | None = None,
        least_graph: int = 0,
        libraries: OnDevice | None = None,
    ) -> None:
        self._driver = driver or drivers.driver()
        self.device = self._driver.device(device)
        always = timed == ALL_EXECUTIONS
        self.captured = no("graph-timed", "its steps are timed") if always else can_capture(plan, least_graph)
        runs = _runs(plan, code, self.device, libraries)
        body = _Body(plan, runs, self.device, timed, bool(self.captured))
        launcher = native.launcher()
        self._call = _ENTRY_TYPE(launcher.execute)
        super().__init__(plan, body, launcher.execute, launcher.retire)

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run on NumPy arrays, by memory and stream of its own; UsageError where one does not fit, MemoryError,
        TfxlaError where the driver says so."""
        with self.prepare(arrays) as prepared:
            prepared.launch()
            return prepared.results()

    def hold(self, literals: Sequence[bytes]) -> tuple[Held, ...]:
        """As backends.backend.NativeExecutable: in the device's memory, whole once this returns."""
        return tuple(Held(constant.address, constant) for constant in loaded.constants(self.device, literals))

    def prepare(self, arrays: Sequence[np.ndarray]) -> Prepared:
        """These inputs on the device, to be run on any number of times."""
        return Prepared(self.plan, self.device, self.launch, arrays)

    def launch(self, inputs: int, outputs: int, sizes: int, launch: int) -> None:
        """Call the entry (addresses of its arguments); raises as `run`."""
        status = self._call(self.record, inputs, outputs, sizes, launch)
        if status:
            raise status_error(status, self.plan.name, self._driver)

    def graphs(self) -> dict[str, int]:
        """Executions by how they used CUDA graphs, as graphs.Graphs.counts; empty where `captured` says no."""
        body = self._body()
        return {} if body is None or body.graphs is None else body.graphs.counts()


def status_error(status: int, name: str, driver: Driver | None = None) -> Exception:
    """The exception for a status that is not 0; `driver` gives the text of a CUDA error, this process's otherwise."""
    if status <= STATUS_CONVOLUTION:
        return TfxlaError(f"{name} on the GPU: a convolution failed: {cudnn.text(STATUS_CONVOLUTION - status)}")
    if status <= STATUS_PRODUCT:
        return TfxlaError(f"{name} on the GPU: a product failed: {cublaslt.text(STATUS_PRODUCT - status)}")
    if status <= STATUS_CUDA:
        text = (driver or drivers.driver()).text(STATUS_CUDA - status)
        return TfxlaError(f"{name} on the GPU: {text}")
    if status == STATUS_TOO_LARGE:
        return UnsupportedError(f"a kernel of {name} needs more blocks than a GPU takes at once")
    return opened.status_error(status, name)


class _Body:
    """A records.Body of a GPU."""

    def __init__(
        self, plan: LaunchPlan, runs: Mapping[_RunKey, Runnable], device: Device, timed: int, captured: bool
    ) -> None:
        self.graphs = Graphs(plan, device) if captured else None
        self.plan, self.device = plan, device
        self._runs = runs
        self.encoded = encode(plan, self._address, [_bytes(shape) for shape in plan.inputs])
        self._constants = loaded.constants(device, plan.constants)
        self._constant_table = np.array([c.address for c in self._constants] or [0], np.int64)
        self._input_bytes = np.array(self.encoded.extra or [0], np.int64)
        self.times = StepTimes(self.encoded.timed, timed) if timed else None

    def _address(self, step: Runs) -> int:
        return self._runs[_key(step)].address

    def words(self) -> dict[int, int]:
        arguments = self.encoded.argument_words + 2  # of a launch: Triton's scratch pointers too
        parameters_word = len(self.encoded.values) + arguments
        inputs_word = parameters_word + arguments
        key_word = inputs_word + len(self.plan.inputs)
        fields = {
            **records.program_fields(self.encoded, self.plan),
            "front_words": key_word + 1 + len(self.plan.sizes) + len(self.plan.inputs) + len(self.plan.outputs),
            "constants": self._constant_table.ctypes.data,
            "timings": 0 if self.times is None else self.times.address,
        }
        gpu_fields = {
            "driver": self.device.driver.table.ctypes.data,
            "context": self.device.context,
            "host_slots": self.device.host_slots.ctypes.data,
            "parameters_word": parameters_word,
            "inputs_word": inputs_word,
            "input_count": len(self.plan.inputs),
            "input_bytes": self._input_bytes.ctypes.data,
            "output_count": len(self.plan.outputs),
            "graphs": 0 if self.graphs is None else self.graphs.words.ctypes.data,
            "key_word": key_word,
            "capture_streams": self.device.capture_streams.ctypes.data,
        }
        words = {RECORD[name]: value for name, value in fields.items()}
        return words | {GPU_RECORD[name]: value for name, value in gpu_fields.items()}


Runnable = Union[loaded.Kernel, loaded.Routine, loaded.LibraryCall]
_RunKey = tuple[str, object]


def _key(step: Runs) -> _RunKey:
    """Steps of equal keys run the same; kernels of equal symbols have equal params."""
    return (step.symbol, ()) if isinstance(step, KernelStep) else (step.routine, step.params)


def _runs(plan: LaunchPlan, code: Code, device: Device, libraries: OnDevice | None) -> dict[_RunKey, Runnable]:
    """What the steps run."""
    modules = loaded.modules(device, code.objects)
    found: dict[_RunKey, Runnable] = {}
    for step in walk(plan.steps):
        if isinstance(step, KernelStep) and _key(step) not in found:
            params = dict(step.params)
            if not 0 <= params.get("object", -1) < len(modules):
                raise InternalError(f"no cubin for '{step.symbol}', which {step.instr or 'a step'} calls")
            found[_key(step)] = loaded.Kernel(device, modules[params["object"]], params)
        elif isinstance(step, LibraryStep) and _key(step) not in found:
            found[_key(step)] = _library(step, device, libraries)
    return found


def _library(step: LibraryStep, device: Device, libraries: OnDevice | None) -> Runnable:
    if step.routine in on_device.ROUTINES:
        return loaded.LibraryCall((libraries or on_device.of(device)).call(step.routine, step.params))
    address = cpu_native.runtime().routines.get(step.routine)
    if address is None:
        raise InternalError(f"no library routine '{step.routine}', which {step.instr or 'a step'} calls")
    return loaded.Routine(address, random_state.RESULT_BYTES)


def _bytes(shape: Shape) -> Dim:
    total: Dim = shape.element_type.numpy.itemsize
    for dim in shape.dims:
        total = make("mul", total, dim)
    return total


_ENTRY_TYPE = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 5)
