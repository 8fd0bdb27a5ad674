"""The libraries that a device's plans may call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, Union

from ....codegen.kernel import library_convolution, library_product
from ....codegen.kernel.code import Params
from ....errors import InternalError, UnsupportedError
from ....locks import ForkSafeLock
from ..driver import Device
from . import convolutions, cublaslt, cudnn, products
from .convolutions import Convolutions
from .products import Products

Call = Union[products.Call, convolutions.Call]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OnDevice:
    """The libraries, each None where the machine has none; `missing`: why, by the name of its field."""

    products: Products | None = None
    convolutions: Convolutions | None = None
    missing: tuple[tuple[str, str], ...] = ()

    def call(self, routine: str, params: Params) -> Call:
        """What a step of a plan calls; UnsupportedError where the library is not there."""
        if routine == library_product.ROUTINE:
            return self._of(self.products, "products").call(*library_product.from_params(params))
        if routine == library_convolution.ROUTINE:
            return self._of(self.convolutions, "convolutions").call(*library_convolution.from_params(params))
        raise InternalError(f"no library has a routine '{routine}'")

    def _of(self, library: T | None, name: str) -> T:
        if library is None:
            raise UnsupportedError(dict(self.missing).get(name, f"no library for {name} is given"))
        return library

    def versions(self) -> str:
        """As a target's features: what code for it may call."""
        found = []
        if self.products is not None:
            found.append(f"cuBLASLt {library_product.version_text(self.products.version)}")
        if self.convolutions is not None:
            found.append(f"cuDNN {library_convolution.version_text(self.convolutions.version)}")
        return ", ".join(found)


ROUTINES = (library_product.ROUTINE, library_convolution.ROUTINE)
_lock = ForkSafeLock()
_known: dict[Device, OnDevice] = {}


def of(device: Device) -> OnDevice:
    """This process's libraries on the device."""
    with _lock:
        if device not in _known:
            missing: dict[str, str] = {}
            multiply = _tried("products", lambda: Products(device, cublaslt.library()), missing)
            convolve = _tried("convolutions", lambda: Convolutions(device, cudnn.library()), missing)
            _known[device] = OnDevice(multiply, convolve, tuple(missing.items()))
        return _known[device]


def _tried(name: str, make: Callable[[], T], missing: dict[str, str]) -> T | None:
    try:
        return make()
    except UnsupportedError as error:
        missing[name] = str(error)
        return None
