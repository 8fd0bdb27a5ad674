"""Matrix products on a GPU: every choice of blocks gives the same numbers, by Triton's interpreter and by that of
kernel IR, for any dims and layout; what follows a product stands in its kernel."""

# ruff: noqa: E501  (lines of HLO text stay whole)
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace

import numpy as np
import pytest

from tests.codegen.triton import gpu_module
from tests.hlo_case import Array
from tfxla_cluster import compiler
from tfxla_cluster.backends import gpu
from tfxla_cluster.codegen.kernel.builder import KernelBuilder
from tfxla_cluster.codegen.kernel.choice import DEFAULT, Choice
from tfxla_cluster.codegen.kernel.ir import Dot
from tfxla_cluster.codegen.kernel.key import key
from tfxla_cluster.codegen.kernel.lower import gpu as lowering
from tfxla_cluster.codegen.kernel.lower.gpu import products
from tfxla_cluster.codegen.kernel.lower.gpu.capability import shared_bytes
from tfxla_cluster.codegen.kernel.lower.gpu.product_blocks import Blocks
from tfxla_cluster.codegen.kernel.unit import UnitKernel
from tfxla_cluster.codegen.kernel.walk import walk
from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.codegen.triton.source import render
from tfxla_cluster.codegen.triton.triton_source import Artefacts
from tfxla_cluster.dump.sink import NOWHERE
from tfxla_cluster.errors import UnsupportedError
from tfxla_cluster.ir import text
from tfxla_cluster.ir.builder import Builder
from tfxla_cluster.ir.dim import Dim, sample, sym
from tfxla_cluster.ir.dtype import DTYPES, F32, S64
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.ir.node import Module
from tfxla_cluster.ir.shape import array
from tfxla_cluster.runtime.plan import KernelStep

pytestmark = pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")
TARGET = gpu.described().target
BACKENDS = tuple(kind(replace(TARGET, cores=2)) for kind in (gpu_module.Interpreted, gpu_module.Checked))
SMALL = Blocks(16, 16, 16, 2, 2, group=2)
CHOICES = {
    "plain": SMALL,
    "tall": replace(SMALL, rows=32, group=1),
    "splits": replace(SMALL, splits=3),
    "more splits than depth": replace(SMALL, depth=32, splits=4),
    "parts": replace(SMALL, cols=32, parts=2),
    "four parts of splits": replace(SMALL, cols=64, parts=4, splits=2),
    "persistent": replace(SMALL, persistent=1),
    "descriptors": replace(SMALL, descriptors=1),
    "persistent descriptors": replace(SMALL, cols=32, parts=2, splits=2, persistent=1, descriptors=1),
    "packed": replace(SMALL, packs=3),
    "packed parts": replace(SMALL, packs=2, splits=2, descriptors=1),
    "stored blocks": replace(SMALL, cols=32, parts=2, persistent=1, descriptors=2),
    "thirds": replace(SMALL, cols=32, parts=2, descriptors=2, thirds=1),
}


def product(
    dtype: str, m: int, n: int, k: int, left: str = "mk", right: str = "kn", out: str = "", said: str = ""
) -> str:
    """A product of matrices that lie as `left` and `right` say; `said`: of its precision."""
    size = {"m": m, "n": n, "k": k}
    x, y = (f"{dtype}[{size[o[0]]},{size[o[1]]}]" for o in (left, right))
    axes = f"lhs_contracting_dims={{{left.index('k')}}}, rhs_contracting_dims={{{right.index('k')}}}"
    return f"""HloModule product
ENTRY e {{ x = {x} parameter(0)
  y = {y} parameter(1)
  ROOT r = {out or dtype}[{m},{n}] dot(x, y), {axes}{said} }}
"""


@contextmanager
def chosen(monkeypatch: pytest.MonkeyPatch, blocks: Blocks) -> Iterator[None]:
    """Every product in these blocks."""
    with monkeypatch.context() as patch:
        patch.setattr(products, "choose", lambda *_: blocks)
        yield


