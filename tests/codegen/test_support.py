"""Opcode x dtype x code generator, both ways: 'yes' means code comes out and is right, 'no' that generating fails
by the name of the opcode and dtype.

A sample runs; `TFXLA_SUPPORT=all` runs the whole table.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from tests.codegen import run_kernel
from tests.codegen.llvm.programs import hostile
from tests.codegen.triton import interpreter as triton_interpreter
from tests.hlo_case import assert_close
from tfxla_cluster.codegen.kernel import interpreter
from tfxla_cluster.codegen.kernel.builder import KernelBuilder
from tfxla_cluster.codegen.kernel.ir import Kernel
from tfxla_cluster.codegen.llvm import ops as llvm_ops
from tfxla_cluster.codegen.triton import ops as triton_ops
from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.codegen.triton.source import render
from tfxla_cluster.decision import Decision
from tfxla_cluster.errors import UnsupportedError
from tfxla_cluster.ir.attributes import complete
from tfxla_cluster.ir.dtype import DTYPES, PRED, DType
from tfxla_cluster.ir.evaluator import MEANINGS, Evaluator
from tfxla_cluster.ir.infer.elementwise import works_on
from tfxla_cluster.ir.node import Instr
from tfxla_cluster.ir.opcode import FUNCTION, OPCODES, SLOW, is_elementwise
from tfxla_cluster.ir.shape import array

COUNT, SAMPLE = 67, 16  # elements; one case of so many runs
ATTRS = {"compare": {"direction": "EQ"}, "reduce-precision": {"exponent_bits": 5, "mantissa_bits": 7}}
PARTS = {"c64": "f32", "c128": "f64"}
WHOLES = {part: whole for whole, part in PARTS.items()}
UNSIGNED = {4: "u4", 8: "u8", 16: "u16", 32: "u32", 64: "u64"}


@dataclass(frozen=True)
class Op:
    """An op on `operands`; `dtype`: the one it is listed under."""

    opcode: str
    dtype: DType
    operands: tuple[DType, ...]
    out: DType

    def __str__(self) -> str:
        return f"{self.opcode}-{self.dtype}"


def op(opcode: str, dtype: DType) -> Op:
    """The op with all its operands of `dtype`, as far as HLO lets it be so."""
    arity = OPCODES[opcode].arity or 1
    operands, out = (dtype,) * arity, dtype
    if opcode == "select":
        operands = (PRED, dtype, dtype)
    elif opcode in ("compare", "is-finite"):
        out = PRED
    elif opcode == "complex":
        out = DTYPES[WHOLES.get(dtype.name, "c64")]
    elif opcode in ("real", "imag", "abs"):
        out = DTYPES[PARTS.get(dtype.name, dtype.name)]
    elif opcode == "convert":
        out = DTYPES["s16"] if dtype.name == "f32" else DTYPES["f32"]
    elif opcode == "bitcast-convert":
        out = DTYPES[UNSIGNED.get(dtype.bits, "u64")]
    return Op(opcode, dtype, operands, out)


def table() -> list[Op]:
    opcodes = [name for name in OPCODES if is_elementwise(name) and name != "map"]
    whole = [op(opcode, dtype) for opcode in opcodes for dtype in DTYPES.values()]
    if os.environ.get("TFXLA_SUPPORT") == "all":
        return whole
    return [case for case in whole if zlib.crc32(str(case).encode()) % SAMPLE == 0]


def kernel(case: Op) -> Kernel:
    b = KernelBuilder("op")
    inputs, out = [b.input(d) for d in case.operands], b.output(case.out)
    with b.loop(b.index(0), b.index(COUNT), "vector") as i:
        loaded = [b.load(x, i) for x in inputs]
        b.store(out, i, b.op(case.opcode, *loaded, dtype=case.out, **ATTRS.get(case.opcode, {})))
    return b.finish(1)


def run_triton(kernel: Kernel, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], sizes: object) -> None:
    if not workers.usable():
        pytest.skip("no usable Triton is installed")
    source = render(kernel)
    read, written = [*map(parts, inputs)], [*map(parts, outputs)]
    written[0][...] = triton_interpreter.run(source, read, written, [], 1)[0]


def parts(x: np.ndarray) -> np.ndarray:
    """A complex array as its real and imaginary parts in turn."""
    return x.view(x.real.dtype) if x.dtype.kind == "c" else x


Support = Callable[[str, Sequence[DType], DType], Decision]
GENERATORS: dict[str, tuple[Support, Callable[..., None]]] = {
    "llvm": (llvm_ops.support, run_kernel.compiled),
    "interpreter": (interpreter.support, run_kernel.interpreted),
    "triton": (triton_ops.support, run_triton),
}


def arguments(case: Op) -> list[np.ndarray]:
    """Values that hurt; of complex numbers moderate ones, for at infinity and near it libraries differ."""
    with np.errstate(all="ignore"):
        given = [hostile(dtype, COUNT, seed) for seed, dtype in enumerate(case.operands)]
    return [np.where(np.abs(x) < 20, x, 1).astype(x.dtype) if x.dtype.kind == "c" else x for x in given]


def expected(case: Op, args: Sequence[np.ndarray]) -> np.ndarray:
    attrs = complete(case.opcode, dict(ATTRS.get(case.opcode, {})), case.operands[0].kind)
    instr = Instr(case.opcode, case.opcode, array(case.out, (COUNT,)), attrs=attrs)
    with np.errstate(all="ignore"):
        return np.asarray(MEANINGS[case.opcode](Evaluator(MEANINGS), instr, list(args)))


def ulps(case: Op) -> int:
    """Functions are approximations; what one instruction does is exact."""
    if case.operands[0].kind == "complex":
        return 256  # a power is exp(y * log(x))
    cost = OPCODES[case.opcode].cost
    return 8 if cost >= FUNCTION else 1 if cost >= SLOW else 0


@pytest.mark.parametrize("case", table(), ids=str)
@pytest.mark.parametrize("name", GENERATORS)
def test_support(name: str, case: Op) -> None:
    support, run = GENERATORS[name]
    args, out = arguments(case), np.zeros(COUNT, case.out.numpy)
    decision = support(case.opcode, case.operands, case.out)
    if not decision:
        assert decision.reason
        by_name = rf"{case.opcode} (on|of) {case.operands[0]}|({case.dtype}|{case.out}) has no Triton type"
        with pytest.raises(UnsupportedError, match=by_name):
            run(kernel(case), args, [out], {})
        return
    run(kernel(case), args, [out], {})
    if works_on(case.opcode, case.operands[0]):
        assert_close(out, expected(case, args), ulps(case), str(case))
