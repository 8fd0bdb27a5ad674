"""Products by a library: its double multiplies on the double of the driver, Triton's interpreter runs what is around
it, and all of it is compared with the evaluator."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.close import assert_near
from tests.codegen.triton import gpu_module
from tests.codegen.triton.library_cases import (
    AFTER,
    BATCHED,
    CASES,
    EPSILON,
    PLAIN,
    ByLibrary,
    WithLibrary,
    calls,
    dot,
    opened,
)
from tests.hlo_case import Case, module
from tests.runtime.cublaslt_double import WORKSPACES
from tfxla_cluster import compiler
from tfxla_cluster.codegen.kernel.library_product import CUDA_TYPES
from tfxla_cluster.codegen.kernel.unit import UnitLibrary
from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.ir import text
from tfxla_cluster.ir.builder import Builder
from tfxla_cluster.ir.dim import sym
from tfxla_cluster.ir.dtype import DTYPES
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.ir.shape import array
from tfxla_cluster.options import CompileOptions

pytestmark = pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")


@pytest.fixture
def backend() -> Iterator[WithLibrary]:
    with opened() as found:
        yield found


CONVOLUTIONS = {
    "conv 1x1": ("f32[2,5,3,7]", "f32[1,1,7,4]", "f32[2,5,3,4]", "window={size=1x1}, dim_labels=b01f_01io->b01f"),
    "conv 1x1 by image": (
        "bf16[2,5,3,4]",
        "bf16[1,1,7,4]",
        "bf16[2,5,3,7]",
        "window={size=1x1 rhs_reversal=1x1}, dim_labels=b01f_01oi->b01f",
    ),
    "conv 1x1 by window": (
        "f64[2,5,3,7]",
        "f64[2,5,3,4]",
        "f64[1,1,7,4]",
        "window={size=5x3}, dim_labels=f01b_i01o->01bf",
    ),
    "conv of lines": ("f32[6,9,7]", "f32[1,7,4]", "f32[6,9,4]", "window={size=1}, dim_labels=b0f_0io->b0f"),
}


CASES |= {
    name: f"  x = {x} parameter(0)\n  y = {y} parameter(1)\n  ROOT c = {out} convolution(x, y), {how}"
    for name, (x, y, out, how) in CONVOLUTIONS.items()
}


def tolerance(body: str) -> float:
    return max(bound for name, bound in EPSILON.items() if f"{name}[" in body)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("number", [0, len(WORKSPACES) - 1])
def test_values(name: str, number: int, backend: WithLibrary) -> None:
    """Algorithms without and with a workspace; hostile values."""
    case = Case(name, module(CASES[name]))
    parsed, args = text.parse(case.text), case.args()
    choices = ByLibrary(backend, number)
    made = compiler.compile_module(parsed, backend, CompileOptions(passes=False), choices=choices)
    assert len(calls(made.plan)) == len(choices.taken) == 1
    for _ in range(2):
        for got, want in zip(made.executable.run(args), flat(evaluate(parsed, args)), strict=True):
            assert_near(got, want, tolerance(case.text), name)
    assert backend.library[1].workspaces == [WORKSPACES[number]] * 2


FOLLOWED = {
    "by one": "  ROOT r = bf16[13,9] maximum(sum, zeros)\n",
    "the first output": "  r = bf16[13,9] tanh(sum)\n  ROOT t = (bf16[13,9], bf16[13,9]) tuple(d, r)\n",
    "the last output": "  r = bf16[13,9] tanh(sum)\n  ROOT t = (bf16[13,9], bf16[13,9]) tuple(r, d)\n",
    "of three": """  r = bf16[13,9] tanh(sum)
  w = f32[13,9] convert(d)
  v = bf16[117] reshape(d)
  ROOT t = (f32[13,9], bf16[117], bf16[13,9]) tuple(w, v, r)