def drawn(module: Module, seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    found = []
    for parameter in module.entry.params:
        kind = parameter.shape.element_type.numpy
        values = rng.standard_normal(parameter.shape.sample_dims) * (1 if parameter.shape.element_type.is_float else 40)
        found.append(np.asarray(values).astype(kind))
    return found


def check(module: Module, args: list[Array], tolerance: float = 2e-5) -> None:
    want = evaluate(module, args)
    for backend in BACKENDS:
        got = gpu_module.compiled(module, backend).executable.run(args)
        for one, other in zip(got, want, strict=True):
            scale = max(float(np.abs(other.astype(np.float64)).max(initial=0)), 1e-30)
            np.testing.assert_allclose(one.astype(np.float64), other.astype(np.float64), tolerance, tolerance * scale)


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize(
    "dims", [(37, 53, 41), (32, 64, 96), (20, 36, 44), (2, 40, 17), (17, 3, 2), (1, 40, 24)], ids=str
)
def test_choices_agree(monkeypatch: pytest.MonkeyPatch, choice: str, dims: tuple[int, int, int]) -> None:
    with chosen(monkeypatch, CHOICES[choice]):
        module = text.parse(product("f32", *dims))
        check(module, drawn(module), 2e-3 if CHOICES[choice].packs else 2e-5)  # packed as tf32


@pytest.mark.parametrize("left", ["mk", "km"])
@pytest.mark.parametrize("right", ["kn", "nk"])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "s64"])
def test_layouts(monkeypatch: pytest.MonkeyPatch, left: str, right: str, dtype: str) -> None:
    forms = [(SMALL, (19, 33, 40)), (CHOICES["persistent descriptors"], (40, 72, 24))]
    for blocks, dims in [*forms, (CHOICES["thirds"], (19, 33, 43))][: 3 if dtype == "f32" else 2]:
        with chosen(monkeypatch, blocks):
            module = text.parse(product(dtype, *dims, left, right))
            check(module, drawn(module), 2e-2 if dtype == "bf16" else 2e-5)


def test_descriptors_only_where_rows_are_whole_units_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    with chosen(monkeypatch, CHOICES["descriptors"]):
        for k, found in ((40, 2), (42, 1)):  # those of y are 64 bytes long
            made = gpu_module.compiled(text.parse(product("bf16", 24, 32, k)), BACKENDS[0])
            (kernel,) = made.code.kernels.values()
            assert render(kernel).text.count("make_tensor_descriptor") == found


def converted(m: int, n: int, k: int) -> str:
    """A product of f32 rounded to bf16."""
    return f"""HloModule converted
ENTRY e {{ x = f32[{m},{k}] parameter(0)
  y = f32[{n},{k}] parameter(1)
  a = bf16[{m},{k}] convert(x)
  b = bf16[{n},{k}] convert(y)
  ROOT r = bf16[{m},{n}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}} }}
"""


@pytest.mark.parametrize("packs", [1, 2, 3])
@pytest.mark.parametrize(
    ("source", "lying"),
    [(converted(40, 33, 43), 0), (product("bf16", 24, 40, 43), 2), (product("f16", 40, 24, 17, "km", "nk"), 1)],
)
def test_operands_that_no_descriptor_reads_are_copied(
    monkeypatch: pytest.MonkeyPatch, source: str, lying: int, packs: int
) -> None:
    """What is computed, or rows that are not whole units of memory."""
    with chosen(monkeypatch, replace(CHOICES["descriptors"], packs=packs)):
        module = text.parse(source)
        check(module, drawn(module), 1e-2)
        made = gpu_module.compiled(module, BACKENDS[0])
    steps = [step for step in made.plan.steps if isinstance(step, KernelStep)]
    assert len(steps) == 1 + packs.bit_count()
    last = render(made.code.kernels[steps[-1].symbol]).text
    assert last.count("make_tensor_descriptor") == (packs | lying).bit_count()


def test_copies_are_stored_by_whole_accesses() -> None:
    """Rows that do not end at one are stored beyond their end."""
    module = text.parse(product("bf16", 4096, 768, 4090))
    made = compiler.compile_module(module, gpu.described())
    (copy,) = [s for s in made.plan.steps if isinstance(s, KernelStep) and s.symbol.endswith("lhs")]
    unit = lowering.lower(module.entry.root, TARGET)
    assert isinstance(unit.steps[0], UnitKernel)
    (artefacts,) = workers.compile_sources([render(unit.steps[0].kernel)], TARGET, 1)
    assert "st.global.v4.b32" in artefacts.texts["ptx"]
    assert "st.global.b16" not in artefacts.texts["ptx"]
    assert sample(copy.tasks) == 64 * 64


