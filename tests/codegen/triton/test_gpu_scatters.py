"""scatter on a GPU: rows, points and windows, repeated and outside, with every kind of combiner."""

from __future__ import annotations

import numpy as np
import pytest

from tests.close import assert_near
from tests.codegen.triton import gpu_module
from tfxla_cluster.backends import gpu
from tfxla_cluster.codegen.kernel.lower.gpu import lane_sort, radix_sort, scatter, scatter_order, scatter_segments, sort
from tfxla_cluster.codegen.kernel.unit import UnitKernel
from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.ir import text
from tfxla_cluster.ir.builder import Builder, scalar_computation
from tfxla_cluster.ir.dim import sym
from tfxla_cluster.ir.dtype import DTYPES
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.ir.node import Module
from tfxla_cluster.ir.shape import array

pytestmark = pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")
ANY_ORDER = gpu.described(any_order=True).target
BACKENDS = (gpu_module.Interpreted(ANY_ORDER), gpu_module.Checked(ANY_ORDER))
ROWS = "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1"
POINTS = "update_window_dims={}, inserted_window_dims={0,1}, scatter_dims_to_operand_dims={1,0}, index_vector_dim=2"
WINDOWS = "update_window_dims={1,2}, inserted_window_dims={}, scatter_dims_to_operand_dims={0,1}, index_vector_dim=1"
BATCHES = (
    "update_window_dims={2}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, index_vector_dim=2,"
    " input_batching_dims={0}, scatter_indices_batching_dims={0}"
)
# operand, indices, updates, dimension numbers
FORMS = {
    "rows": ((9, 5), (40, 1), (40, 5), ROWS),
    "few rows": ((9, 5), (7, 1), (7, 5), ROWS),
    "one row": ((9, 5), (1, 1), (1, 5), ROWS),
    "points": ((7, 6), (5, 9, 2), (5, 9), POINTS),
    "windows": ((9, 8), (12, 2), (12, 3, 2), WINDOWS),
    "batches": ((3, 5, 4), (3, 12, 1), (3, 12, 4), BATCHES),
    "no updates": ((9, 5), (0, 1), (0, 5), ROWS),
}
SCALAR = "f {{\n a = {0}[] parameter(0)\n b = {0}[] parameter(1)\n{1}}}\n"
ROOTS = {
    "add": " ROOT r = {0}[] add(a, b)\n",
    "later": " ROOT r = {0}[] add(b, a)\n",
    "subtract": " ROOT r = {0}[] subtract(a, b)\n",
    "maximum": " ROOT r = {0}[] maximum(a, b)\n",
    "replace": " c = {0}[] add(a, b)\n ROOT b2 = {0}[] subtract(c, a)\n",
    "away": " ROOT r = {0}[] subtract(b, a)\n",
}


# So that small arrays take every way.
SMALL = {
    sort: {"ONE_RUN": 16, "RUN": 8, "SEVERAL": 64, "BLOCK": 16, "RADIX_LENGTH": 20},
    radix_sort: {"BLOCK": 16, "DIGIT_BITS": 2},
    scatter: {"BLOCK": 8, "FEW": 8},
    scatter_order: {"BLOCK": 8},
    lane_sort: {"WIDEST": {32: 16, 64: 8}},
    scatter_segments: {"CHUNKS": (4,), "LANES": 4, "LEAST": 8, "HEADS_AT_ONCE": 2},
}


