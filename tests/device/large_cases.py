"""Modules for the device that are too large for interpreters of kernels: several panels, blocks and digits; attention
with its gradient; sizes that are read at run time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tests.codegen.contraction.test_convolution import module as convolution
from tests.codegen.contraction.test_convolution import out_shape
from tests.codegen.lower.test_symbolic_modules import MODULES, argument
from tests.codegen.triton import test_attention
from tests.device.product_cases import exact, products
from tests.fusion.test_attention import TRAINED, arguments
from tests.hlo_case import Array, Case, combiner, module
from tests.hlo_linear import cholesky, solve
from tfxla_cluster.codegen.kernel.choice import UNTUNED, Choice, Choices, Given
from tfxla_cluster.ir import text
from tfxla_cluster.ir.builder import Builder
from tfxla_cluster.ir.node import Module
from tfxla_cluster.ir.size_values import instantiate, named_sizes

LESS = (
    "lt {{\n  a = {0}[] parameter(0)\n  b = {0}[] parameter(1)\n{1}  ROOT r = pred[] compare(a, b), direction={2}\n}}\n"
)
WITH = "  c = s32[] parameter(2)\n  d = s32[] parameter(3)\n"
TOTAL = "LT, type=TOTALORDER"
WIDE = {"radix": 1, "digit": 8, "block": 2048, "warps": 8}
ROWS = "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1"
SIZES = ((6, 5), (1, 1), (3, 17), (65, 2), (130, 70), (0, 4), (4, 0))


@dataclass(frozen=True)
class Large:
    """A module and sets of arguments of it, one for each size that it is run at. `ulps`: as Case has them;
    `any_order`: as Target has it."""

    name: str
    module: Module
    args: Sequence[Sequence[Array]]
    ulps: int
    choices: Choices = UNTUNED
    any_order: bool = False


def large() -> Iterator[Large]:
    """All of them."""
    for case in (*_linear(), *_sorts(), *_scatters(), *_lines(), *_channels()):
        yield Large(case.name, exact(text.parse(case.text)), [case.args()], case.ulps)
    for case in (c for c in _sorts() if c.name in ("sort-numbers-f32", "sort-numbers-u64", "sort-long")):
        for form in (WIDE, WIDE | {"block": 256, "warps": 2}):
            name = f"{case.name}-wide-{form['block']}"
            yield Large(name, text.parse(case.text), [case.args()], case.ulps, Given("r", Choice(form)))
    for case in _scatters():
        yield Large(f"{case.name}-any-order", text.parse(case.text), [case.args()], case.ulps, any_order=True)
    yield from _thirds()
    yield from _attention()
    yield from _sized()


def _linear() -> Iterator[Case]:
    for dtype, lower, n, dims in (
        ("f32", "true", 100, "3,"),
        ("f32", "false", 257, ""),
        ("f64", "true", 70, "2,"),
        ("bf16", "false", 96, "2,"),
        ("f32", "true", 64, "64,"),
    ):
        yield cholesky(dtype, lower, n, dims, 40 * n)
    yield cholesky("f32", "true", 100, "2,", -1)
    for dtype, left, n, b in (
        ("f32", "true", 100, "2,100,40"),
        ("f32", "false", 97, "2,33,97"),
        ("f32", "true", 256, "2,256,128"),
        ("bf16", "true", 70, "2,70,20"),
    ):
        for lower in ("true", "false"):
            for transpose in ("NO_TRANSPOSE", "TRANSPOSE"):
                yield solve(dtype, left, n, b, lower, transpose, 20 * n)


def _sort(name: str, dtype: str, dims: str, axis: int, order: str, numbers: bool = False) -> Case:
    kinds = [f"{dtype}[{dims}]", *[f"s32[{dims}]"] * numbers]
    lines = [f"  x{n} = {kind} parameter({n})" for n, kind in enumerate(kinds)]
    result = f"({', '.join(kinds)})" if numbers else kinds[0]
    operands = ", ".join(f"x{n}" for n in range(len(kinds)))
    lines.append(f"  ROOT r = {result} sort({operands}), dimensions={{{axis}}}, is_stable=true, to_apply=lt")
    return Case(name, module("\n".join(lines), LESS.format(dtype, WITH * numbers, order)), 0)


def _sorts() -> Iterator[Case]:
    for dtype in ("f32", "s16", "u64", "bf16"):
        order = TOTAL if dtype[0] != "u" and dtype[0] != "s" else "GT"
        yield _sort(f"sort-numbers-{dtype}", dtype, "2,2500", 1, order, numbers=True)
    yield _sort("sort-long", "f32", "5001", 0, TOTAL)
    for length in (300, 513, 1024, 4000):
        yield _sort(f"sort-lines-{length}", "f32", f"2,{length}", 1, TOTAL)
        yield _sort(f"sort-lines-numbers-{length}", "f32", f"2,{length}", 1, TOTAL, numbers=True)
    yield _sort("sort-columns", "s32", "1300,3", 0, "LT")


def _scatter(name: str, dtype: str, opcode: str, dims: tuple[int, int, int]) -> Case:
    places, count, inner = dims
    body = f"""  x = {dtype}[{places},{inner}] parameter(0)
  i = s32[{count},1] parameter(1)
  u = {dtype}[{count},{inner}] parameter(2)
  ROOT r = {dtype}[{places},{inner}] scatter(x, i, u), {ROWS}, to_apply=f"""
    return Case(f"scatter-{name}", module(body, combiner(opcode, dtype)), 64, low=-3, high=places + 2, finite=True)


def _scatters() -> Iterator[Case]:
    for opcode in ("add", "maximum", "multiply"):
        yield _scatter(f"{opcode}-rows", "f32", opcode, (500, 3000, 64))
        yield _scatter(f"{opcode}-numbers", "f32", opcode, (900, 9001, 1))
        yield _scatter(f"{opcode}-integers", "s32", opcode, (300, 2500, 7))
        yield _scatter(f"{opcode}-few-places", "f32", opcode, (8, 2100, 33))
        yield _scatter(f"{opcode}-few", "f32", opcode, (50, 300, 10))


def _lines() -> Iterator[Case]:
    """Sums of columns, rows and all; running sums; the largest."""
    for dims, axes, out in (("3001,700", "0", "700"), ("300,9001", "1", "300"), ("1201,901", "0,1", "")):
        for opcode, ulps in (("add", 256), ("maximum", 0)):
            body = f"  x = f32[{dims}] parameter(0)\n  i = f32[] constant(0)\n"
            body += f"  ROOT r = f32[{out}] reduce(x, i), dimensions={{{axes}}}, to_apply=f"
            yield Case(f"reduce-{opcode}-{dims}", module(body, combiner(opcode, "f32")), ulps, finite=True)
    for dims, window in (
        ("5001", "size=5001 pad=5000_0"),
        ("3,3001", "size=1x3001 pad=0_0x3000_0"),
        ("1001,40", "size=1001x1 pad=1000_0x0_0"),
    ):
        body = f"  x = s32[{dims}] parameter(0)\n  i = s32[] constant(0)\n"
        body += f"  ROOT r = s32[{dims}] reduce-window(x, i), window={{{window}}}, to_apply=f"
        yield Case(f"running-sum-{dims}", module(body, combiner("add", "s32")))


def _channels() -> Iterator[Case]:
    """Depthwise convolutions and their gradients."""
    for dtype, ulps in (("f32", 256), ("bf16", 8)):
        for name, lhs, rhs, window, labels, groups in (
            ("", (4, 17, 15, 72), (3, 3, 1, 72), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", "feature_group_count=72"),
            (
                "-strides",
                (4, 17, 15, 72),
                (3, 3, 1, 72),
                "size=3x3 stride=2x2 pad=1_1x1_1",
                "b01f_01io->b01f",
                "feature_group_count=72",
            ),
            (
                "-window",
                (4, 17, 15, 72),
                (4, 17, 15, 72),
                "size=17x15 pad=1_1x1_1",
                "f01b_i01o->01bf",
                "batch_group_count=72",
            ),
        ):
            said = f", {groups}"
            source = convolution(
                lhs, rhs, window, labels, out_shape(lhs, rhs, window, labels, dtype, said), dtype, said
            )
            yield Case(f"depthwise{name}-{dtype}", source, ulps, finite=True)


def _thirds() -> Iterator[Large]:
    """Products of f32 made of bf16, and in f32 where an operand holds what its thirds lose."""
    made = next(p for p in products() if p.name.startswith("product-thirds-"))
    for exponent in (0, -104, -118, -125, -145):
        rng = np.random.default_rng(7)
        x, y = (rng.standard_normal(p.shape.sample_dims).astype(np.float32) for p in made.module.entry.params)
        x[-1], x[-1, -1], y[-1, -1] = 0, np.float32(2.0**exponent * (1 + 2**-3 + 2**-12 + 2**-17)), 2.0**100
        yield Large(f"thirds-{exponent}", made.module, [[x, y]], made.ulps, made.choices)


def _attention() -> Iterator[Large]:
    """In the precision of f32, and in tf32 where f32 is left to the machine."""
    long = {"batch": 1, "heads": 2, "queries": 300, "keys": 260, "depth": 64, "width": 64}
    longer = {f"{name} over many blocks": replace(TRAINED[name], **long) for name in TRAINED if "dropout" not in name}
    for name, attention in {**test_attention.CASES, **longer}.items():
        made, args = text.parse(attention.text), [arguments(attention.text)]
        yield Large(f"attention-{name}", exact(made), args, {"f32": 1024, "bf16": 16, "f16": 32}[attention.dtype])
        if attention.dtype == "f32":
            yield Large(f"attention-tf32-{name}", made, args, 1 << 20)


def _sized() -> Iterator[Large]:
    """One executable for all sizes."""
    for name, make in MODULES.items():
        b = Builder("m")
        made = b.module(*make(b))
        least = min((size.low for size in named_sizes(made).values() if size.name == "n"), default=0)
        sets = []
        for n, m in SIZES:
            if n >= least:
                instance = instantiate(made, {"n": n, "m": m})
                sets.append([argument(p, np.random.default_rng(n + 1)) for p in instance.entry.params])
        yield Large(f"sized-{name}", made, sets, 4096)
