"""A double of cuDNN's graph interface: its C functions as callbacks, which convolve with NumPy on the memory of the
driver's double.

Descriptors hold what is set until they are finalized; engines are a table, of which some may not be used; a convolution
runs when its stream does.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from tfxla_cluster.runtime.gpu.driver import Device
from tfxla_cluster.runtime.gpu.libraries import cudnn
from tfxla_cluster.runtime.gpu.libraries.convolutions import Convolutions
from tfxla_cluster.runtime.gpu.libraries.cudnn import SIGNATURES, Cudnn

from .gpu_double import Library
from .library_double import LibraryDouble, Status

BAD, UNSUPPORTED, INTERNAL = 2000, 3000, 4000
DTYPES = {0: np.dtype(np.float32), 1: np.dtype(np.float64), 2: np.dtype(np.float16), 9: np.dtype(ml_dtypes.bfloat16)}
ELEMENTS = {
    0: 8,
    1: 4,
    2: 1,
    3: 8,
    4: 4,
    5: 8,
    6: 8,
    7: 4,
    8: 4,
    9: 4,
    11: 4,
    15: 8,
}  # bytes, by cudnnBackendAttributeType_t


@dataclass(frozen=True)
class Engine:
    number: int
    knobs: Mapping[int, int] = field(default_factory=dict)
    workspace: int = 0
    notes: tuple[int, ...] = ()
    works: bool = True


# In the heuristic's order; USABLE may be offered, EXACT for f32 that may not be multiplied as tf32 too.
ENGINES = (
    Engine(9, {}, 0, (4,)),
    Engine(3, {2: 7, 14: 2}, 0, (0,)),
    Engine(4, {}, 0, (), works=False),
    Engine(11, {}, 1 << 40),
    Engine(5, {}, 4100),
)
USABLE, EXACT = (3, 5), (5,)


@dataclass
class Thing:
    kind: int
    values: dict[int, list[Any]] = field(default_factory=dict)
    final: bool = False

    def one(self, name: int) -> Any:
        return self.values[name][0]


class CudnnDouble(LibraryDouble):
    """`things`: descriptors that are not destroyed yet; `ran`: the engines of what was executed; `widens`: whether
    results may have another type than operands."""

    def __init__(self, driver: Library, version: int = 91900) -> None:
        super().__init__(driver, SIGNATURES, ("cudnn", "Backend"), INTERNAL, 0xA000)
        self.things: dict[int, Thing] = {}
        self.ran: list[int] = []
        self.widens = True
        self._streams: dict[int, int] = {}  # of each handle
        self.cudnnGetVersion = ctypes.CFUNCTYPE(ctypes.c_size_t)(lambda: version)

    def _Create(self, place: int) -> None:
        assert self.driver.context
        number = next(self.numbers)
        self._streams[number] = 0
        ctypes.c_int64.from_address(place).value = number

    def _SetStream(self, handle: int, stream: int) -> None:
        assert handle in self._streams
        self._streams[handle] = stream

    # --- descriptors ---
    def _CreateDescriptor(self, kind: int, place: int) -> None:
        number = next(self.numbers)
        self.things[number] = Thing(kind)
        ctypes.c_int64.from_address(place).value = number

    def _DestroyDescriptor(self, number: int) -> None:
        del self.things[number]

    def _SetAttribute(self, number: int, name: int, element: int, count: int, place: int) -> None:
        thing = self.things[number]
        if thing.final:
            raise Status(BAD)
        thing.values[name] = _decoded(element, ctypes.string_at(place, count * ELEMENTS[element]), count)
        if element == cudnn.DESCRIPTOR:
            thing.values[name] = [self.things[address] for address in thing.values[name]]
            if not all(t.final for t in thing.values[name]):
                raise Status(BAD)

    def _GetAttribute(self, number: int, name: int, element: int, most: int, count: int, place: int) -> None:
        values = self.things[number].values.get(name, [])
        ctypes.c_int64.from_address(count).value = len(values)
        if element == cudnn.DESCRIPTOR:
            for address, value in zip((ctypes.c_int64 * most).from_address(place), values):
                assert self.things[address].kind == value.kind
                self.things[address].values, self.things[address].final = value.values, True
        else:
            kind: Any = ctypes.c_int64 if ELEMENTS[element] == 8 else ctypes.c_int32
            for n, value in enumerate(values[:most]):
                (kind * most).from_address(place)[n] = value

    def _Finalize(self, number: int) -> None:
        thing = self.things[number]
        if thing.kind == cudnn.HEURISTIC:
            thing.values[202] = [_config(engine, thing.one(201)) for engine in ENGINES]
        if thing.kind == cudnn.ENGINE:
            thing.values[1303] = list(_engine(thing.one(1301)).notes)
        if thing.kind == cudnn.PLAN:
            config = thing.one(401)
            engine = _engine(config.one(300).one(1301))
            knobs = {k.one(600): k.one(601) for k in config.values.get(302, [])}
            kinds = {t.one(901) for t in _tensors(config.one(300).one(1300).one(801))}
            if len(kinds) > 1 and not self.widens:
                raise Status(UNSUPPORTED)
            if not engine.works or knobs != engine.knobs:
                raise Status(UNSUPPORTED)
            thing.values[402] = [engine.workspace]
        thing.final = True

    # --- convolutions ---
    def _Execute(self, handle: int, plan: int, pack: int) -> None:
        assert handle == self.things[plan].one(400)
        engine, given = self.things[plan].one(401).one(300), self.things[pack]
        assert given.final
        assert self.things[plan].final
        assert given.kind == cudnn.VARIANT_PACK
        operation = engine.one(1300).one(801)
        number, workspace = engine.one(1301), given.one(1003)
        count = _engine(number).workspace
        if (count and not workspace) or workspace % 256:
            raise Status(BAD)
        places = dict(zip(given.values[1000], given.values[1001]))
        arrays = {t.one(906): self._array(t, places[t.one(906)]) for t in _tensors(operation)}
        device = self.driver.device()
        self.ran.append(number)

        def convolve() -> None:
            _convolve(operation, {n: make() for n, make in arrays.items()})
            if count:
                self.driver.at(workspace, device)[:count] = 0xEE

        self.driver._queue(self._streams[handle], convolve)

    def _array(self, tensor: Thing, address: int) -> Callable[[], np.ndarray]:
        """By batch, channel, height and width, when the stream runs."""
        dtype, extents, steps = DTYPES[tensor.one(901)], tensor.values[902], tensor.values[903]
        if address % tensor.one(900):
            raise Status(BAD)
        device = self.driver.device()

        def array() -> np.ndarray:
            count = sum((e - 1) * s for e, s in zip(extents, steps)) + 1
            memory = self.driver.at(address, device)[: count * dtype.itemsize].view(dtype)
            return np.lib.stride_tricks.as_strided(memory, extents, [s * dtype.itemsize for s in steps])

        return array


def _decoded(element: int, data: bytes, count: int) -> list[Any]:
    if element in (cudnn.FLOAT, cudnn.DOUBLE):
        return list(np.frombuffer(data, np.float32 if element == cudnn.FLOAT else np.float64).tolist())
    size = ELEMENTS[element]
    return [int.from_bytes(data[n * size : (n + 1) * size], "little", signed=True) for n in range(count)]


def _engine(number: int) -> Engine:
    found = next((e for e in ENGINES if e.number == number), None)
    if found is None:
        raise Status(UNSUPPORTED)
    return found


def _config(engine: Engine, graph: Thing) -> Thing:
    made = Thing(cudnn.ENGINE, {1300: [graph], 1301: [engine.number], 1303: list(engine.notes)}, final=True)
    knobs = [Thing(cudnn.KNOB, {600: [kind], 601: [value]}, final=True) for kind, value in engine.knobs.items()]
    return Thing(cudnn.ENGINE_CONFIG, {300: [made], 302: knobs}, final=True)


_PLACES = {
    cudnn.FORWARD: (704, 703, 705, 702),
    cudnn.BY_IMAGE: (710, 709, 711, 708),
    cudnn.BY_WINDOW: (716, 715, 717, 714),
}


def _tensors(operation: Thing) -> list[Thing]:
    """Image, window, output."""
    return [operation.one(name) for name in _PLACES[operation.kind][:3]]


def _convolve(operation: Thing, arrays: Mapping[int, np.ndarray]) -> None:
    how = operation.one(_PLACES[operation.kind][3])
    image, window, out = (arrays[t.one(906)] for t in _tensors(operation))
    total = np.float64 if how.one(100) == 1 else np.float32
    (top, left), (bottom, right) = how.values[105], how.values[104]
    pads = ((0, 0), (0, 0), (top, bottom), (left, right))
    x, w, y = (_as(a, total) for a in (image, window, out))
    padded: Any = np.pad(x, pads)
    if operation.kind != cudnn.FORWARD:
        (padded if operation.kind == cudnn.BY_IMAGE else w)[...] = 0
    else:
        y[...] = 0
    for (r, s), part in _taps(how, window.shape[2:], out.shape[2:]):
        at = (slice(None), slice(None), *part)
        if operation.kind == cudnn.FORWARD:
            y += np.einsum("ncpq,kc->nkpq", padded[at], w[:, :, r, s])
        elif operation.kind == cudnn.BY_IMAGE:
            padded[at] += np.einsum("nkpq,kc->ncpq", y, w[:, :, r, s])
        else:
            w[:, :, r, s] += np.einsum("nkpq,ncpq->kc", y, padded[at])
    height, width = x.shape[2:]
    made = {cudnn.FORWARD: y, cudnn.BY_IMAGE: padded[:, :, top : top + height, left : left + width], cudnn.BY_WINDOW: w}
    target = {cudnn.FORWARD: out, cudnn.BY_IMAGE: image, cudnn.BY_WINDOW: window}[operation.kind]
    target[...] = made[operation.kind].astype(target.dtype)


def _as(array: np.ndarray, dtype: type[np.floating[Any]]) -> Any:
    return array.astype(dtype)


def _taps(
    how: Thing, taps: Sequence[int], points: Sequence[int]
) -> Iterator[tuple[tuple[int, int], tuple[slice, slice]]]:
    """Each tap, and the points of the padded image that it meets."""
    strides, dilations = how.values[103], how.values[102]
    for r, s in itertools.product(*map(range, taps)):
        starts = (r * dilations[0], s * dilations[1])
        parts = [slice(a, a + (n - 1) * step + 1, step) for a, n, step in zip(starts, points, strides)]
        yield (r, s), (parts[0], parts[1])


def libraries(driver: Library, device: Device, version: int = 91900) -> tuple[Convolutions, CudnnDouble]:
    """The double on a device of the driver's double."""
    double = CudnnDouble(driver, version)
    return Convolutions(device, Cudnn(double)), double
