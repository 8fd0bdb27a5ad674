"""Which forms matrix products on a GPU take: matrix units and precision, three bf16 for an exact f32, few rows, narrow
types, room in shared memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.codegen.triton import gpu_module
from tests.codegen.triton.product_cases import (
    BACKENDS,
    CHOICES,
    SMALL,
    TARGET,
    check,
    chosen,
    drawn,
    generated,
    product,
)
from tfxla_cluster import compiler
from tfxla_cluster.backends import gpu
from tfxla_cluster.codegen.kernel.builder import KernelBuilder
from tfxla_cluster.codegen.kernel.choice import DEFAULT, Choice
from tfxla_cluster.codegen.kernel.key import key
from tfxla_cluster.codegen.kernel.lower import gpu as lowering
from tfxla_cluster.codegen.kernel.lower.gpu.capability import shared_bytes
from tfxla_cluster.codegen.kernel.lower.gpu.product_blocks import Blocks
from tfxla_cluster.codegen.kernel.unit import UnitKernel
from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.codegen.triton.source import render
from tfxla_cluster.dump.sink import NOWHERE
from tfxla_cluster.errors import UnsupportedError
from tfxla_cluster.ir import text
from tfxla_cluster.ir.dtype import DTYPES, F32, S64
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.runtime.plan import KernelStep

pytestmark = pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")


def test_matrix_units_are_used() -> None:
    """wgmma of what asynchronous copies bring, on sm_90; mma on sm_80."""
    source = product("bf16", 1024, 1024, 1024)
    ptx = generated(source, Blocks(128, 128, 64, 8))[1].texts["ptx"]
    assert "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16" in ptx
    assert "cp.async" in ptx
    ptx = generated(source, Blocks(128, 256, 64, 8, parts=2, persistent=1, descriptors=1))[1].texts["ptx"]
    assert "cp.async.bulk.tensor.2d" in ptx
    assert "mma.sync" in generated(source, Blocks(128, 128, 64, 8), "sm_80")[1].texts["ptx"]


@pytest.mark.parametrize(
    ("dtype", "out", "contracts"), [("bf16", "bf16", True), ("bf16", "f32", False), ("f32", "f32", False)]
)
def test_products_and_sums_are_rounded_together_where_results_are_narrow(dtype: str, out: str, contracts: bool) -> None:
    (step,) = lowering.lower(text.parse(product(dtype, 64, 64, 64, out=out)).entry.root, TARGET).steps
    assert isinstance(step, UnitKernel)
    assert (("enable_fp_fusion", True) in render(step.kernel).options) == contracts


def test_two_programs_of_a_multiprocessor_share_its_memory() -> None:
    """Twice as many programs as multiprocessors, and what two of them take fits in the memory of one."""
    _, made = generated(
        product("bf16", 1024, 1024, 1024), Blocks(128, 128, 64, 4, 3, parts=2, persistent=2, descriptors=2)
    )
    assert 2 * made.shared_bytes <= shared_bytes(TARGET)


def _finished(operations: int) -> str:
    """A product of bf16 whose sums so many operations finish."""
    lines = "\n  ".join(f"v{n + 1} = f32[4096,4096] tanh(v{n})" for n in range(operations))
    return f"""HloModule finished