""",
}


@pytest.mark.parametrize("name", FOLLOWED)
def test_a_narrow_product_with_more_to_do_is_written_wide_or_narrow(name: str, backend: WithLibrary) -> None:
    """Where it leaves the fusion the narrow one needs no memory of its own."""
    body = dot("bf16[13,21]", "bf16[21,9]", "bf16[13,9]", PLAIN, AFTER.format(t="bf16") + FOLLOWED[name], "d")
    case = Case(name, module(*fused(body)))
    parsed, args = text.parse(case.text), case.args()
    instr = next(i for i in parsed.entry.instrs if i.opcode == "fusion")
    others = backend.candidates(instr).others
    assert [o["type"] for o in others] == [CUDA_TYPES[t] for t in ("f32", "bf16") for _ in WORKSPACES]
    temporaries = [backend.lower(instr, others[n]).temps for n in (0, len(WORKSPACES))]
    assert temporaries == [(4 * 13 * 9,), (2 * 13 * 9,) if name == "by one" else ()]
    for number in (0, len(others) - 1):
        made = compiler.compile_module(
            parsed, backend, CompileOptions(passes=False, fusion=False), choices=ByLibrary(backend, number)
        )
        assert len(calls(made.plan)) == 1
        for got, want in zip(made.executable.run(args), flat(evaluate(parsed, args)), strict=True):
            assert_near(got, want, EPSILON["bf16"], name)


def fused(body: str) -> tuple[str, str]:
    """An entry that calls a fusion of these lines, and the fusion."""
    inner = f"inner {{\n{body}}}\n"
    root = text.parse(module(body)).entry.root
    params = text.parse(module(body)).entry.params
    lines = [f"  {p.name} = {p.shape} parameter({n})" for n, p in enumerate(params)]
    call = f"  ROOT f = {root.shape} fusion({', '.join(p.name for p in params)}), kind=kOutput, calls=inner"
    return "\n".join([*lines, call]), inner


def flat(value: object) -> list[np.ndarray]:
    return [np.asarray(v) for v in value] if isinstance(value, (list, tuple)) else [np.asarray(value)]


REFUSED = {
    "integers": dot("s8[13,21]", "s8[21,9]", "s32[13,9]", PLAIN),
    "an algorithm of ours": dot("f32[13,21]", "f32[21,9]", "f32[13,9]", f"{PLAIN}, algorithm=dot_bf16_bf16_f32_x3"),
    "no matrix": dot("f32[2,7,3]", "f32[7,4]", "f32[2,3,4]", "lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    "nothing": dot("f32[0,7]", "f32[7,4]", "f32[0,4]", PLAIN),
    "no depth": dot("f32[5,0]", "f32[0,4]", "f32[5,4]", PLAIN),
    "3x3": """  x = f32[2,5,3,7] parameter(0)
  y = f32[3,3,7,4] parameter(1)
  ROOT c = f32[2,5,3,4] convolution(x, y), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f""",
    "1x1 with strides": """  x = f32[2,5,3,7] parameter(0)
  y = f32[1,1,7,4] parameter(1)
  ROOT c = f32[2,3,2,4] convolution(x, y), window={size=1x1 stride=2x2}, dim_labels=b01f_01io->b01f""",
    "1x1 with padding": """  x = f32[2,5,3,7] parameter(0)
  y = f32[1,1,7,4] parameter(1)
  ROOT c = f32[2,7,5,4] convolution(x, y), window={size=1x1 pad=1_1x1_1}, dim_labels=b01f_01io->b01f""",
    "1x1 in groups": """  x = f32[2,5,3,6] parameter(0)
  y = f32[1,1,3,4] parameter(1)
  ROOT c = f32[2,5,3,4] convolution(x, y), window={size=1x1}, dim_labels=b01f_01io->b01f, feature_group_count=2""",
    "features first": """  x = f32[2,7,5,3] parameter(0)
  y = f32[4,7,1,1] parameter(1)
  ROOT c = f32[2,4,5,3] convolution(x, y), window={size=1x1}, dim_labels=bf01_oi01->bf01""",
    "whole but turned": """  x = f32[2,5,3,7] parameter(0)
  y = f32[5,3,7,4] parameter(1)
  ROOT c = f32[2,1,1,4] convolution(x, y), window={size=5x3 rhs_reversal=1x1}, dim_labels=b01f_01io->b01f""",
    "no product": "  x = f32[5] parameter(0)\n  ROOT y = f32[5] negate(x)",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_ours_alone(name: str, backend: WithLibrary) -> None:
    for instr in text.parse(module(REFUSED[name])).entry.instrs:
        if instr.opcode != "parameter":
            assert not backend.candidates(instr).others


def test_unknown_sizes_are_ours_alone(backend: WithLibrary) -> None:
    for dims in ((sym("m", 40), 7), (40, sym("k", 7))):
        b = Builder("main")
        x = b.parameter(array(DTYPES["f32"], dims))
        y = b.parameter(array(DTYPES["f32"], (dims[1], 9)))
        assert not backend.candidates(b.dot(x, y, [1], [0])).others


DEFAULTS = {
    "complex": (dot("c64[32,40]", "c64[40,33]", "c64[32,33]", PLAIN), True),
    "small complex": (dot("c64[5,7]", "c64[7,3]", "c64[5,3]", PLAIN), False),
    "complex, followed": (
        dot("c128[32,40]", "c128[40,33]", "c128[32,33]", PLAIN, "  ROOT r = c128[32,33] negate(d)", "d"),
        True,
    ),
    "f64 in batches": (dot("f64[2,200,200]", "f64[2,200,200]", "f64[2,200,200]", BATCHED), False),
    "f64": (dot("f64[200,200]", "f64[200,200]", "f64[200,200]", PLAIN), True),
    "small f64": (dot("f64[128,128]", "f64[128,128]", "f64[128,128]", PLAIN), False),
    "narrow f64": (dot("f64[16,4096]", "f64[4096,4096]", "f64[16,4096]", PLAIN), False),
    "f64, followed": (
        dot("f64[200,200]", "f64[200,200]", "f64[200,200]", PLAIN, "  ROOT r = f64[200,200] negate(d)", "d"),
        False,
    ),
    "weight gradient": (
        dot("bf16[8192,64]", "bf16[8192,96]", "bf16[64,96]", "lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
        True,
    ),
    "as deep, not by depth": (dot("bf16[64,8192]", "bf16[8192,96]", "bf16[64,96]", PLAIN), False),
    "f32": (dot("f32[512,512]", "f32[512,512]", "f32[512,512]", PLAIN), False),
    "none": ("  x = f64[5] parameter(0)\n  ROOT y = f64[5] negate(x)", False),
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults(name: str, backend: WithLibrary) -> None:
    """By the library's first algorithm where it is known to be faster, unless a choice says otherwise."""
    body, expected = DEFAULTS[name]
    parsed = text.parse(module(body))
    made = compiler.compile_module(parsed, backend, CompileOptions(passes=False))
    assert len(calls(made.plan)) == expected
    (instr,) = made.chosen
    others = backend.candidates(instr).others
    assert [s.params for s in calls(made.plan)] == [
        s.params for s in (backend.lower(instr, others[0]).steps if expected else ()) if isinstance(s, UnitLibrary)
    ]
    assert not any(isinstance(s, UnitLibrary) for s in backend.lower(instr, backend.candidates(instr)[0]).steps)
    assert not calls(compiler.compile_module(parsed, gpu_module.Interpreted()).plan)
