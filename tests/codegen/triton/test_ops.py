"""What Triton forms there are for ops: the predicate says yes exactly where the emitter gives text."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.triton import interpreter
from tfxla_cluster.codegen.kernel.builder import KernelBuilder
from tfxla_cluster.codegen.kernel.ir import Op, Var
from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.codegen.triton.ops import expression, support
from tfxla_cluster.codegen.triton.source import render
from tfxla_cluster.errors import UnsupportedError
from tfxla_cluster.ir.dtype import DTYPES, F32, PRED, S64
from tfxla_cluster.ir.opcode import OPCODES

pytestmark = pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")
ELEMENTWISE = sorted(name for name, row in OPCODES.items() if row.category == "elementwise" and name != "map")
ATTRS = {"direction": "LT", "exponent_bits": 5, "mantissa_bits": 2}
ARITY = {"select": 3, "clamp": 3, "compare": 2}
# Elementwise opcodes with no form for a kind of type that HLO lets them have.
MISSING = {"complex", "imag", "stochastic-convert"}


@pytest.mark.parametrize("opcode", ELEMENTWISE)
@pytest.mark.parametrize("name", [n for n, d in DTYPES.items() if d.kind != "complex"])  # those are taken apart before
def test_support_and_emitter_agree(opcode: str, name: str) -> None:
    dtype = DTYPES[name]
    out = PRED if opcode in ("compare", "is-finite") else dtype
    operands = [Var(dtype) for _ in range(ARITY.get(opcode, 2))]
    op = Op(Var(out), opcode, tuple(operands), ATTRS)
    if support(opcode, [dtype] * len(operands), out):
        assert expression(op, [f"x{n}" for n in range(len(operands))])
    else:
        with pytest.raises(UnsupportedError, match=f"{opcode}|{name}"):
            expression(op, ["x"] * len(operands))


def test_opcodes_with_no_form_at_all() -> None:
    dtypes = [DTYPES[n] for n in ("pred", "s32", "u32", "f32")]
    assert {o for o in ELEMENTWISE if not any(support(o, [d] * 3, d) for d in dtypes)} == MISSING


@pytest.mark.parametrize(("name", "value"), [("f32", -0.0), ("f64", -0.0), ("bf16", np.nan), ("f16", -np.inf)])
@pytest.mark.parametrize("negate", [False, True])
def test_constants_keep_every_bit(name: str, value: float, negate: bool) -> None:
    dtype = DTYPES[name]
    b = KernelBuilder("constant")
    out = b.output(dtype)
    found = b.const(value, dtype)
    b.store(out, b.index(0), b.op("negate", found) if negate else found)
    (got,) = interpreter.run(render(b.finish(1)), [], [np.ones(1, dtype.numpy)], [], 1)
    wanted = np.array([-value if negate else value]).astype(dtype.numpy)
    np.testing.assert_array_equal(np.signbit(got.astype(float)), np.signbit(wanted.astype(float)))
    np.testing.assert_array_equal(got.astype(float), wanted.astype(float))


def test_constants_of_s64() -> None:
    b = KernelBuilder("least")
    b.store(b.output(S64), b.index(0), b.const(-(2**63), S64))
    (got,) = interpreter.run(render(b.finish(1)), [], [np.ones(1, np.int64)], [], 1)
    assert got[0] == -(2**63)


APPROXIMATE = {"exponential": np.exp, "logistic": lambda x: 1 / (1 + np.exp(-x)), "tanh": np.tanh}


@pytest.mark.parametrize("opcode", APPROXIMATE)
def test_approximate_functions_are_right_to_more_bits_than_bf16_has(opcode: str) -> None:
    small = np.array([0.0, -0.0, 1e-30, -1e-6, 0.031, -0.0313, 88.0, -88.0, 200.0, -200.0, np.inf, -np.inf, np.nan])
    x = np.concatenate([small, np.linspace(-20, 20, 51)]).astype(np.float32)
    b = KernelBuilder("approximate")
    source, out = b.input(F32), b.output(F32)
    b.store(out, b.task, b.op(opcode, b.load(source, b.task), approximate=True))
    with np.errstate(all="ignore"):
        (got,) = interpreter.run(render(b.finish(x.size)), [x], [np.ones_like(x)], [], x.size)
        wanted = APPROXIMATE[opcode](x.astype(np.float64))
        np.testing.assert_allclose(got, wanted.astype(np.float32), rtol=2.0**-15, atol=1e-37)
        number = ~np.isnan(x)
        np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(wanted[number]))
