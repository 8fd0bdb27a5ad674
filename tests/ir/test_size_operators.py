"""Each size operator means the same folded, in NumPy, and in the machine code of the runtime and of the native op."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Mapping, Sequence

import llvmlite.binding as llvm
import llvmlite.ir as ll
import numpy as np
import pytest

from tfxla_cluster.ir import dim as dims
from tfxla_cluster.ir.dim import Dim, DimExpr
from tfxla_cluster.ir.size_operators import HIGHEST, LOWEST, OPERATORS
from tfxla_cluster.runtime.cpu import interpreter
from tfxla_cluster.runtime.launcher.encode import encode
from tfxla_cluster.runtime.plan import LaunchPlan, SizeSource
from tfxla_cluster.tf.native_op.records import Words, postfix
from tfxla_cluster.tf.native_op.run_code import dim_function

NAMES = ("a", "b", "c")
HOSTILE = (0, 1, -1, 2, -2, 7, -9, 64, 1 << 31, -(1 << 31), 1 << 32, 1 << 62, HIGHEST, HIGHEST - 1, LOWEST, LOWEST + 1)


def loaded(module: ll.Module, symbol: str, kind: type[ctypes._CFuncPtr]) -> ctypes._CFuncPtr:
    """The function `symbol` of `module` as machine code of this process; it keeps its engine alive."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(str(module)), machine)
    engine.finalize_object()
    function = kind(engine.get_function_address(symbol))
    function.engine = engine
    return function


@pytest.fixture(scope="module")
def runtime_code() -> ctypes._CFuncPtr:
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
    return loaded(interpreter.build(llvm.get_default_triple()), "evaluate_sizes", kind)


@pytest.fixture(scope="module")
def native_op_code() -> ctypes._CFuncPtr:
    module = ll.Module("sizes")
    module.triple = llvm.get_default_triple()
    dim_function(module, {})
    return loaded(module, "dim", ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p))


def by_runtime(code: ctypes._CFuncPtr, dim: Dim, numbers: Sequence[int]) -> int:
    encoded = encode(LaunchPlan("p", (), (), tuple(SizeSource(n, 0, 0) for n in NAMES), (), (), dim), lambda s: 0)
    values = encoded.values.copy()
    values[: len(NAMES)] = numbers
    code(encoded.expressions.ctypes.data, len(encoded.expressions), values.ctypes.data)
    return int(values[encoded.arena_value])


def by_native_op(code: ctypes._CFuncPtr, dim: Dim, numbers: Sequence[int]) -> int:
    program = postfix(dim, {name: k for k, name in enumerate(NAMES)})
    words, sizes = Words([len(program), *(word for pair in program for word in pair)]), Words(numbers)
    return int(code(words.address, sizes.address))


def by_numpy(dim: Dim, env: Mapping[str, int]) -> np.ndarray:
    if not isinstance(dim, DimExpr):
        return np.array(dim, np.int64)
    if dim.is_size:
        return np.array(env[dim.name], np.int64)
    with np.errstate(all="ignore"):
        return OPERATORS[dim.op].numpy(*(by_numpy(d, env) for d in dim.operands))


def in_64_bits(dim: Dim, env: Mapping[str, int]) -> tuple[int, bool]:
    """The fold, each result held at the limits of 64 bits, and whether none came to them."""
    if not isinstance(dim, DimExpr):
        return dim, True
    if dim.is_size:
        return env[dim.name], True
    (a, first), (b, second) = (in_64_bits(d, env) for d in dim.operands)
    exact = OPERATORS[dim.op].fold(a, b)
    held = min(max(exact, LOWEST), HIGHEST)
    return held, first and second and held == exact


def drawn(rng: random.Random, depth: int) -> Dim:
    """An expression as it is written: nothing in it is folded."""
    if depth == 0 or rng.random() < 0.2:
        return dims.sym(rng.choice(NAMES), 5) if rng.random() < 0.7 else rng.choice(HOSTILE)
    return DimExpr(rng.choice(list(OPERATORS)), (drawn(rng, depth - 1), drawn(rng, depth - 1)))


def check(dim: Dim, numbers: Sequence[int], runtime: ctypes._CFuncPtr, native_op: ctypes._CFuncPtr) -> bool:
    """Do all agree? True where no intermediate result left 64 bits."""
    env = dict(zip(NAMES, numbers))
    want, exact = in_64_bits(dim, env)
    assert by_runtime(runtime, dim, numbers) == want, f"{dim} at {env}"
    assert by_native_op(native_op, dim, numbers) == want, f"{dim} at {env}"
    if exact:
        assert dims.evaluate(dim, env) == want == by_numpy(dim, env), f"{dim} at {env}"
    return exact


@pytest.mark.parametrize("op", OPERATORS)
def test_each_operator_on_hostile_numbers(
    op: str, runtime_code: ctypes._CFuncPtr, native_op_code: ctypes._CFuncPtr
) -> None:
    a, b = dims.sym("a", 1), dims.sym("b", 1)
    pairs = [(x, y) for x in HOSTILE for y in HOSTILE]
    exact = [check(DimExpr(op, (a, b)), (x, y, 0), runtime_code, native_op_code) for x, y in pairs]
    assert sum(exact) > len(exact) // 2


def test_drawn_expressions(runtime_code: ctypes._CFuncPtr, native_op_code: ctypes._CFuncPtr) -> None:
    rng, exact = random.Random(7), 0
    for _ in range(1500):
        dim = drawn(rng, rng.randint(1, 4))
        small = rng.random() < 0.7
        numbers = [rng.randint(-20, 40) if small else rng.choice(HOSTILE) for _ in NAMES]
        exact += check(dim, numbers, runtime_code, native_op_code)
    assert exact > 700


@pytest.mark.parametrize("number", [5, -5, 0])
def test_by_zero_all_is_nothing(number: int) -> None:
    assert dims.make("floordiv", number, 0) == dims.make("mod", number, 0) == 0


@pytest.mark.parametrize("op", OPERATORS)
def test_folding_one_side_changes_no_value(op: str) -> None:
    """`make` leaves out operations that do nothing: the expression is worth what the operator says."""
    n = dims.sym("n", 4)
    for value in (-3, 0, 1, 6):
        for number in (-2, -1, 0, 1, 2):
            fold = OPERATORS[op].fold
            assert dims.evaluate(dims.make(op, n, number), {"n": value}) == fold(value, number)
            assert dims.evaluate(dims.make(op, number, n), {"n": value}) == fold(number, value)