def test_what_is_rounded_is_multiplied_rounded() -> None:
    """Numbers that bf16 does not have, whose f32 and tf32 products are other ones."""
    module = text.parse(converted(32, 32, 64))
    x, y = (np.full((32, 64), 1 + 2.0**-8, np.float32) for _ in range(2))
    (got,) = gpu_module.compiled(module, BACKENDS[0]).executable.run([x, y])
    assert (got.astype(np.float32) == 64).all()


def test_copies_are_made_of_what_is_read_often() -> None:
    """And only where all operands can then be read in blocks."""
    backend = gpu.described()
    for dims, packs in (((8192, 4096, 4096), 3), ((8192, 256, 4096), 0), ((4096, 4096, 43), 3)):
        fused = compiler.fuse(text.parse(converted(*dims)), backend.machine, NOWHERE)[0]
        first = lowering.candidates(fused.entry.root, TARGET)[0]
        assert (first["packs"], first["descriptors"] > 0) == (packs, packs == 3)


def test_machines_without_descriptors_are_not_offered_them() -> None:
    instr = text.parse(product("bf16", 4096, 4096, 4096)).entry.root
    for arch, found in (("sm_80", {0}), ("sm_90", {0, 1, 2})):
        target = replace(TARGET, arch=arch)
        assert {c["descriptors"] for c in lowering.candidates(instr, target)} == found


def test_batches_of_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    source = """HloModule batches
ENTRY e { x = f32[3,2,20,24] parameter(0)
  y = f32[2,3,40,24] parameter(1)
  ROOT r = f32[3,2,20,40] dot(x, y), lhs_batch_dims={0,1}, rhs_batch_dims={1,0}, lhs_contracting_dims={3}, rhs_contracting_dims={3} }
"""
    for name in ("plain", "splits", "persistent", "descriptors", "persistent descriptors", "stored blocks"):
        with chosen(monkeypatch, CHOICES[name]):
            module = text.parse(source)
            check(module, drawn(module))


def test_narrow_factors_are_not_widened() -> None:
    """A convert before the product, or a wider result: the matrix units take what is in memory."""
    before = """HloModule widened
ENTRY e { a = bf16[20,30] parameter(0)
  b = bf16[30,40] parameter(1)
  x = f32[20,30] convert(a)
  y = f32[30,40] convert(b)
  ROOT r = f32[20,40] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }
"""
    for source in (before, product("bf16", 20, 40, 30, out="f32")):
        module = text.parse(source)
        made = gpu_module.compiled(module, BACKENDS[0])
        (kernel,) = made.code.kernels.values()
        (line,) = [line for line in render(kernel).text.splitlines() if "tl.dot(" in line]
        assert "tl.float32" not in "".join(_definitions(render(kernel).text, line))
        check(module, drawn(module))


def _definitions(source: str, line: str) -> list[str]:
    """The lines that define the factors of a tl.dot."""
    names = line.partition("tl.dot(")[2].split(", ")[:2]
    return [one for one in source.splitlines() if one.strip().startswith(tuple(f"{n} =" for n in names))]


def test_what_is_computed_before_a_product_is_zero_past_its_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    """1 / 0 of idle lanes would be infinite, and its product with 0 no number."""
    source = """HloModule prologue
ENTRY e { x = f32[20,19] parameter(0)
  y = f32[19,18] parameter(1)
  one = f32[] constant(1)
  ones = f32[20,19] broadcast(one), dimensions={}
  inverse = f32[20,19] divide(ones, x)
  ROOT r = f32[20,18] dot(inverse, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }
"""
    for blocks in (SMALL, replace(SMALL, splits=2)):
        with chosen(monkeypatch, blocks):
            module = text.parse(source)
            check(module, drawn(module))


EPILOGUE = """HloModule epilogue
ENTRY e { x = bf16[3,20,24] parameter(0)
  y = bf16[24,33] parameter(1)
  bias = bf16[33] parameter(2)
  other = f32[3,20,33] parameter(3)
  sums = bf16[3,20,33] dot(x, y), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  biases = bf16[3,20,33] broadcast(bias), dimensions={2}
  moved = bf16[3,20,33] add(sums, biases)
  zero = bf16[] constant(0)
  zeros = bf16[3,20,33] broadcast(zero), dimensions={}
  relu = bf16[3,20,33] maximum(moved, zeros)
  positive = pred[3,20,33] compare(moved, zeros), direction=GT
  wide = f32[3,20,33] convert(relu)
  scaled = f32[3,20,33] multiply(wide, other)
  ROOT t = (bf16[3,20,33], pred[3,20,33], f32[3,20,33]) tuple(relu, positive, scaled) }
"""


