"""Convolutions by cuDNN: which engines it has for one, and the words by which machine code calls it.

An operation in a graph of its own; an engine's plan for it is made when the plan is loaded. Each call names the
addresses of the arrays in a variant pack.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from ....codegen.kernel.library_convolution import (
    BY_IMAGE,
    BY_WINDOW,
    CUDNN_TYPES,
    FORWARD,
    Convolution,
    Engine,
    version_text,
)
from ....errors import TfxlaError
from .. import native
from ..driver import Device
from ..record_layout import CONVOLUTION
from . import cudnn
from .cudnn import (
    DATA_TYPE,
    DESCRIPTOR,
    DOUBLE,
    FLOAT,
    HANDLE,
    HEUR_MODE,
    INT64,
    KNOB_TYPE,
    MODE,
    NOTE,
    Cudnn,
    Descriptor,
)

MOST_ENGINES = 8  # that are offered for a convolution
WORKSPACE_BYTES = 256 << 20  # at most
_ALIGNED = 16  # bytes that the launcher's buffers are sure to lie at multiples of
_HEURISTIC_A, _CROSS_CORRELATION = 3, 1
_OPERATIONS = {FORWARD: cudnn.FORWARD, BY_IMAGE: cudnn.BY_IMAGE, BY_WINDOW: cudnn.BY_WINDOW}
# Attributes of each operation: factors of the result and of what was there, the convolution, and (image, window,
# output), which are tensors 1, 2, 3.
_ATTRIBUTES = {
    FORWARD: (700, 701, 702, (704, 703, 705)),
    BY_IMAGE: (706, 707, 708, (710, 709, 711)),
    BY_WINDOW: (712, 713, 714, (716, 715, 717)),
}
# Operand 0, operand 1 and the result, as these tensors.
IDENTIFIERS = {FORWARD: (1, 2, 3), BY_IMAGE: (3, 2, 1), BY_WINDOW: (1, 3, 2)}
# cudnnBackendNumericalNote_t that no engine of ours may have: sums in narrower types, transforms, sums whose order
# changes; and those that exact f32 may not have.
_NEVER, _NOT_EXACT = {2, 3, 4, 5, 6, 7, 8}, {0, 1}
_NOTES = 16
_KNOBS = 64  # of an engine, at most


class Convolutions:
    """A library.Library of a device."""

    def __init__(self, device: Device, library: Cudnn) -> None:
        self._device, self._library = device, library
        self._lock = np.zeros(1, np.int64)  # 1 while a thread has the handle, of Python or of machine code

    @functools.cached_property
    def _handle(self) -> int:
        """For ever, as the device's context; asked for by who has the lock."""
        return self._library.handle()

    @contextmanager
    def _builds(self) -> Iterator[None]:
        """The handle is this thread's: it serves one at a time, and others may execute meanwhile."""
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(native.launcher().take)(self._lock.ctypes.data)
        try:
            with self._device.current():
                yield
        finally:
            self._lock[0] = 0

    @property
    def version(self) -> int:
        return self._library.version

    def algorithms(self, work: Convolution) -> Sequence[Engine]:
        with self._builds():
            try:
                graph = self._graph(work)
                named = Descriptor(
                    self._library, cudnn.HEURISTIC, ((201, DESCRIPTOR, [graph]), (200, HEUR_MODE, [_HEURISTIC_A]))
                ).finalized()
                configs = named.fill(202, cudnn.ENGINE_CONFIG, 2 * MOST_ENGINES)
            except TfxlaError:
                return ()
            return list(self._usable(graph, work, configs))[:MOST_ENGINES]

    def _usable(self, graph: Descriptor, convolution: Convolution, configs: Sequence[Descriptor]) -> Iterator[Engine]:
        for config in configs:
            try:
                (engine,) = config.fill(300, cudnn.ENGINE, 1)
                knobs = [(one.get(600, KNOB_TYPE)[0], one.get(601, INT64)[0]) for one in _knobs(config)]
                made = Engine(self.version, 0, engine.get(1301, INT64)[0], tuple(sorted(knobs)), convolution.result)
                workspace = self._plan(graph, made).get(402, INT64)[0]
            except TfxlaError:
                continue
            notes = set(engine.get(1303, NOTE, _NOTES))
            if notes & _forbidden(convolution) or workspace > WORKSPACE_BYTES:
                continue
            yield replace(made, workspace=workspace)

    def refusal(self, work: Convolution, algorithm: Engine) -> str:
        engine = algorithm
        if engine.version != self.version:
            made_by, here = version_text(engine.version), version_text(self.version)
            return f"it is an engine of cuDNN {made_by}, and this is {here}"
        with self._builds():
            try:
                workspace = self._plan(self._graph(work), engine).get(402, INT64)[0]
            except TfxlaError:
                return "cuDNN does not do this convolution by this engine"
        if not 0 <= engine.workspace <= WORKSPACE_BYTES:
            return f"{engine.workspace} bytes are no workspace: it has from 0 to {WORKSPACE_BYTES}"
        return "" if workspace <= engine.workspace else f"the engine takes {workspace} bytes of workspace"

    def call(self, convolution: Convolution, engine: Engine) -> Call:
        """One convolution, to be called any number of times."""
        with self._builds():
            plan = self._plan(self._graph(convolution), engine)
            return Call(self._library, self._handle, self._lock, plan, convolution, engine)

    def _graph(self, convolution: Convolution) -> Descriptor:
        operation = _operation(self._library, convolution)
        attributes = ((801, DESCRIPTOR, [operation]), (800, HANDLE, [self._handle]))
        return Descriptor(self._library, cudnn.GRAPH, attributes).finalized()

    def _plan(self, graph: Descriptor, engine: Engine) -> Descriptor:
        made = Descriptor(self._library, cudnn.ENGINE, ((1300, DESCRIPTOR, [graph]), (1301, INT64, [engine.number])))
        knobs = [
            Descriptor(self._library, cudnn.KNOB, ((600, KNOB_TYPE, [kind]), (601, INT64, [value]))).finalized()
            for kind, value in engine.knobs
        ]
        config = Descriptor(self._library, cudnn.ENGINE_CONFIG, ((300, DESCRIPTOR, [made.finalized()]),))
        if knobs:
            config.set(302, DESCRIPTOR, knobs)
        attributes = ((400, HANDLE, [self._handle]), (401, DESCRIPTOR, [config.finalized()]))
        return Descriptor(self._library, cudnn.PLAN, attributes).finalized()