@pytest.fixture(autouse=True, params=["sorted", "as they come"])
def small_blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Updates that the machine could make as they come are sorted too."""
    if request.param == "sorted":
        monkeypatch.setattr(scatter, "MOST_UPDATES", 0)
    for module, numbers in SMALL.items():
        for name, value in numbers.items():
            monkeypatch.setattr(module, name, value)


def module_text(form: str, dtype: str, root: str, extra: str = "") -> str:
    shapes = [",".join(map(str, dims)) for dims in FORMS[form][:3]]
    return (
        f"HloModule m\n\n{SCALAR.format(dtype, ROOTS[root].format(dtype))}\nENTRY e {{\n"
        f" x = {dtype}[{shapes[0]}] parameter(0)\n i = s32[{shapes[1]}] parameter(1)\n"
        f" u = {dtype}[{shapes[2]}] parameter(2)\n"
        f" ROOT r = {dtype}[{shapes[0]}] scatter(x, i, u), {FORMS[form][3]}{extra}, to_apply=f\n}}\n"
    )


def check(source: str, args: list[np.ndarray]) -> None:
    module = text.parse(source)
    for backend in BACKENDS:
        (got,) = gpu_module.compiled(module, backend).executable.run(args)
        assert_near(got, evaluate(module, args)[0], 1e-6)


def drawn(form: str, dtype: type) -> list[np.ndarray]:
    """Indices of which some repeat and some lie outside."""
    rng = np.random.default_rng(1)
    operand, indices, updates, _ = FORMS[form]
    values = [(rng.standard_normal(dims) * 4).astype(dtype) for dims in (operand, updates)]
    return [values[0], rng.integers(-1, min(operand), indices).astype(np.int32), values[1]]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("root", ["add", "away"])
def test_forms(form: str, root: str) -> None:
    check(module_text(form, "f32", root), drawn(form, np.float32))


@pytest.mark.parametrize("root", ROOTS)
def test_combiners(root: str) -> None:
    check(module_text("rows", "s32", root), drawn("rows", np.int32))


@pytest.mark.parametrize("root", ["add", "maximum"])
def test_one_place_takes_nearly_all(root: str) -> None:
    """A stretch of many chunks, and NaN and infinities in it."""
    operand, indices, update = drawn("rows", np.float32)
    indices[3:] = 4
    update[17, 1], update[20:22, 2], update[5, 3] = np.nan, (np.inf, -np.inf), np.inf
    check(module_text("rows", "f32", root), [operand, indices, update])


@pytest.mark.parametrize("form", ["rows", "points"])
def test_places_sorted_in_runs(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """As few units, and those of a number of places that is not known, are."""
    monkeypatch.setattr(sort, "RADIX_LENGTH", 10**9)
    check(module_text(form, "f32", "add"), drawn(form, np.float32))


@pytest.mark.parametrize("known", [True, False], ids=["known places", "any places"])
def test_sizes_that_are_read_at_run_time(known: bool) -> None:
    """More and fewer updates, and places, than the kernels were made for."""
    numbers = {"update_window_dims": (1,), "inserted_window_dims": (0,), "scatter_dims_to_operand_dims": (0,)}
    b, f32 = Builder("e"), DTYPES["f32"]
    count, places = sym("n", 40), 9 if known else sym("p", 9)
    x, i = b.parameter(array(f32, (places, 5))), b.parameter(array(DTYPES["s32"], (count, 1)))
    u = b.parameter(array(f32, (count, 5)))
    root = b.scatter([x], i, [u], scalar_computation("add", "f32"), **numbers, index_vector_dim=1)
    run = gpu_module.compiled(Module("m", b.build(root)), BACKENDS[1]).executable.run
    rng = np.random.default_rng(3)
    for updates in (40, 0, 1, 7, 133):
        at = 9 if known else updates % 5 + 3
        args = [rng.standard_normal((at, 5)), rng.integers(-1, at + 1, (updates, 1)), rng.standard_normal((updates, 5))]
        args = [a.astype(np.int32 if a.dtype.kind == "i" else np.float32) for a in args]
        want = args[0].copy()
        for where, update in zip(args[1][:, 0], args[2]):
            if 0 <= where < at:
                want[where] += update
        assert_near(run(args)[0], want, 1e-6)


def test_later_update_stands() -> None:
    source = module_text("points", "f32", "add").replace(" ROOT r = f32[] add(a, b)\n", " ROOT r = f32[] copy(b)\n")
    check(source, drawn("points", np.float32))
    second = module_text("points", "f32", "add").replace(
        "\n b = f32[] parameter(1)\n ROOT r = f32[] add(a, b)\n", "\n ROOT b = f32[] parameter(1)\n"
    )
    check(second, drawn("points", np.float32))


def test_unique_indices() -> None:
    operand, _, update = drawn("few rows", np.float32)
    indices = np.array([[3], [0], [8], [9], [-1], [2], [5]], np.int32)
    check(module_text("few rows", "f32", "add", ", unique_indices=true"), [operand, indices, update])


def test_two_operands() -> None:
    """One combiner of both, which is not each apart: in order."""
    source = (
        "HloModule m\n\nf {\n a = f32[] parameter(0)\n b = s32[] parameter(1)\n c = f32[] parameter(2)\n"
        " d = s32[] parameter(3)\n"
        " g = pred[] compare(c, a), direction=GT\n v = f32[] select(g, c, a)\n n = s32[] select(g, d, b)\n"
        " ROOT t = (f32[], s32[]) tuple(v, n)\n}\nENTRY e {\n x = f32[9,5] parameter(0)\n y = s32[9,5] parameter(1)\n"
        " i = s32[40,1] parameter(2)\n u = f32[40,5] parameter(3)\n w = s32[40,5] parameter(4)\n"
        f" ROOT r = (f32[9,5], s32[9,5]) scatter(x, y, i, u, w), {ROWS}, to_apply=f\n}}\n"
    )
    x, i, u = drawn("rows", np.float32)
    y, w = np.zeros((9, 5), np.int32), np.arange(200, dtype=np.int32).reshape(40, 5)
    module = text.parse(source)
    want = evaluate(module, [x, y, i, u, w])
    for backend in BACKENDS:
        got = gpu_module.compiled(module, backend).executable.run([x, y, i, u, w])
        for one, other in zip(got, want, strict=True):
            np.testing.assert_array_equal(one, other)


UPDATES = {
    **dict.fromkeys(("add", "subtract", "maximum", "minimum"), ("s32", "u32", "s64", "u64", "f32", "f64")),
    **dict.fromkeys(("and", "or", "xor"), ("s32", "u64")),
}


def updates(dtype: str, count: int) -> np.ndarray:
    """Of floats with NaN of several bits, infinities and zeros of both signs among them."""
    rng, kind = np.random.default_rng(count), DTYPES[dtype]
    if not kind.is_float:
        info = np.iinfo(kind.numpy)
        few = rng.choice(np.array([info.min, info.max, 0, 1], kind.numpy), count)
        return np.where(rng.random(count) < 0.5, few, rng.integers(0, 100, count).astype(kind.numpy))
    few = rng.choice(np.array([np.nan, -np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0], kind.numpy), count)
    return np.where(rng.random(count) < 0.3, few, rng.standard_normal(count).astype(kind.numpy))


@pytest.mark.parametrize(("root", "dtype"), [(root, dtype) for root, dtypes in UPDATES.items() for dtype in dtypes])
def test_hostile_updates(root: str, dtype: str) -> None:
    """Each element has one, two or several updates, and one has none."""
    source = module_text("rows", dtype, "add").replace("add(a, b)", f"{root}(a, b)")
    indices = np.array([[0, 1, 1, 2, 2, 2, 3, 3][n % 8] + 4 * (n > 31) for n in range(40)], np.int32)[:, None]
    args = [updates(dtype, 45).reshape(9, 5), indices, updates(dtype, 200).reshape(40, 5)]
    with np.errstate(all="ignore"):
        (want,) = evaluate(text.parse(source), args)
    for backend in BACKENDS:
        (got,) = gpu_module.compiled(text.parse(source), backend).executable.run(args)
        np.testing.assert_allclose(got, want, *((1e-5, 1e-5) if DTYPES[dtype].is_float else (0, 0)))


@pytest.mark.parametrize(
    ("dtype", "root", "any_order", "found"),
    [
        ("f32", "add", True, True),
        ("f32", "add", False, False),
        ("f32", "subtract", False, False),
        ("f64", "maximum", False, True),
        ("s32", "add", False, True),
        ("s16", "add", True, False),
        ("bf16", "add", True, False),
        ("f32", "replace", True, False),
        ("s32", "away", True, False),
    ],
)
def test_updates_as_they_come(
    request: pytest.FixtureRequest, dtype: str, root: str, any_order: bool, found: bool
) -> None:
    """Where their order cannot be seen, or where any is allowed."""
    instr = text.parse(module_text("rows", dtype, root)).entry.root
    backend = gpu.described(any_order=any_order)
    as_they_come = "as they come" in request.node.name
    names = [step.kernel.name for step in backend.lower(instr).steps if isinstance(step, UnitKernel)]
    assert ("scatter.updates" in names) == (found and as_they_come)
    assert ("atomic" in backend.candidates(instr).space) == found


def test_many_updates_of_a_place_are_sorted() -> None:
    source = module_text("rows", "f32", "add").replace("[40,", "[20000,").replace("[9,5]", "[2,5]")
    (step, *_) = gpu.described(any_order=True).lower(text.parse(source).entry.root).steps
    assert isinstance(step, UnitKernel)
    assert step.kernel.name != "scatter.updates"
