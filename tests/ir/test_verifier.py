"""Each labelled rule, broken once."""

# ruff: noqa: E501  (lines of HLO text stay whole)
from __future__ import annotations

from collections.abc import Callable

import pytest

from tfxla_cluster.errors import VerifierError
from tfxla_cluster.ir import text, verifier
from tfxla_cluster.ir.builder import Builder, scalar_computation
from tfxla_cluster.ir.dim import Dim, sym
from tfxla_cluster.ir.dtype import F32
from tfxla_cluster.ir.node import Alias, Computation, Instr, Module
from tfxla_cluster.ir.rules import RULES
from tfxla_cluster.ir.shape import TOKEN, array, tuple_of

ADD = scalar_computation("add", "f32", "sum")


def _module(body: str, computations: str = "") -> Callable[[], Module]:
    return lambda: text.parse(f"HloModule m\n{computations}\nENTRY e {{\n{body}\n}}")


def _edited(edit: Callable[[Builder, Instr, Instr], tuple[list[Instr], Instr]]) -> Callable[[], Module]:
    def make() -> Module:
        b = Builder("e")
        x = b.parameter("f32[2]")
        instrs, root = edit(b, x, b.negate(x))
        return Module("m", Computation("e", tuple(instrs), root))

    return make


def _two_of_a_name() -> Module:
    b = Builder("e")
    x, zero = b.parameter("f32[2,2]"), b.constant(0.0)
    once = b.reduce([x], [zero], (0,), scalar_computation("add", "f32", "f"))
    twice = b.reduce([once], [zero], (0,), scalar_computation("add", "f32", "f"))
    return b.module(twice)


def _bad_alias() -> Module:
    b = Builder("e")
    return b.module(b.negate(b.parameter("f32[2]"))).replace(aliases=(Alias((3,), 0),))


def _token_operand() -> Module:
    b = Builder("e")
    token = b.after_all()
    return Module("m", Computation("e", (token, Instr("n", "negate", TOKEN, (token,))), token))


def _less_than_nothing() -> Module:
    b = Builder("e")
    return b.module(b.pad(b.parameter("f32[2]"), b.constant(0.0), [(-3, 0, 0)]))


def _sized(*dims: Dim) -> Callable[[], Module]:
    def make() -> Module:
        b = Builder("e")
        return b.module(*[b.negate(b.parameter(array(F32, (dim,)))) for dim in dims])

    return make