f {{
  x = bf16[4096,512] parameter(0)
  y = bf16[512,4096] parameter(1)
  v0 = f32[4096,4096] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  {lines}
  ROOT r = bf16[4096,4096] convert(v{operations})
}}
ENTRY e {{
  x = bf16[4096,512] parameter(0)
  y = bf16[512,4096] parameter(1)
  ROOT r = bf16[4096,4096] fusion(x, y), kind=kOutput, calls=f
}}
"""


@pytest.mark.parametrize(("operations", "programs"), [(0, 1), (3, 1), (8, 2), (20, 2)])
def test_long_ends_of_products_run_beside_another_program(operations: int, programs: int) -> None:
    (step,) = lowering.lower(text.parse(_finished(operations)).entry.root, TARGET).steps
    assert isinstance(step, UnitKernel)
    assert step.kernel.tasks == programs * TARGET.cores


@pytest.mark.parametrize(
    ("said", "precision"),
    [
        ("", "tf32"),
        (", operand_precision={highest,highest}", "ieee"),
        (", operand_precision={default,high}", "ieee"),
        (", algorithm=dot_bf16_bf16_f32_x6", "bf16x6"),
        (", algorithm=dot_f32_f32_f32", "ieee"),
    ],
)
def test_precision_of_f32_is_what_the_module_says(said: str, precision: str) -> None:
    """TensorFlow's bridge says 'highest' where its switch for tf32 is off, and nothing where it is on."""
    instr = text.parse(product("f32", 64, 64, 64, said=said)).entry.root
    (step,) = lowering.lower(instr, TARGET).steps
    assert isinstance(step, UnitKernel)
    call = "_dot_thirds(*_thirds(" if precision == "bf16x6" else f"input_precision='{precision}'"
    assert call in render(step.kernel).text


EXACT = ", operand_precision={highest,highest}"


def test_thirds_are_as_exact_as_f32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large numbers stay finite, infinities and NaN stand where they belong, numbers of all sizes add up."""
    module = text.parse(product("f32", 24, 40, 65, said=EXACT))
    x, y = drawn(module)
    x[0], y[:, 0] = 3.3999e38, 0.25 / 65
    x[1] *= np.exp2(np.arange(65) - 32).astype(np.float32)
    (want,) = evaluate(module, [x, y])
    sizes = np.abs(x[1:]) @ np.abs(y)
    with chosen(monkeypatch, CHOICES["thirds"]):
        for backend in BACKENDS:
            (got,) = gpu_module.compiled(module, backend).executable.run([x, y])
            assert np.isfinite(got[0, 0])
            assert (np.abs(got[1:] - want[1:]) <= 1e-6 * sizes).all()
        x[3, 4], x[5, 32], y[2, 7], y[0, 0] = np.inf, np.nan, -np.inf, np.nan
        (want,) = evaluate(module, [x, y])
        (got,) = gpu_module.compiled(module, BACKENDS[0]).executable.run([x, y])
        np.testing.assert_allclose(got[2:], want[2:], 1e-5, 1e-5)


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("exponent", [-145, -125, -118, -104])
def test_numbers_whose_thirds_lose_bits_are_multiplied_in_f32(
    monkeypatch: pytest.MonkeyPatch, side: int, exponent: int
) -> None:
    """Wherever one stands: the last of an operand, that alone is added up to one of the results."""
    module = text.parse(product("f32", 70, 40, 65, said=EXACT))
    args = drawn(module)
    number = np.float32(2.0**exponent * (1 + 2**-3 + 2**-12 + 2**-17))
    x, y = args
    if side == 0:
        x[-1], x[-1, -1], y[-1, -1] = 0, number, 2.0**100
    else:
        y[:, -1], y[-1, -1], x[-1, -1] = 0, number, 2.0**100
    (want,) = evaluate(module, args)
    assert want[-1, -1] == float(number) * 2.0**100
    with chosen(monkeypatch, CHOICES["thirds"]):
        (got,) = gpu_module.compiled(module, BACKENDS[0]).executable.run(args)
    assert got[-1, -1] == want[-1, -1]
    rest = np.s_[:-1, :-1]
    np.testing.assert_allclose(got[rest], want[rest], 2e-5, 1e-4)


def test_both_products_are_launched_and_the_flag_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows a product runs once: its operand may be the result's own memory."""
    module = text.parse(
        f"""HloModule biased
ENTRY e {{ x = f32[64,48] parameter(0)
  y = f32[48,72] parameter(1)
  bias = f32[72] parameter(2)
  r = f32[64,72] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}{EXACT}
  b = f32[64,72] broadcast(bias), dimensions={{1}}
  ROOT sum = f32[64,72] add(r, b) }}
"""
    )
    with chosen(monkeypatch, CHOICES["thirds"]):
        check(module, drawn(module))
        made = gpu_module.compiled(module, BACKENDS[0])
    names = [step.symbol.split("_", 2)[2] for step in made.plan.steps if isinstance(step, KernelStep)]
    assert names == ["r_clear", "r_lhs", "r_rhs", "r", "r_f32"]
    sources = [render(kernel).text for kernel in made.code.kernels.values()]
    assert [source.count(".load([") for source in sources] == [0, 0, 0, 6, 0]