def _knobs(config: Descriptor) -> list[Descriptor]:
    return config.fill(302, cudnn.KNOB, _KNOBS)


def _forbidden(convolution: Convolution) -> set[int]:
    exact = convolution.dtype == CUDNN_TYPES["f32"] and not convolution.tf32
    return _NEVER | _NOT_EXACT if exact else _NEVER


def _operation(library: Cudnn, c: Convolution) -> Descriptor:
    wide = c.dtype == CUDNN_TYPES["f64"]
    computed = CUDNN_TYPES["f64" if wide else "f32"]
    how = Descriptor(
        library,
        cudnn.CONVOLUTION,
        (
            (100, DATA_TYPE, [computed]),
            (101, MODE, [_CROSS_CORRELATION]),
            (106, INT64, [2]),
            (102, INT64, [c.dilation_high, c.dilation_wide]),
            (103, INT64, [c.stride_high, c.stride_wide]),
            (105, INT64, [c.pad_top, c.pad_left]),
            (104, INT64, [c.pad_bottom, c.pad_right]),
        ),
    ).finalized()
    extents = (
        (c.batch, c.channels, c.height, c.width),
        (c.out_channels, c.channels, c.taps_high, c.taps_wide),
        (c.batch, c.out_channels, c.out_height, c.out_width),
    )
    made = IDENTIFIERS[c.kind][2]
    tensors = [_tensor(library, n, c.result if n == made else c.dtype, sizes) for n, sizes in enumerate(extents, 1)]
    one, zero, convolved, places = _ATTRIBUTES[c.kind]
    factor = DOUBLE if wide else FLOAT
    operation = Descriptor(library, _OPERATIONS[c.kind], ((one, factor, [1.0]), (zero, factor, [0.0])))
    for name, value in zip((convolved, *places), (how, *tensors)):
        operation.set(name, DESCRIPTOR, [value])
    return operation.finalized()


def _tensor(library: Cudnn, number: int, dtype: int, extents: tuple[int, int, int, int]) -> Descriptor:
    """Extents by batch, channel, height and width; it lies with the channels innermost."""
    _, channels, height, width = extents
    steps = [height * width * channels, 1, width * channels, channels]
    attributes = (
        (906, INT64, [number]),
        (901, DATA_TYPE, [dtype]),
        (902, INT64, extents),
        (903, INT64, steps),
        (900, INT64, [_ALIGNED]),
    )
    return Descriptor(library, cudnn.TENSOR, attributes).finalized()


class Call:
    """The words of CONVOLUTION, at `address`."""

    word = "convolution"  # of KERNEL

    def __init__(
        self, library: Cudnn, handle: int, lock: np.ndarray, plan: Descriptor, convolution: Convolution, engine: Engine
    ) -> None:
        self._plan, self._lock = plan, lock
        self._identifiers = np.array(IDENTIFIERS[convolution.kind], np.int64)
        self.words = np.zeros(len(CONVOLUTION), np.int64)
        values = {
            "lock": lock.ctypes.data,
            "handle": handle,
            "plan": plan.address,
            "identifiers": self._identifiers.ctypes.data,
            "workspace_bytes": engine.workspace,
            "set_stream": library.addresses["cudnnSetStream"],
            "create": library.addresses["cudnnBackendCreateDescriptor"],
            "set": library.addresses["cudnnBackendSetAttribute"],
            "finalize": library.addresses["cudnnBackendFinalize"],
            "execute": library.addresses["cudnnBackendExecute"],
            "destroy": library.addresses["cudnnBackendDestroyDescriptor"],
        }
        for name, value in values.items():
            self.words[CONVOLUTION[name]] = value
        self.address = self.words.ctypes.data
