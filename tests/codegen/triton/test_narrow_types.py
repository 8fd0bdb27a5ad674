"""Floats of 8 bits and integers of 4 on a GPU: every code, and all pairs of few, against the evaluator."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.triton import gpu_module
from tests.hlo_case import Array
from tfxla_cluster import compiler
from tfxla_cluster.backends import gpu
from tfxla_cluster.codegen.kernel.narrow_floats import F8, FORMATS
from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.ir import text
from tfxla_cluster.ir.dtype import DTYPES
from tfxla_cluster.ir.evaluator import evaluate

pytestmark = pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")
BACKENDS = (gpu_module.Interpreted(), gpu_module.Checked())
FLOAT_OPS = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "remainder")
INTEGER_OPS = (*FLOAT_OPS, "and", "or", "xor", "shift-left", "shift-right-logical", "shift-right-arithmetic", "power")
FLOAT_UNARY = ("negate", "abs", "sign", "exponential", "floor", "is-finite", "copy")
INTEGER_UNARY = ("negate", "abs", "sign", "not", "popcnt", "count-leading-zeros", "copy")
SOURCES = ("pred", "s8", "u8", "s16", "s32", "u64", "f16", "bf16", "f32", "f64")


def codes(dtype: str) -> Array:
    """All numbers of a type, infinities too, and of each sign the one NaN that is made: registers hold no other."""
    if DTYPES[dtype].is_float:
        form, found = FORMATS[dtype], np.arange(256, dtype=np.uint8)
        values = found.view(DTYPES[dtype].numpy)
        made = np.isin(found, [form.nan, form.nan | 0x80])
        return values[~np.isnan(values.astype(np.float32)) | made]
    low = -8 if dtype == "s4" else 0
    return np.arange(low, low + 16).astype(DTYPES[dtype].numpy)


def pairs(dtype: str) -> tuple[Array, Array]:
    values = codes(dtype)
    some = values[np.r_[: len(values) : max(len(values) // 9, 1)]]
    left, right = np.meshgrid(values, some)
    return left.ravel(), right.ravel()


def check(source: str, args: list[Array]) -> None:
    module = text.parse(source)
    want = evaluate(module, args)
    for backend in BACKENDS:
        for one, other in zip(gpu_module.compiled(module, backend).executable.run(args), want, strict=True):
            assert one.dtype == other.dtype
            wide = [np.asarray(x).astype(np.float64) for x in (one, other)]
            np.testing.assert_array_equal(*wide)
            np.testing.assert_array_equal(*(np.signbit(x) & ~np.isnan(x) for x in wide))


def module(lines: list[str], results: list[str], parameters: list[str]) -> str:
    places = [f"p{n} = {shape} parameter({n})" for n, shape in enumerate(parameters)]
    root = f"ROOT t = ({', '.join(results)}) tuple({', '.join(f'r{n}' for n in range(len(results)))})"
    return "HloModule narrow\nENTRY e {\n" + "\n".join(f"  {line}" for line in [*places, *lines, root]) + "\n}\n"


@pytest.mark.parametrize("dtype", [*F8, "s4", "u4"])
def test_operations(dtype: str) -> None:
    x, y = pairs(dtype)
    shape, is_float = f"{dtype}[{len(x)}]", DTYPES[dtype].is_float
    lines, results = [], []
    for op in FLOAT_OPS if is_float else INTEGER_OPS:
        if op == "power" and dtype == "s4":
            continue  # XLA and we differ for negative exponents of no use
        lines.append(f"r{len(results)} = {shape} {op}(p0, p1)")
        results.append(shape)
    for op in FLOAT_UNARY if is_float else INTEGER_UNARY:
        if dtype == "u4" and op in ("negate", "abs", "sign"):
            continue
        result = f"pred[{len(x)}]" if op == "is-finite" else shape
        lines.append(f"r{len(results)} = {result} {op}(p0)")
        results.append(result)
    for direction in ("LT", "EQ", "NE"):
        total = ", type=TOTALORDER" if is_float and direction == "LT" else ""
        lines.append(f"r{len(results)} = pred[{len(x)}] compare(p0, p1), direction={direction}{total}")
        results.append(f"pred[{len(x)}]")
    check(module(lines, results, [shape, shape]), [x, y])


@pytest.mark.parametrize("dtype", [*F8, "s4", "u4"])
def test_conversions_of_every_code(dtype: str) -> None:
    values = codes(dtype)
    others = [*SOURCES, *(name for name in (*F8[:2], "s4", "u4") if name != dtype)]
    lines = [f"r{n} = {other}[{len(values)}] convert(p0)" for n, other in enumerate(others)]
    check(module(lines, [f"{o}[{len(values)}]" for o in others], [f"{dtype}[{len(values)}]"]), [values])


@pytest.mark.parametrize("source", SOURCES)
def test_conversions_to_narrow_types_round_once(source: str) -> None:
    """Numbers beside and halfway between those of the narrow types, too large and too small ones."""
    kind = DTYPES[source]
    if kind.is_float:
        halves = [(v[:-1] + v[1:]) / 2 for v in (np.unique(codes(n).astype(np.float64)) for n in F8) if len(v)]
        near = np.concatenate([h[np.isfinite(h)] for h in halves])
        wide = np.concatenate([near, near * (1 + 2.0**-22), near * (1 - 2.0**-22)])
        rest = [0.0, -0.0, np.inf, -np.inf, np.nan, 6e4, -1e-7]
        values = np.unique(np.concatenate([wide, rest]).astype(kind.numpy))
    else:
        rng = np.random.default_rng(1)
        values = rng.integers(0, 2 if source == "pred" else 120, 400).astype(kind.numpy)
        if kind.bits > 16:
            values = np.concatenate([values, np.array([2**24 + 1, 2**25 + 2**21 + 1, 17 * 2**12 + 1], kind.numpy)])
    targets = [*F8, "s4", "u4"]
    lines = [f"r{n} = {target}[{len(values)}] convert(p0)" for n, target in enumerate(targets)]
    check(module(lines, [f"{t}[{len(values)}]" for t in targets], [f"{source}[{len(values)}]"]), [values])


def test_a_number_just_beyond_half_way_is_rounded_up() -> None:
    """By way of f32 it would stand at half way, and go to the even one."""
    source = module(["r0 = f8e5m2[2] convert(p0)"], ["f8e5m2[2]"], ["f64[2]"])
    for backend in BACKENDS[:1]:
        (got,) = gpu_module.compiled(text.parse(source), backend).executable.run(
            [np.array([1.125 * (1 + 2.0**-50), -1.125])]
        )
        assert got.astype(np.float64).tolist() == [1.25, -1.0]


@pytest.mark.parametrize(("one", "other"), [("f8e5m2", "s8"), ("u8", "f8e4m3fnuz"), ("f8e4m3", "f8e3m4"), ("s4", "u4")])
def test_the_same_bits_as_another_type(one: str, other: str) -> None:
    values = codes(one) if one != "u8" else np.arange(256).astype(np.uint8)
    check(
        module(
            [f"r0 = {other}[{len(values)}] bitcast-convert(p0)"], [f"{other}[{len(values)}]"], [f"{one}[{len(values)}]"]
        ),
        [values],
    )


@pytest.mark.parametrize("dtype", ["f8e5m2", "f8e4m3fn", "s4", "u4"])
def test_rows(dtype: str) -> None:
    """Reductions, moves, sorts and padding of narrow types."""
    rng = np.random.default_rng(2)
    values = codes(dtype)
    x = rng.choice(values[np.isfinite(values.astype(np.float64))], (6, 40))
    y = rng.choice(x.ravel(), (1,)).reshape(())
    source = f"""HloModule rows