@pytest.mark.parametrize(
    ("size", "said", "arch", "found"),
    [
        (4096, EXACT, "sm_90", {0, 1}),
        (4096, "", "sm_90", {0}),
        (4096, EXACT, "sm_80", {0}),
        (4096, ", algorithm=dot_f32_f32_f32", "sm_90", {0, 1}),
    ],
)
def test_thirds_are_offered_where_every_bit_counts(size: int, said: str, arch: str, found: set[int]) -> None:
    instr = text.parse(product("f32", size, size, size, said=said)).entry.root
    assert {c["thirds"] for c in lowering.candidates(instr, replace(TARGET, arch=arch))} == found


@pytest.mark.parametrize(("size", "thirds"), [(256, 0), (8192, 1), (32768, 0)])
def test_large_products_of_f32_are_made_in_thirds(size: int, thirds: int) -> None:
    """But for those whose thirds would take much memory."""
    instr = text.parse(product("f32", size, size, size, said=EXACT)).entry.root
    first = lowering.candidates(instr, TARGET)[0]
    assert (first["thirds"], first["splits"]) == (thirds, 1)


@pytest.mark.parametrize(
    ("dims", "found"),
    [
        ((16, 4096, 4096), (16, 32, 256, 1)),
        ((1, 4096, 4096), (16, 32, 256, 1)),
        ((4096, 8, 4096), (32, 16, 256, 1)),
        ((16, 3072, 768), (16, 32, 256, 1)),
        ((1, 11008, 4096), (16, 64, 256, 1)),
        ((16, 768, 3072), (16, 32, 256, 5)),
    ],
)
def test_few_rows_are_read_with_much_under_way(dims: tuple[int, int, int], found: tuple[int, ...]) -> None:
    """The fastest of those measured, rows by columns by depth and splits."""
    first = lowering.candidates(text.parse(product("bf16", *dims)).entry.root, TARGET)[0]
    assert tuple(first[name] for name in ("rows", "cols", "depth", "splits")) == found


