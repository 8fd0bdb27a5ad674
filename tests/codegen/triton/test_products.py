"""Matrix products on a GPU: every choice of blocks gives the same numbers, by Triton's interpreter and by that of
kernel IR, for any dims and layout; what follows a product stands in its kernel."""

# ruff: noqa: E501  (lines of HLO text stay whole)
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.codegen.triton import gpu_module
from tests.codegen.triton.product_cases import BACKENDS, CHOICES, SMALL, TARGET, check, chosen, drawn, product
from tfxla_cluster import compiler
from tfxla_cluster.backends import gpu
from tfxla_cluster.codegen.kernel.ir import Dot
from tfxla_cluster.codegen.kernel.lower import gpu as lowering
from tfxla_cluster.codegen.kernel.unit import UnitKernel
from tfxla_cluster.codegen.kernel.walk import walk
from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.codegen.triton.source import render
from tfxla_cluster.dump.sink import NOWHERE
from tfxla_cluster.ir import text
from tfxla_cluster.ir.builder import Builder
from tfxla_cluster.ir.dim import Dim, sample, sym
from tfxla_cluster.ir.dtype import DTYPES
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.ir.node import Module
from tfxla_cluster.ir.shape import array
from tfxla_cluster.runtime.plan import KernelStep

pytestmark = pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")


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