STATE = "x = (s32[], f32[2]) parameter(0)\n"
ONE = "f {\n a = f32[] parameter(0)\n ROOT r = f32[] negate(a)\n}\n"
PAIR = "g {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] add(a, b)\n}\n"
BROKEN: dict[str, Callable[[], Module]] = {
    "S1": _edited(lambda b, x, n: ([n, x], n)),
    "S2": _edited(lambda b, x, n: ([x], n)),
    "S3": _edited(lambda b, x, n: (lambda y: ([y], y))(x.with_attrs(parameter_number=1))),
    "S4": _edited(lambda b, x, n: (lambda two: ([x, two], two))(n.replace(name=x.name))),
    "S5": _two_of_a_name,
    "S6": _edited(lambda b, x, n: (lambda y: ([x, y], y))(n.replace(control=(b.floor(x),)))),
    "S7": _edited(lambda b, x, n: (lambda y: ([x, y], y))(n.replace(opcode="conjure"))),
    "S8": _edited(lambda b, x, n: (lambda y: ([x, y], y))(n.replace(operands=(x, x)))),
    "S9": _bad_alias,
    "S10": _sized(sym("n", 2), sym("n", 2, low=1)),
    "S11": _sized(sym("n", 2) * 2, sym("n", 2) * 2),
    "A1": _edited(lambda b, x, n: (lambda y: ([x, y], y))(n.replace(attrs={"direction": "LT"}))),
    "A2": _edited(lambda b, x, n: (lambda y: ([x, y], y))(n.replace(opcode="transpose"))),
    "A3": _module("x = f32[2] parameter(0)\n ROOT r = f32[3] negate(x)"),
    "A4": _token_operand,
    "A5": _less_than_nothing,
    "E1": _module("x = f32[2] parameter(0)\n y = f32[3] parameter(1)\n ROOT r = f32[2] add(x, y)"),
    "E2": _module("x = f32[2] parameter(0)\n y = f16[2] parameter(1)\n ROOT r = f32[2] add(x, y)"),
    "E3": _module("x = s32[2] parameter(0)\n ROOT r = s32[2] tanh(x)"),
    "V1": _module("x = f32[2] parameter(0)\n ROOT r = f32[3,4] broadcast(x), dimensions={0}"),
    "V2": _module("x = f32[2] parameter(0)\n ROOT r = f32[3] reshape(x)"),
    "V3": _module("x = f32[2,3] parameter(0)\n ROOT r = f32[2,2] transpose(x), dimensions={0,0}"),
    "V4": _module("x = f32[2] parameter(0)\n ROOT r = f32[3] slice(x), slice={[0:3]}"),
    "V5": _module("x = f32[2] parameter(0)\n v = f16[] parameter(1)\n ROOT r = f32[3] pad(x, v), padding=0_1"),
    "V6": _module(
        "x = f32[2] parameter(0)\n y = f32[2,1] parameter(1)\n ROOT r = f32[4] concatenate(x, y), dimensions={0}"
    ),
    "V7": _module(
        "x = f32[2] parameter(0)\n i = f32[] parameter(1)\n ROOT r = f32[1] dynamic-slice(x, i), dynamic_slice_sizes={1}"
    ),
    "V8": _module("x = f32[2] parameter(0)\n ROOT r = f32[2] reverse(x), dimensions={1}"),
    "V9": _module(
        "x = f32[4,2] parameter(0)\n i = s32[3] parameter(1)\n ROOT r = f32[3,2] gather(x, i), offset_dims={1},"
        " collapsed_slice_dims={0}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,2}"
    ),
    "V10": _module("x = u8[3] parameter(0)\n ROOT r = u32[1] bitcast-convert(x)"),
    "R1": _module(
        "x = f32[2] parameter(0)\n z = s32[] parameter(1)\n ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=g",
        PAIR,
    ),
    "R2": _module(
        "x = f32[2] parameter(0)\n z = f32[] parameter(1)\n ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=f",
        ONE,
    ),
    "R3": _module(
        "x = f32[2] parameter(0)\n z = f32[] parameter(1)\n ROOT r = f32[] reduce(x, z), dimensions={1}, to_apply=g",
        PAIR,
    ),
    "R4": _module(
        "x = f32[2] parameter(0)\n z = f32[] parameter(1)\n ROOT r = f32[1] reduce-window(x, z), window={size=1x1}, to_apply=g",
        PAIR,
    ),
    "R5": _module("x = f32[2] parameter(0)\n ROOT r = f32[2] sort(x), dimensions={0}, to_apply=g", PAIR),
    "D1": _module(
        "x = f32[2,3] parameter(0)\n ROOT r = f32[2,3] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    ),
    "D2": _module(
        "x = f32[2,3] parameter(0)\n ROOT r = f32[2,3] convolution(x, x), window={size=1}, dim_labels=b0f_0io->b0f"
    ),
    "D3": _module(
        "x = f32[1,5,3] parameter(0)\n k = f32[1,2,4] parameter(1)\n ROOT r = f32[1,5,4] convolution(x, k),"
        " window={size=1}, dim_labels=b0f_0io->b0f"
    ),
    "F1": _module(STATE + " ROOT r = (s32[], f32[2]) while(x), condition=f, body=f", ONE),
    "F2": _module("x = f32[] parameter(0)\n ROOT r = f32[] conditional(x, x), branch_computations={f}", ONE),
    "F3": _module("x = f32[2] parameter(0)\n ROOT r = f32[2] call(x, x), to_apply=f", ONE),
    "F4": _module(STATE + " ROOT r = s32[] get-tuple-element(x), index=2"),
    "O1": _module(
        "x = f32[4,3] parameter(0)\n a = f32[4] parameter(1)\n"
        " ROOT r = (f32[4,3], f32[3], f32[3]) batch-norm-training(x, a, a), epsilon=0.1, feature_index=1"
    ),
    "O2": _module("x = f32[4,3] parameter(0)\n ROOT r = f32[4,3] cholesky(x), lower=true"),
    "O3": _module("x = f32[4] parameter(0)\n ROOT r = c64[4] fft(x), fft_type=FFT, fft_length={4}"),
    "O4": _module("x = f32[4] parameter(0)\n ROOT r = s32[] get-dimension-size(x), dimensions={1}"),
    "O5": _module("s = u64[5] parameter(0)\n ROOT r = (u64[5], u32[2]) rng-bit-generator(s), algorithm=rng_philox"),
    "O7": _module("x = f32[2,3] parameter(0)\n ROOT r = (f32[2,4], s32[2,4]) topk(x), k=4, largest=true"),
    "O8": _module(
        'x = f32[3] parameter(0)\n ROOT r = (f32[3], f32[3]) custom-call(x), custom_call_target="lapack_sgeqrf_ffi"'
    ),
    "O6": _edited(lambda b, x, n: (lambda c: ([x, c], c))(b.constant([1.0, 2.0], "f32").replace(shape=tuple_of()))),
}


@pytest.mark.parametrize("rule", RULES)
def test_rule(rule: str) -> None:
    with pytest.raises(VerifierError) as caught:
        verifier.verify(BROKEN[rule]())
    assert caught.value.rule == rule
    assert RULES[rule] in str(caught.value)


@pytest.mark.parametrize(
    ("operand", "result"),
    [
        ("f32[4]", "f32[3]"),  # no size that the run makes, and not the bound
        ("f32[4]", "f32[<=3]"),
        ("f32[4,2]", "f32[<=4,3]"),
        ("f32[4/*n*/,2]", "f32[4/*m*/,2]"),  # two sizes that are equal here
    ],
)
def test_a_size_that_is_set_ends_at_the_dimension(operand: str, result: str) -> None:
    def module(shape: str) -> Module:
        return text.parse(
            'HloModule m, frontend_attributes={tfxla_sizes="n=4>=2, m=4>=2"}\n'
            f"ENTRY e {{\n x = {operand} parameter(0)\n k = s32[] parameter(1)\n y = f32[4/*m*/] parameter(2)\n"
            f" ROOT r = {shape} set-dimension-size(x, k), dimensions={{0}}\n}}"
        )

    verifier.verify(module(operand))
    with pytest.raises(VerifierError) as caught:
        verifier.verify(module(result))
    assert caught.value.rule == "A3"