def test_few_rows_of_a_short_matrix_share_the_depth() -> None:
    first = lowering.candidates(text.parse(product("bf16", 16, 256, 16384)).entry.root, TARGET)[0]
    assert first["splits"] * (256 // first["cols"]) > TARGET.cores // 2


def test_a_row_lies_as_a_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose lanes of rows do not move what is read."""
    module = text.parse(product("bf16", 1, 40, 48))
    with chosen(monkeypatch, CHOICES["descriptors"]):
        check(module, drawn(module), 2e-2)
        (kernel,) = gpu_module.compiled(module, BACKENDS[0]).code.kernels.values()
    assert render(kernel).text.count("make_tensor_descriptor") == 2


def test_f32_is_multiplied_as_f32() -> None:
    source, made = generated(product("f32", 64, 64, 64, said=", operand_precision={highest,highest}"))
    assert "input_precision='ieee'" in source
    assert "tf32" not in made.texts["ptx"]


SEVERAL_RESULTS = """HloModule m
ENTRY e { a = bf16[8192,768] parameter(0)
  b = bf16[768,3072] parameter(1)
  x = f32[8192,3072] parameter(2)
  dot = bf16[8192,3072] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  wide = f32[8192,3072] convert(dot)
  more = f32[8192,3072] add(wide, x)
  times = f32[8192,3072] multiply(wide, x)
  ROOT r = (bf16[8192,3072], f32[8192,3072], f32[8192,3072]) tuple(dot, more, times) }
"""


@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_90"])
def test_programs_have_room_in_shared_memory(arch: str) -> None:
    """Blocks being read, and those of results on their way out: three results stand in the product's kernel."""
    backend = gpu.described(arch)
    made = compiler.compile_module(text.parse(SEVERAL_RESULTS), backend)
    (step,) = [s for s in made.plan.steps if isinstance(s, KernelStep)]
    assert len(step.outputs) == 3
    assert 0 < dict(step.params)["shared_bytes"] <= shared_bytes(backend.target)


def test_much_work_on_a_sum_is_done_in_parts() -> None:
    """So that no thread holds more of it than registers: numbers of three arrays read, and of three written."""
    wide = "f32[8192,3072]"
    source = f"""HloModule optimiser
ENTRY e {{ a = bf16[8192,768] parameter(0)
  b = bf16[768,3072] parameter(1)
  x = {wide} parameter(2)
  y = {wide} parameter(3)
  z = {wide} parameter(4)
  dot = {wide} dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  p = {wide} add(x, dot)
  q = {wide} multiply(y, dot)
  r = {wide} subtract(z, q)
  ROOT t = ({wide}, {wide}, {wide}) tuple(p, q, r) }}
"""
    backend = gpu.described()
    fused = compiler.fuse(text.parse(source), backend.machine, NOWHERE)[0]
    (fusion,) = [i for i in fused.entry.instrs if i.opcode == "fusion"]
    heavy, plain = (
        lowering.candidates(i, TARGET)[0] for i in (fusion, text.parse(product("bf16", 8192, 3072, 768)).entry.root)
    )
    assert (heavy["rows"], heavy["cols"], heavy["parts"]) == (128, 256, 8)
    assert plain["parts"] == 2


def test_candidates_begin_with_the_default() -> None:
    """A deep product of few blocks is split; other numbers are other kernels, what does not fit is refused."""
    instr = text.parse(product("bf16", 768, 2304, 32768, left="km")).entry.root
    found = lowering.candidates(instr, TARGET)
    assert found[0]["splits"] > 1
    keys = set()
    for choice in (DEFAULT, *found[: len(found) : len(found) // 20]):
        try:
            unit = lowering.lower(instr, TARGET, choice)
        except UnsupportedError:  # too much shared memory
            continue
        keys.add(tuple(key(s.kernel) for s in unit.steps if isinstance(s, UnitKernel)))
    assert len(keys) > 10
    with pytest.raises(UnsupportedError, match="rows=24"):
        lowering.lower(instr, TARGET, Choice({"rows": 24}))


@pytest.mark.parametrize("types", [("f8e5m2", "f8e5m2"), ("f8e4m3fn", "f8e5m2"), ("bf16", "f8e4m3b11fnuz")])
@pytest.mark.parametrize("packs", [0, 1, 2, 3])
def test_numbers_of_eight_bits_are_multiplied_as_bf16(
    monkeypatch: pytest.MonkeyPatch, types: tuple[str, str], packs: int
) -> None:
    """Which has them all: products and sums are those of f32."""
    module = text.parse(
        f"""HloModule narrow
ENTRY e {{ x = {types[0]}[24,43] parameter(0)
  y = {types[1]}[43,40] parameter(1)
  ROOT r = f32[24,40] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}
"""
    )
    with chosen(monkeypatch, replace(CHOICES["descriptors"], packs=packs)):
        check(module, drawn(module), 1e-6)
        made = gpu_module.compiled(module, BACKENDS[0])
    assert ".to(tl.bfloat16)" in "".join(render(kernel).text for kernel in made.code.kernels.values())


def test_integers_of_four_bits_are_multiplied(monkeypatch: pytest.MonkeyPatch) -> None:
    module = text.parse(product("s4", 19, 33, 40, out="s32"))
    rng = np.random.default_rng(3)
    args = [rng.integers(-8, 8, p.shape.sample_dims).astype(DTYPES["s4"].numpy) for p in module.entry.params]
    with chosen(monkeypatch, SMALL):
        check(module, args, 0)


def test_a_kernel_without_tiles_around_its_product_is_refused() -> None:
    b = KernelBuilder("bare")
    x = b.input(F32)
    region = b.region([S64], lambda k: (b.load(x, k),))
    total = b.dot(F32, b.index(0), b.index(8), region, region, depth=16)
    b.store(b.output(F32), b.index(0), total)
    with pytest.raises(UnsupportedError, match="two tiles"):
        render(b.finish(1))
