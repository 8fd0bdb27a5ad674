"""How loads and stores of a vector loop find their elements, and that they touch no others."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
import pytest

from tests.codegen.run_kernel import Loaded, run
from tfxla_cluster.codegen.kernel.builder import KernelBuilder
from tfxla_cluster.codegen.kernel.ir import Var
from tfxla_cluster.ir.dim import sym
from tfxla_cluster.ir.dtype import DTYPES, F32, S64

N = sym("n", 10)
EXTENTS = (0, 1, 2, 7, 8, 9, 31, 33, 70)
DTYPE_NAMES = ("pred", "s4", "s8", "u16", "f16", "bf16", "f8e4m3fn", "s32", "f32", "s64", "f64", "c64", "c128")


def values(name: str, count: int) -> np.ndarray:
    numbers = np.arange(count) * 7 % 8 - 4 if name != "pred" else np.arange(count) % 3 == 0
    if name.startswith("c"):
        return (numbers - 1j * np.arange(count)).astype(DTYPES[name].numpy)
    return numbers.astype(np.int8 if name == "s4" else DTYPES[name].numpy).astype(DTYPES[name].numpy)


class Offsets:
    """Index expressions of the loop variable: what the kernel computes and what NumPy does."""

    unit = (lambda b, i, n: i, lambda i, n: i)
    shifted = (lambda b, i, n: b.add(i, b.index(3)), lambda i, n: i + 3)
    reversed = (lambda b, i, n: b.op("subtract", b.op("subtract", n, b.index(1)), i), lambda i, n: n - 1 - i)
    strided = (lambda b, i, n: b.mul(i, b.index(3)), lambda i, n: 3 * i)
    by_size = (lambda b, i, n: b.mul(i, n), lambda i, n: i * n)
    invariant = (lambda b, i, n: b.index(2), lambda i, n: i * 0 + 2)
    repeated = (lambda b, i, n: b.quotient(i, b.index(3)), lambda i, n: i // 3)
    cyclic = (lambda b, i, n: b.remainder(i, b.index(5)), lambda i, n: i % 5)
    cyclic_size = (lambda b, i, n: b.remainder(b.mul(i, b.index(7)), n), lambda i, n: i * 7 % max(n, 1))


OFFSETS = [name for name in vars(Offsets) if not name.startswith("_")]


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("kind", OFFSETS)
def test_load(dtype: str, kind: str) -> None:
    kernel_offset, numpy_offset = getattr(Offsets, kind)
    b = KernelBuilder(f"load_{kind}")
    x, out = b.input(DTYPES[dtype]), b.output(DTYPES[dtype])
    n = b.size(N)
    with b.loop(b.index(0), n, "vector") as i:
        b.store(out, i, b.load(x, kernel_offset(b, i, n)))
    loaded = Loaded(b.finish(1))
    for extent in EXTENTS:
        source = values(dtype, max(3, extent * extent + 4))
        result = values(dtype, extent + 5)
        guard = result[extent:].copy()
        loaded([source], [result], {"n": extent})
        np.testing.assert_array_equal(result[:extent], source[numpy_offset(np.arange(extent), extent)])
        np.testing.assert_array_equal(result[extent:], guard)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("kind", ["unit", "shifted", "reversed", "strided", "by_size"])
def test_store(dtype: str, kind: str) -> None:
    kernel_offset, numpy_offset = getattr(Offsets, kind)
    b = KernelBuilder(f"store_{kind}")
    x, out = b.input(DTYPES[dtype]), b.output(DTYPES[dtype])
    n = b.size(N)
    with b.loop(b.index(0), n, "vector") as i:
        b.store(out, kernel_offset(b, i, n), b.load(x, i))
    loaded = Loaded(b.finish(1))
    for extent in EXTENTS:
        source, result = values(dtype, extent), values(dtype, extent * extent + 50)
        expected = result.copy()
        expected[numpy_offset(np.arange(extent), extent)] = source
        loaded([source], [result], {"n": extent})
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("kind", ["unit", "reversed", "strided", "invariant", "cyclic"])
def test_masked(dtype: str, kind: str) -> None:
    """Every third lane runs; another value stands in for the others."""
    kernel_offset, numpy_offset = getattr(Offsets, kind)
    b = KernelBuilder(f"masked_{kind}")
    x, out = b.input(DTYPES[dtype]), b.output(DTYPES[dtype])
    n = b.size(N)
    with b.loop(b.index(0), n, "vector") as i:
        mask = b.compare(b.remainder(i, b.index(3)), b.index(1), "EQ")
        value = b.load(x, kernel_offset(b, i, n), mask, b.const(1, DTYPES[dtype]))
        b.store(out, i, value, b.compare(i, b.index(4), "NE"))
    loaded = Loaded(b.finish(1))
    for extent in EXTENTS:
        source, result = values(dtype, 3 * extent + 9), values(dtype, extent + 3)
        index = np.arange(extent)
        expected = np.where(index % 3 == 1, source[numpy_offset(index, extent)], DTYPES[dtype].numpy.type(1))
        keep = result.copy()
        loaded([source], [result], {"n": extent})
        np.testing.assert_array_equal(result[:extent][index != 4], expected[index != 4])
        np.testing.assert_array_equal(result[extent:], keep[extent:])
        np.testing.assert_array_equal(result[4:5], keep[4:5])


def _fenced(count: int, dtype: np.dtype) -> tuple[mmap.mmap, np.ndarray]:
    """An array that ends where an unreadable page begins."""
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(address + page), page, 0) == 0
    return memory, np.frombuffer(memory, np.uint8)[page - count * dtype.itemsize : page].view(dtype)


@pytest.mark.parametrize("dtype", ["pred", "bf16", "f32", "f64", "c64"])
@pytest.mark.parametrize("heavy", [False, True])
def test_nothing_past_the_end_is_touched(dtype: str, heavy: bool) -> None:
    """The guard page would end the process. A masked lane may even name an address far away."""
    b = KernelBuilder("fenced")
    x, out = b.input(DTYPES[dtype]), b.output(DTYPES[dtype])
    n = b.size(N)
    with b.loop(b.index(0), n, "vector") as i:
        far = b.compare(b.remainder(i, b.index(2)), b.index(0), "EQ")
        near = b.load(x, i)
        other = b.load(x, b.add(i, b.op("select", far, b.index(0), b.index(1 << 40))), far, near)
        if heavy and DTYPES[dtype].is_float:
            other = b.op("minimum", other, b.op("tan", other))
        b.store(out, i, other)
    loaded = Loaded(b.finish(1))
    for extent in (1, 5, 8, 13, 32, 37):
        _, source = _fenced(extent, DTYPES[dtype].numpy)
        _, result = _fenced(extent, DTYPES[dtype].numpy)
        loaded([source], [result], {"n": extent})
        assert not np.any(result.astype(np.complex128))


def test_loads_of_scratch_and_updates_in_place() -> None:
    b = KernelBuilder("inplace")
    out, scratch, small = b.output(F32), b.scratch_buffer(F32, 100), b.scratch_buffer(S64, 3)
    n = b.size(N)
    b.store(small, b.index(2), n)
    with b.loop(b.index(0), n, "vector") as i:
        b.store(scratch, i, b.op("add", b.load(out, i), b.op("convert", b.load(small, b.index(2)), dtype=F32)))
    with b.loop(b.index(0), n, "vector") as i:
        b.store(out, i, b.load(scratch, b.op("subtract", b.op("subtract", n, b.index(1)), i)))
    start = np.arange(37, dtype=np.float32)
    (result,) = run(b.finish(1), [], [start.copy()], {"n": 37})
    np.testing.assert_array_equal(result, start[::-1] + 37)


def test_tasks_and_two_dimensions() -> None:
    """A transpose: one task a row of the result."""
    b = KernelBuilder("transpose")
    x, out = b.input(F32), b.output(F32)
    rows, cols = b.size(sym("r", 1)), b.size(sym("c", 1))
    base = b.mul(b.task, rows)

    def store(i: Var) -> None:
        b.store(out, b.add(base, i), b.load(x, b.add(b.mul(i, cols), b.task)))

    with b.loop(b.index(0), rows, "vector") as i:
        store(i)
    source = np.arange(21 * 13, dtype=np.float32).reshape(21, 13)
    (result,) = run(b.finish(sym("c", 1)), [source], [((13, 21), np.float32)], {"r": 21, "c": 13})
    np.testing.assert_array_equal(result, source.T)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("start", [0, 1, 5, 8])
@pytest.mark.parametrize("heavy", [False, True])
def test_streamed_store(dtype: str, start: int, heavy: bool) -> None:
    """Past the caches where the address allows it, plainly elsewhere; nothing beyond the end."""
    b = KernelBuilder("streamed")
    x, out = b.input(DTYPES[dtype]), b.output(DTYPES[dtype])
    first = b.index(start)
    with b.loop(b.index(0), b.size(N), "vector") as i:
        value = b.load(x, i)
        for _ in range(20 if heavy and dtype == "f32" else 0):
            value = b.op("negate", value)
            b.store(out, b.add(first, i), value, stream=True)
        b.store(out, b.add(first, i), value, stream=True)
    loaded = Loaded(b.finish(1))
    for extent in EXTENTS:
        source, result = values(dtype, extent), values(dtype, extent + 20)
        guard = result.copy()
        loaded([source], [result], {"n": extent})
        np.testing.assert_array_equal(result[start : start + extent], source)
        np.testing.assert_array_equal(result[:start], guard[:start])
        np.testing.assert_array_equal(result[start + extent :], guard[start + extent :])