@pytest.mark.parametrize("choice", [name for name in CHOICES if name != "thirds"])  # these are of one matrix
def test_epilogue_stands_in_the_kernel(monkeypatch: pytest.MonkeyPatch, choice: str) -> None:
    with chosen(monkeypatch, CHOICES[choice]):
        module = text.parse(EPILOGUE)
        made = gpu_module.compiled(module, BACKENDS[0])
        assert len(made.code.kernels) == 1 + (CHOICES[choice].splits > 1) + CHOICES[choice].packs.bit_count()
        check(module, drawn(module), 2e-2)


def test_sizes_at_run_time() -> None:
    """One kernel for all sizes, empty ones too: nothing to add gives zeros."""
    m, n, k = sym("m", 40), sym("n", 50), sym("k", 60)
    made = {}
    for fixed in ((40, 50, 60), (1, 1, 1), (7, 130, 33), (3, 5, 0), (0, 4, 4), (200, 3, 70)):

        def build(dims: tuple[Dim, ...]) -> Module:
            b = Builder("main")
            x = b.parameter(array(DTYPES["f32"], (dims[0], dims[2])))
            y = b.parameter(array(DTYPES["f32"], (dims[2], dims[1])))
            return Module("sized", b.build(b.dot(x, y, [1], [0])))

        module = build(fixed)
        args, (want,) = drawn(module), evaluate(module, drawn(module))
        for backend in BACKENDS:
            run = made.setdefault(backend, gpu_module.compiled(build((m, n, k)), backend)).executable.run
            np.testing.assert_allclose(run(args)[0], want, 1e-4, 1e-4)


VECTORS = """HloModule vectors
ENTRY e {{ x = {dtype}[{x}] parameter(0)
  y = {dtype}[{y}] parameter(1)
  z = {dtype}[{out}] parameter(2)
  d = {dtype}[{out}] dot(x, y){axes}
  s = {dtype}[{out}] add(d, z)
  ROOT t = ({dtype}[{out}], {dtype}[{out}]) tuple(d, s) }}
"""
SHAPES = {
    "matrix times vector": ("37,50", "50", "37", "lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    "vector times matrix": ("50", "50,37", "37", "lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
    "one row": ("1,50", "37,50", "1,37", "lhs_contracting_dims={1}, rhs_contracting_dims={1}"),
    "batch": (
        "3,4,5,6",
        "3,5,6",
        "3,4",
        "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2,3}, rhs_contracting_dims={1,2}",
    ),
    "outer": ("5,7", "9", "5,7,9", ""),
    "depth 1": ("5,1", "1,9", "5,9", "lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    "inner": ("5000", "5000", "", "lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "s32"])
def test_vectors_are_reduced(shape: str, dtype: str) -> None:
    x, y, out, axes = SHAPES[shape]
    module = text.parse(VECTORS.format(dtype=dtype, x=x, y=y, out=out, axes=axes and f", {axes}"))
    made = gpu_module.compiled(module, BACKENDS[0])
    blocks = any(isinstance(s, Dot) for k in made.code.kernels.values() for s in walk(k.body))
    assert blocks == (shape == "vector times matrix"), "across memory blocks add up faster"
    check(module, drawn(module), 2e-2 if dtype == "bf16" else 2e-5)


def test_infinities_and_nan() -> None:
    module = text.parse(product("f32", 18, 20, 33))
    x, y = drawn(module)
    x[3, 4], x[5, 32], y[2, 7], y[0, 0] = np.inf, np.nan, -np.inf, np.nan
    (want,) = evaluate(module, [x, y])
    for backend in BACKENDS:
        (got,) = gpu_module.compiled(module, backend).executable.run([x, y])
        np.testing.assert_allclose(got, want, 1e-5, 1e-5)
        assert np.isnan(got[5]).all()


# --- generated code ---
def generated(source: str, blocks: Blocks | None = None, arch: str = "sm_90") -> tuple[str, Artefacts]:
    """Triton source and what it makes of the first kernel of the module's product."""
    choice = Choice({k: v for k, v in asdict(blocks).items() if k != "group"}) if blocks else DEFAULT
    unit = lowering.lower(text.parse(source).entry.root, TARGET, choice)
    step = unit.steps[0]
    assert isinstance(step, UnitKernel)
    rendered = render(step.kernel)
    (made,) = workers.compile_sources([rendered], replace(TARGET, arch=arch), 1)
    return rendered.text, made


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
