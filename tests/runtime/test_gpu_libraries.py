"""Where NVIDIA's libraries come from, and machines that have none."""

from __future__ import annotations

import importlib.util
import shutil
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from tests.runtime.gpu_double import double
from tfxla_cluster.backends import gpu
from tfxla_cluster.codegen.kernel.code import Code
from tfxla_cluster.codegen.kernel.library_convolution import ROUTINE as CONVOLVE
from tfxla_cluster.codegen.kernel.library_product import ROUTINE as MULTIPLY
from tfxla_cluster.errors import InternalError, UnsupportedError
from tfxla_cluster.ir.dtype import DTYPES
from tfxla_cluster.ir.shape import array
from tfxla_cluster.runtime.gpu import driver as drivers
from tfxla_cluster.runtime.gpu.executable import Executable
from tfxla_cluster.runtime.gpu.libraries import cublaslt, cudnn, on_device, opening
from tfxla_cluster.runtime.gpu.libraries.on_device import OnDevice
from tfxla_cluster.runtime.plan import LaunchPlan, LibraryStep, Ref

LIBC = "libc.so.6"  # every process has it


def test_the_copy_that_is_loaded_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = opening.opened(["libnothing.so.1", LIBC])
    assert found is not None
    assert found._name == LIBC
    assert opening.opened(["libnothing.so.1"]) is None


def test_the_copy_in_a_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a package of the namespace `nvidia`; a file that is no library is passed over."""
    path = Path(next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/libm" in line))
    for package in ("broken", "library"):
        (tmp_path / package / "lib").mkdir(parents=True)
    (tmp_path / "broken" / "lib" / "libofours.so.1").write_text("no library")
    shutil.copy(path, tmp_path / "library" / "lib" / "libofours.so.1")
    spec = ModuleSpec("nvidia", None)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    found = opening.opened(["libofours.so.1"])
    assert found is not None
    assert found._name == str(tmp_path / "library" / "lib" / "libofours.so.1")


def test_a_machine_without_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, library = double()
    monkeypatch.setattr(cublaslt, "_library", lambda: None)
    monkeypatch.setattr(cudnn, "_library", lambda: None)
    found = on_device.of(driver.device(0))
    assert (found.products, found.convolutions, found.versions()) == (None, None, "")
    assert [name for name, _ in found.missing] == ["products", "convolutions"]
    monkeypatch.setattr(drivers, "driver", lambda: driver)
    assert gpu.this_machine().target.features == ""
    for routine, said in ((MULTIPLY, "there is no cuBLASLt"), (CONVOLVE, "there is no cuDNN")):
        shape, places = array(DTYPES["f32"], (4, 4)), (Ref("input", 0), Ref("input", 0))
        steps = (LibraryStep(routine, places, (Ref("output", 0),), ()),)
        with pytest.raises(UnsupportedError, match=said):
            Executable(LaunchPlan("p", (shape,), (shape,), (), steps, (), 0), Code(), driver=driver)
    assert not library.errors


def test_routines_that_no_library_has() -> None:
    with pytest.raises(InternalError, match="no library has a routine 'solve'"):
        OnDevice().call("solve", ())
    with pytest.raises(UnsupportedError, match="no library for products is given"):
        OnDevice().call(MULTIPLY, ())
