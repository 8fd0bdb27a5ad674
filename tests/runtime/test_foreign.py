"""Foreign calls: how a call is written as numbers, what Python makes of them, and functions that are not there."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy

from tfxla_cluster.codegen.kernel.foreign_call import KINDS, Count, Input, Number, Output, at, encode, integer, real
from tfxla_cluster.errors import UnsupportedError
from tfxla_cluster.runtime import foreign


def test_what_arguments_point_to_comes_behind_them() -> None:
    calls, words, *numbers = encode((at(Number(7), at(Number(8))), Input(0, 4, 12)), 3)
    rows = np.reshape(numbers, (-1, 4)).tolist()
    assert (calls, words) == (3, 5)
    address, number = KINDS["address"], KINDS["number"]
    assert rows == [
        [address, 2, 0, 0],
        [KINDS["input"], 0, 4, 12],
        [number, 7, 0, 0],
        [address, 4, 0, 0],
        [number, 8, 0, 0],
    ]


def test_floats_are_their_bits() -> None:
    for bits, kind, word in ((32, np.float32, np.int32), (64, np.float64, np.int64)):
        (value,) = real(0.3, bits).words
        assert isinstance(value, Number)
        assert np.array(value.value, word).view(kind) == kind(0.3)


@pytest.mark.parametrize("tasks", [1, 3, 5])
def test_calls_are_made_once_each_whatever_the_number_of_tasks(tasks: int) -> None:
    """pocketfft's loop over lines of 4, two lines a call, of five in all."""
    x = np.random.default_rng(0).standard_normal((5, 4)) + 0j
    out = np.full((5, 4), np.nan + 0j)
    operands = at(Input(0, 2 * 64), real(1, 64), Output(0, 2 * 64))
    extents = at(Count(2, 5), Number(4), Number(4))
    steps = at(*map(Number, (64, 0, 64, 16, 16)))
    data = Number(foreign.function("pocketfft.fft.Dd->D")[1])
    sizes = [int(n) for n in encode((operands, extents, steps, data), 3) if isinstance(n, int)]
    foreign.call("pocketfft.fft.Dd->D", [_bytes(x)], [_bytes(out)], sizes, tasks)
    np.testing.assert_allclose(out, np.fft.fft(x), atol=1e-12)


def _bytes(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1).view(np.uint8)


def test_integers_are_pointers() -> None:
    assert integer(5) == at(Number(5))


@pytest.mark.parametrize(
    ("routine", "words"),
    [
        ("lapack.sgexyz", "LAPACK has no sgexyz"),
        ("pocketfft.hartley.Dd->D", "does not have them as ufuncs"),
        ("pocketfft.fft.Zz->Z", "does not have them as ufuncs"),
    ],
)
def test_what_is_not_there_is_refused(routine: str, words: str) -> None:
    with pytest.raises(UnsupportedError, match=words):
        foreign.function(routine)


def test_without_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.linalg", None)
    foreign.function.cache_clear()
    with pytest.raises(UnsupportedError, match="sgetrf comes with SciPy, which cannot be imported"):
        foreign.function("lapack.sgetrf")


def test_another_layout_of_ufuncs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that does not begin as NumPy's own counts say is not read any further."""
    other = SimpleNamespace(types=["Dd->D"], nin=2, nout=1, ntypes=3)
    monkeypatch.setattr(foreign, "_ufunc", lambda name: other)
    foreign.function.cache_clear()
    with pytest.raises(UnsupportedError, match="in a way that is not known"):
        foreign.function("pocketfft.fft.Dd->D")


def test_lapack_works_in_its_callers_thread() -> None:
    """SciPy's wheel has an OpenBLAS of its own, which would start threads; other builds of SciPy have none there."""
    foreign.function("lapack.sgetrf")
    for path in (Path(scipy.__file__).parents[1] / "scipy.libs").glob("libscipy_openblas*.so*"):
        assert ctypes.CDLL(str(path)).scipy_openblas_get_num_threads() == 1
