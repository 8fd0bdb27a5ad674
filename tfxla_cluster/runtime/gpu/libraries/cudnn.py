"""cuDNN's graph interface by its C functions: descriptors, which hold attributes and are finalized.

Functions and numbers: cudnn_graph.h.
"""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Sequence
from typing import Any

from ....errors import TfxlaError, UnsupportedError
from .opening import opened

_NAMES = ("libcudnn.so.9",)
_POINTER, _INT, _COUNT = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cudnnCreate": (_POINTER,),
    "cudnnSetStream": (_POINTER, _POINTER),
    "cudnnBackendCreateDescriptor": (_INT, _POINTER),
    "cudnnBackendDestroyDescriptor": (_POINTER,),
    "cudnnBackendSetAttribute": (_POINTER, _INT, _INT, _COUNT, _POINTER),
    "cudnnBackendGetAttribute": (_POINTER, _INT, _INT, _COUNT, _POINTER, _POINTER),
    "cudnnBackendFinalize": (_POINTER,),
    "cudnnBackendExecute": (_POINTER, _POINTER, _POINTER),
}
# cudnnBackendDescriptorType_t
CONVOLUTION, ENGINE, ENGINE_CONFIG, HEURISTIC, PLAN, KNOB = 1, 2, 3, 4, 5, 7
FORWARD, BY_WINDOW, BY_IMAGE, GRAPH, VARIANT_PACK, TENSOR = 10, 11, 12, 15, 16, 17
# cudnnBackendAttributeType_t -> how an element lies in memory
HANDLE, DATA_TYPE, BOOLEAN, INT64, FLOAT, DOUBLE, ADDRESS, MODE, HEUR_MODE, KNOB_TYPE = range(10)
NOTE, DESCRIPTOR = 11, 15
_ELEMENTS: dict[int, Any] = {
    **dict.fromkeys((DATA_TYPE, MODE, HEUR_MODE, KNOB_TYPE, NOTE), ctypes.c_int),
    **dict.fromkeys((HANDLE, ADDRESS, DESCRIPTOR), ctypes.c_void_p),
    BOOLEAN: ctypes.c_bool,
    INT64: ctypes.c_int64,
    FLOAT: ctypes.c_float,
    DOUBLE: ctypes.c_double,
}
_STATUS = {1: "NOT_INITIALIZED", 2: "BAD_PARAM", 3: "NOT_SUPPORTED", 4: "INTERNAL_ERROR", 5: "EXECUTION_FAILED"}


class Cudnn:
    """`library` has the functions as attributes: the shared object, or a test's double of it. `version`: as in
    cudnnGetVersion, 91002 is 9.10.2. `addresses`: of each function."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self.addresses = {name: ctypes.cast(getattr(library, name), _POINTER).value or 0 for name in SIGNATURES}
        self._functions = {n: ctypes.CFUNCTYPE(_INT, *kinds)(self.addresses[n]) for n, kinds in SIGNATURES.items()}
        version = ctypes.cast(library.cudnnGetVersion, _POINTER).value or 0
        self.version = int(ctypes.CFUNCTYPE(ctypes.c_size_t)(version)())

    def status(self, name: str, *args: Any) -> int:
        """The cudnnStatus_t of a call."""
        return int(self._functions[name](*args))

    def call(self, name: str, *args: Any) -> None:
        """TfxlaError where it fails."""
        code = self.status(name, *args)
        if code:
            raise TfxlaError(f"{name}: {text(code)}")

    def handle(self) -> int:
        """A new one, in the current context."""
        made = _POINTER()
        self.call("cudnnCreate", ctypes.byref(made))
        return int(made.value or 0)


class Descriptor:
    """One of the library's, of a kind, destroyed with this object. `attributes`: (name, type) -> elements; descriptors
    among them live as long."""

    def __init__(self, library: Cudnn, kind: int, attributes: Sequence[tuple[int, int, Sequence[Any]]] = ()) -> None:
        made = _POINTER()
        library.call("cudnnBackendCreateDescriptor", kind, ctypes.byref(made))
        self._library, self.address, self._held = library, int(made.value or 0), list[Any]()
        weakref.finalize(self, library.status, "cudnnBackendDestroyDescriptor", self.address).atexit = False
        for name, element, values in attributes:
            self.set(name, element, values)

    def set(self, name: int, element: int, values: Sequence[Any]) -> None:
        if element == DESCRIPTOR:
            self._held += values
            values = [value.address for value in values]
        given = (_ELEMENTS[element] * max(len(values), 1))(*values)
        self._library.call("cudnnBackendSetAttribute", self.address, name, element, len(values), given)

    def finalized(self) -> Descriptor:
        """This one, from now on as it is; TfxlaError where the library does not do it."""
        self._library.call("cudnnBackendFinalize", self.address)
        return self

    def get(self, name: int, element: int, most: int = 1) -> list[Any]:
        """The elements of an attribute, `most` of them at most."""
        found, count = (_ELEMENTS[element] * most)(), ctypes.c_int64()
        arguments = (self.address, name, element, most, ctypes.byref(count), found)
        self._library.call("cudnnBackendGetAttribute", *arguments)
        return list(found[: min(count.value, most)])

    def fill(self, name: int, kind: int, most: int) -> list[Descriptor]:
        """The descriptors of an attribute, of one kind."""
        made = [Descriptor(self._library, kind) for _ in range(most)]
        places, count = (_POINTER * most)(*(one.address for one in made)), ctypes.c_int64()
        arguments = (self.address, name, DESCRIPTOR, most, ctypes.byref(count), places)
        self._library.call("cudnnBackendGetAttribute", *arguments)
        return made[: min(count.value, most)]


def text(code: int) -> str:
    """Number and family of a cudnnStatus_t."""
    return f"cuDNN status {code}, CUDNN_STATUS_{_STATUS.get(code // 1000, 'UNKNOWN')}"


def library() -> Cudnn:
    """This process's; UnsupportedError where the machine has none."""
    found = _library()
    if found is None:
        raise UnsupportedError(f"there is no cuDNN ({_NAMES[0]})", "pip install 'tensorflow[and-cuda]' brings one")
    return found


@functools.cache
def _library() -> Cudnn | None:
    found = opened(_NAMES)
    return None if found is None else Cudnn(found)
