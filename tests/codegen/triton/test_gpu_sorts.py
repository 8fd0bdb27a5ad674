"""sort and topk on a GPU: lines in one run and in several, along any axis, any comparator, equal elements, NaN."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from tests.codegen.triton import gpu_module
from tfxla_cluster.codegen.kernel.lower.gpu import lane_sort, radix_sort, sort, topk
from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.ir import text
from tfxla_cluster.ir.builder import Builder, scalar_computation
from tfxla_cluster.ir.dim import sym
from tfxla_cluster.ir.dtype import DTYPES
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.ir.node import Module
from tfxla_cluster.ir.shape import array

pytestmark = pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")
BACKENDS = (gpu_module.Interpreted(), gpu_module.Checked())
LESS = "lt {{\n  a = {0}[] parameter(0)\n  b = {0}[] parameter(1)\n  ROOT r = pred[] compare(a, b), direction={1}\n}}\n"
# By the first operand, then the second, both falling.
PAIRS = """lt {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  g = pred[] compare(a, b), direction=GT
  e = pred[] compare(a, b), direction=EQ
  h = pred[] compare(c, d), direction=GT
  k = pred[] and(e, h)
  ROOT r = pred[] or(g, k)
}
"""


KEYS = [
    *((d, "LT") for d in ("s8", "u8", "s16", "u32", "s64", "u64")),
    *((d, "GT") for d in ("s32", "u16")),
    *((d, "LT, type=TOTALORDER") for d in ("f16", "bf16", "f32", "f64")),
    ("f32", "GT, type=TOTALORDER"),
    ("f32", "GT"),
    ("f64", "LT"),
]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("ONE_RUN", 16), ("RUN", 8), ("SEVERAL", 64), ("BLOCK", 16)):
        monkeypatch.setattr(sort, name, value)
    for name, value in (("BLOCK", 16), ("SCANNED", 64), ("CLEARED", 32), ("SHORT", 0)):
        monkeypatch.setattr(radix_sort, name, value)
    for name, given in (("WIDEST", {32: 16, 64: 8}), ("SEVERAL", 32)):
        monkeypatch.setattr(lane_sort, name, given)
    for name, value in (("CHUNK", 8), ("WIDTH", 8), ("HELD", 16)):
        monkeypatch.setattr(topk, name, value)


def check(module: Module, args: list[np.ndarray]) -> None:
    want = evaluate(module, args)
    for backend in BACKENDS:
        for got, wanted in zip(gpu_module.compiled(module, backend).executable.run(args), want, strict=True):
            assert got.tobytes() == wanted.tobytes()


def drawn(dims: tuple[int, ...], dtype: str = "f32") -> np.ndarray:
    """Few different values, zeros of both signs and infinities among them."""
    values = np.round(np.random.default_rng(len(dims)).standard_normal(dims) * 3) / 2
    values.flat[:5] = [np.inf, -0.0, 0.0, -np.inf, -0.0][: values.size]
    kind = DTYPES[dtype]
    return (values if kind.is_float else np.nan_to_num(values, posinf=9, neginf=-9)).astype(kind.numpy)


WAYS = ("radix", "wide radix", "lanes", "runs")
in_each_way = pytest.mark.parametrize("way", WAYS)


def choose(monkeypatch: pytest.MonkeyPatch, way: str, digit: int = 5) -> None:
    """`digit`: bits of one."""
    for name in ("RADIX_LENGTH", "LANE_RUNS"):
        monkeypatch.setattr(sort, name, 0 if "radix" in way else 10**9)
    monkeypatch.setattr(radix_sort, "DIGIT_BITS", digit)
    if way == "wide radix":
        monkeypatch.setattr(radix_sort, "WIDE", digit)
    if way == "runs":
        monkeypatch.setattr(sort, "packed", lambda form, key: None)


def hostile(dtype: str, count: int, nan: bool) -> np.ndarray:
    """Values that repeat, the least and the greatest; of floats zeros of both signs, denormals, infinities, `nan`."""
    kind, rng = DTYPES[dtype], np.random.default_rng(count)
    if kind.is_integer:
        info = ml_dtypes.iinfo(kind.numpy)
        ends = [info.min, info.max, 0, 1, info.max - 1]
        few = rng.choice(np.array(ends, kind.numpy), count)
        return np.where(rng.random(count) < 0.5, few, rng.integers(0, 100, count).astype(kind.numpy))
    numbers = ml_dtypes.finfo(kind.numpy)
    ends = [
        0.0,
        -0.0,
        numbers.max,
        -numbers.max,
        np.inf,
        -np.inf,
        numbers.smallest_subnormal,
        *([np.nan, -np.nan] * nan),
    ]
    few = rng.choice(np.array(ends, kind.numpy), count)
    return np.where(rng.random(count) < 0.5, few, rng.standard_normal(count).round(1).astype(kind.numpy))


@in_each_way
@pytest.mark.parametrize(
    ("dims", "axis"),
    [((1,), 0), ((16,), 0), ((17,), 0), ((75,), 0), ((3, 33), 1), ((33, 2), 0), ((2, 20, 3), 1), ((9, 6), 1)],
)
def test_one_operand(monkeypatch: pytest.MonkeyPatch, dims: tuple[int, ...], axis: int, way: str) -> None:
    choose(monkeypatch, way)
    kind, direction = f"f32[{','.join(map(str, dims))}]", "GT" if axis else "LT"
    body = f"x = {kind} parameter(0)\n ROOT r = {kind} sort(x), dimensions={{{axis}}}, is_stable=true, to_apply=lt"
    check(text.parse(f"HloModule m\n\n{LESS.format('f32', direction)}\nENTRY e {{\n{body}\n}}\n"), [drawn(dims)])


@pytest.mark.parametrize(
    ("dtype", "order", "way"),
    [
        *((*key, "radix") for key in KEYS),
        *((*key, "wide radix") for key in KEYS[::4]),
        *((*key, "lanes") for key in KEYS if key[0][1:] not in ("64",)),
    ],
)
def test_keys(monkeypatch: pytest.MonkeyPatch, dtype: str, order: str, way: str) -> None:
    """Each with numbers that say where equal ones stood, and a passenger that is wider than the key."""
    choose(monkeypatch, way, {8: 3, 16: 4}.get(DTYPES[dtype].bits, 5))
    keys = hostile(dtype, 42, "TOTAL" in order)
    shapes = f"{dtype}[2,21]", "s32[2,21]", "s64[2,21]"
    comparator = LESS.format(dtype, order).replace(
        "ROOT",
        "".join(
            f"{n} = {kind}[] parameter({at})\n  "
            for at, n, kind in ((2, "c", "s32"), (3, "d", "s32"), (4, "e", "s64"), (5, "f", "s64"))
        )
        + "ROOT",
    )
    body = "".join(f" x{n} = {shape} parameter({n})\n" for n, shape in enumerate(shapes))
    body += f" ROOT r = ({', '.join(shapes)}) sort(x0, x1, x2), dimensions={{1}}, is_stable=true, to_apply=lt"
    numbers = np.arange(42, dtype=np.int32).reshape(2, 21)
    module = text.parse(f"HloModule m\n\n{comparator}\nENTRY e {{\n{body}\n}}\n")
    check(module, [keys.reshape(2, 21), numbers, numbers.astype(np.int64) << 40])


@pytest.mark.parametrize("way", ["radix", "wide radix", "runs"])
def test_lengths_that_are_read_at_run_time(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """More and fewer than the kernels were made for."""
    choose(monkeypatch, way)
    b = Builder("e")
    x = b.parameter(array(DTYPES["f32"], (2, sym("n", 40))))
    module = Module("m", b.build(b.sort([x], 1, scalar_computation("LT", "f32"), is_stable=True)))
    run = gpu_module.compiled(module, BACKENDS[1]).executable.run
    for length in (0, 1, 7, 40, 41, 130):
        values = drawn((2, length))
        np.testing.assert_array_equal(run([values])[0], np.sort(values, 1))


@pytest.mark.parametrize(("dtype", "order"), [key for key in KEYS if "TOTAL" in key[1] or key[0][0] in "su"])
@pytest.mark.parametrize("lines", [(3, 5), (2, 16), (1, 30)])
def test_keys_alone_give_their_values(dtype: str, order: str, lines: tuple[int, int]) -> None:
    """Every bit of them, NaN too."""
    kind, keys = f"{dtype}[{lines[0]},{lines[1]}]", hostile(dtype, lines[0] * lines[1], "TOTAL" in order)
    body = f"x = {kind} parameter(0)\n ROOT r = {kind} sort(x), dimensions={{1}}, is_stable=true, to_apply=lt"
    source = f"HloModule m\n\n{LESS.format(dtype, order)}\nENTRY e {{\n{body}\n}}\n"
    check(text.parse(source), [keys.reshape(lines)])


def test_two_keys_and_a_passenger() -> None:
    x, y, z = drawn((3, 37)), drawn((3, 37), "s32") // 2, np.arange(111, dtype=np.uint8).reshape(3, 37)
    comparator = PAIRS.replace("  g =", "  p = u8[] parameter(4)\n  q = u8[] parameter(5)\n  g =")
    body = (
        "x = f32[3,37] parameter(0)\n y = s32[3,37] parameter(1)\n z = u8[3,37] parameter(2)\n"
        " ROOT r = (f32[3,37], s32[3,37], u8[3,37]) sort(x, y, z), dimensions={1}, is_stable=true, to_apply=lt"
    )
    check(text.parse(f"HloModule m\n\n{comparator}\nENTRY e {{\n{body}\n}}\n"), [x, y, z])


@in_each_way
def test_nan_has_a_place(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """A comparator that says no of NaN both ways: they come last, and every other element is there."""
    choose(monkeypatch, way)
    x = drawn((61,))
    x[7::9] = np.nan
    body = "x = f32[61] parameter(0)\n ROOT r = f32[61] sort(x), dimensions={0}, is_stable=true, to_apply=lt"
    module = text.parse(f"HloModule m\n\n{LESS.format('f32', 'LT')}\nENTRY e {{\n{body}\n}}\n")
    for backend in BACKENDS:
        (found,) = gpu_module.compiled(module, backend).executable.run([x])
        np.testing.assert_array_equal(found, np.sort(x))


def test_a_comparator_that_asks_for_nan() -> None:
    """It sees them as the largest numbers, whatever their sign, and of equal ones the first stays first."""
    comparator = """lt {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  an = pred[] compare(a, a), direction=NE
  top = f32[] constant(inf)
  ka = f32[] select(an, top, a)
  bn = pred[] compare(b, b), direction=NE
  kb = f32[] select(bn, top, b)
  ROOT r = pred[] compare(ka, kb), direction=LT
}"""
    x = np.array([3, -np.nan, 1, np.nan, 2, -0.0, 0.0, np.inf], np.float32)
    body = "x = f32[8] parameter(0)\n ROOT r = f32[8] sort(x), dimensions={0}, is_stable=true, to_apply=lt"
    check(text.parse(f"HloModule m\n\n{comparator}\nENTRY e {{\n{body}\n}}\n"), [x])


@pytest.mark.parametrize(
    ("dtype", "dims", "k"),
    [
        ("f32", (5,), 5),
        ("bf16", (100,), 3),
        ("s8", (3, 41), 7),
        ("u32", (2, 2, 9), 2),
        ("f64", (4, 20), 20),
        ("s64", (3, 30), 6),
    ],
)
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("selected", [0, 7], ids=["counted", "selected"])
def test_topk(
    monkeypatch: pytest.MonkeyPatch, dtype: str, dims: tuple[int, ...], k: int, largest: bool, selected: int
) -> None:
    monkeypatch.setattr(topk, "SELECTED", selected)
    kind, values = DTYPES[dtype], hostile(dtype, math.prod(dims), True).reshape(dims)
    b = Builder("e")
    x = b.parameter(array(kind, dims))
    shape = f"({dtype}[{','.join(map(str, (*dims[:-1], k)))}], s32[{','.join(map(str, (*dims[:-1], k)))}])"
    check(Module("m", b.build(b.topk(x, shape, k, largest))), [values])
