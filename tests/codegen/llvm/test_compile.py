"""Text, keys, machine code for other machines, threads, loading."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

from tests.codegen.run_kernel import Loaded, host_target, run
from tfxla_cluster.codegen.kernel.builder import KernelBuilder
from tfxla_cluster.codegen.kernel.ir import Kernel
from tfxla_cluster.codegen.kernel.key import key
from tfxla_cluster.codegen.kernel.text import render
from tfxla_cluster.codegen.llvm import elf
from tfxla_cluster.codegen.llvm.emitter import emit
from tfxla_cluster.codegen.llvm.loader import Library
from tfxla_cluster.codegen.llvm.object_code import assemble, compile_kernel, compile_kernels
from tfxla_cluster.codegen.llvm.texts import module_text
from tfxla_cluster.errors import InternalError
from tfxla_cluster.ir.dim import Dim, sym
from tfxla_cluster.ir.dtype import BF16, DTYPES, F32
from tfxla_cluster.target import Target

AVX512 = Target("cpu", "skylake-avx512", "", 512)
SSE = Target("cpu", "x86-64-v2", "", 128)


ROWS, COLS = sym("rows", 8), sym("cols", 8)


def softmax(name: str = "softmax", rows: Dim = ROWS, cols: Dim = COLS, scale: float = 1.0) -> Kernel:
    b = KernelBuilder(name)
    x, out = b.input(F32), b.output(F32)
    n, zero = b.size(cols), b.index(0)
    base = b.mul(b.task, n)
    (top,) = b.reduce(
        zero,
        n,
        [b.const(-np.inf, F32)],
        [-np.inf],
        lambda i: [b.load(x, b.add(base, i))],
        lambda a, v: [b.op("maximum", a, v)],
    )
    with b.loop(zero, n, "vector") as i:
        shifted = b.op("subtract", b.load(x, b.add(base, i)), top)
        b.store(out, b.add(base, i), b.op("exponential", b.op("multiply", shifted, b.const(scale, F32))))
    (total,) = b.reduce(
        zero, n, [b.const(0.0, F32)], [0.0], lambda i: [b.load(out, b.add(base, i))], lambda a, v: [b.op("add", a, v)]
    )
    with b.loop(zero, n, "vector") as i:
        b.store(out, b.add(base, i), b.op("divide", b.load(out, b.add(base, i)), total))
    return b.finish(rows, 10 * cols)


@pytest.mark.parametrize("bits", [128, 256])
def test_softmax(bits: int) -> None:
    x = np.random.default_rng(0).standard_normal((5, 37)).astype(np.float32)
    x[2, 3:] = -np.inf
    (got,) = run(softmax(), [x], [(x.shape, np.float32)], {"rows": 5, "cols": 37}, host_target(bits))
    wide = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(got, wide / wide.sum(1, keepdims=True), rtol=1e-6)
    assert (got[2, 3:] == 0).all()


def test_key_is_structure() -> None:
    other = softmax("another", sym("a", 100), sym("b", 3))
    assert key(softmax()) == key(other)
    assert key(softmax()) != key(softmax(scale=2.0))
    assert key(softmax(scale=0.0)) != key(softmax(scale=-0.0))


def test_text() -> None:
    text = render(softmax())
    assert text.startswith("kernel softmax(tasks = rows, size[0] = cols)\n")
    assert "for vector" in text
    assert "reduce vector" in text
    assert "out0[" in text


def test_wide_registers_and_masks() -> None:
    assembly = compile_kernel(softmax(), AVX512, "k", assembly=True).assembly
    assert "zmm" in assembly
    assert "{%k" in assembly
    assert "ymm" not in compile_kernel(softmax(), SSE, "k", assembly=True).assembly


@pytest.mark.parametrize("target", [AVX512, SSE], ids=["avx512", "sse"])
@pytest.mark.parametrize("dtype", ["pred", "s8", "f16", "bf16", "f8e5m2", "s64", "f64", "c64"])
def test_other_machines_need_nothing_we_lack(target: Target, dtype: str) -> None:
    b = KernelBuilder("copy")
    x, out = b.input(DTYPES[dtype]), b.output(DTYPES[dtype])
    with b.loop(b.index(0), b.size(sym("n", 1)), "vector") as i:
        value = b.load(x, i)
        b.store(out, i, b.op("multiply", value, value) if dtype != "pred" else value)
    kernel = b.finish(1)
    llvm.parse_assembly(module_text([emit(kernel, target, "k")])).verify()
    code = compile_kernel(kernel, target, "k")
    if not (target is SSE and dtype == "f16"):  # f16 conversions there are calls of the compiler's library
        assert all(r.symbol.section is not None for r in elf.read(code.object).relocations)


def test_threads_give_the_same_code() -> None:
    kernels = [(softmax(scale=1.0 + k), f"kernel_{k}") for k in range(12)]
    alone = compile_kernels(kernels, host_target(), 1)
    for _ in range(3):
        together = compile_kernels(kernels, host_target(), 4)
        assert [c.object for c in together] == [c.object for c in alone]
    assert len({c.object for c in alone}) < len(kernels)
    library = Library([c.object for c in alone], host_target())
    assert len({library.address(symbol) for _, symbol in kernels}) == len(kernels)


def test_quick_code_gives_the_same_numbers() -> None:
    """The level of code generation moves instructions, it changes no arithmetic."""
    kernels = [(softmax(), "careful"), (softmax(), "quick")]
    careful, quick = compile_kernels(kernels, host_target(), quick={"quick"})
    assert (careful.symbol, quick.symbol) == ("careful", "quick")
    assert careful.object != quick.object
    x = np.random.default_rng(0).standard_normal((5, 37)).astype(np.float32)
    (expected,) = run(softmax(), [x], [(x.shape, np.float32)], {"rows": 5, "cols": 37})
    loaded = Loaded(softmax())
    library = Library([quick.object], host_target())
    loaded.function = type(loaded.function)(library.address("quick"))
    got = np.zeros_like(x)
    loaded([x], [got], {"rows": 5, "cols": 37})
    np.testing.assert_array_equal(got, expected)


def test_a_listing_is_of_the_code_that_runs() -> None:
    kernels = [(softmax(scale=1.0 + k), f"kernel_{k}") for k in range(3)]
    plain = compile_kernels(kernels, host_target())
    told: dict[str, list[str]] = {}
    listed = compile_kernels(
        kernels, host_target(), listing=lambda language, parts: told.update({language: [p[0] for p in parts]})
    )
    assert list(told) == ["ir-no-opt.ll", "ir-with-opt.ll", "s"]
    assert told["s"] == told["ir-no-opt.ll"] == [f"kernel {symbol}" for _, symbol in kernels]
    for a, b in zip(plain, listed):
        assert elf.read(a.object).sections == elf.read(b.object).sections
        assert f"{b.symbol}:" in b.assembly
        assert not a.assembly
        assert sum(f"\n{symbol}:" in b.assembly for _, symbol in kernels) == 1


def test_a_missing_function_is_an_error() -> None:
    body = "  call void @no_such_function()\n  ret void\n"
    text = f"declare void @no_such_function()\ndefine void @f() {{\n{body}}}\n"
    with pytest.raises(InternalError, match="no_such_function"):
        Library([assemble(text, host_target())], host_target())
    with pytest.raises(InternalError, match="no symbol g"):
        Library([], host_target()).address("g")


def test_narrow_floats_round_after_each_operation() -> None:
    """256 + 1 is 256 in bf16, twice over."""
    b = KernelBuilder("round")
    x, out = b.input(BF16), b.output(BF16)
    with b.loop(b.index(0), b.size(sym("n", 1)), "vector") as i:
        one = b.const(1.0, BF16)
        b.store(out, i, b.op("add", b.op("add", b.load(x, i), one), one))
    (got,) = run(b.finish(1), [np.full(11, 256, BF16.numpy)], [((11,), BF16.numpy)], {"n": 11})
    assert (got.astype(np.float32) == 256).all()


FAR_APART = """
import ctypes
from tests.codegen import run_kernel
from tests.codegen.llvm.test_compile import softmax
from tfxla_cluster.codegen.llvm.object_code import compile_kernel
from tfxla_cluster.codegen.llvm.loader import Library

target = run_kernel.host_target()
code = compile_kernel(softmax(), target, "k")
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
kept = []
for _ in range(100):
    for size in (*[1 << 14] * 40, 3 << 30):  # fill the small holes, then move on by 3 GiB
        libc.mmap(None, size, 0, 0x4022, -1, 0)
    kept.append(Library([code.object], target))
    kept[-1].address("k")
print("loaded", len(kept))
"""


def test_loading_into_a_fragmented_address_space() -> None:
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "-c", FAR_APART], cwd=root, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["loaded", "100"], done.stderr[-1500:]