larger {{ a = {dtype}[] parameter(0)
  b = {dtype}[] parameter(1)
  ROOT m = {dtype}[] maximum(a, b) }}
less {{ a = {dtype}[] parameter(0)
  b = {dtype}[] parameter(1)
  ROOT l = pred[] compare(a, b), direction=LT }}
ENTRY e {{ x = {dtype}[6,40] parameter(0)
  y = {dtype}[] parameter(1)
  top = {dtype}[6] reduce(x, y), dimensions={{1}}, to_apply=larger
  tops = {dtype}[40] reduce(x, y), dimensions={{0}}, to_apply=larger
  turned = {dtype}[40,6] transpose(x), dimensions={{1,0}}
  padded = {dtype}[8,43] pad(x, y), padding=1_1x2_1
  sorted = {dtype}[6,40] sort(x), dimensions={{1}}, to_apply=less
  ROOT t = ({dtype}[6], {dtype}[40], {dtype}[40,6], {dtype}[8,43], {dtype}[6,40])
    tuple(top, tops, turned, padded, sorted) }}
"""
    check(source, [x, y])


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_code_is_made_for_machines_without_such_types(arch: str) -> None:
    lines = ["a = f8e4m3fn[64] convert(p0)", "r0 = f8e4m3fn[64] multiply(a, a)", "r1 = s4[64] convert(p0)"]
    made = compiler.compile_module(
        text.parse(
            module(
                [*lines, "r2 = f8e5m2[64] convert(p1)"],
                ["f8e4m3fn[64]", "s4[64]", "f8e5m2[64]"],
                ["f32[64]", "f64[64]"],
            )
        ),
        gpu.described(arch),
    )
    assert all(code[:4] == b"\x7fELF" for code in made.code.objects)
