"""Whole modules with sizes, of opcodes that the fuzzer does not draw: compiled once, run at several sizes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.close import assert_near
from tfxla_cluster import compiler
from tfxla_cluster.backends import cpu, registry
from tfxla_cluster.ir import text
from tfxla_cluster.ir.builder import Builder, scalar_computation
from tfxla_cluster.ir.dim import Dim, sym
from tfxla_cluster.ir.dtype import F32, S32, U64
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.ir.node import ConvDims, Instr, Module, WindowDim
from tfxla_cluster.ir.shape import array, tuple_of
from tfxla_cluster.ir.size_values import instantiate, named_sizes
from tfxla_cluster.ir.verifier import verify

N, M = sym("n", 6), sym("m", 5)
LEAST = sym("n", 6, 1)  # of windows
LARGE = 100  # a stride beyond all sizes


def _floats(b: Builder, *dims: Dim) -> Instr:
    return b.parameter(array(F32, dims))


def _batch_norm(b: Builder) -> list[Instr]:
    x, vector = _floats(b, N, 4, M), [_floats(b, 4) for _ in range(4)]
    attrs = {"epsilon": 0.1, "feature_index": 1}
    trained = b.add_op("batch-norm-training", x, *vector[:2], **attrs)
    applied = b.add_op("batch-norm-inference", x, *vector[:3], b.multiply(vector[3], vector[3]), **attrs)
    outs = [b.get_tuple_element(trained, i) for i in range(3)]
    grad = b.add_op("batch-norm-grad", x, vector[0], *outs[1:], applied, **attrs)
    return [*outs, applied, *(b.get_tuple_element(grad, i) for i in range(3))]


def _feature_of_a_size(b: Builder) -> list[Instr]:
    x, scale, offset = _floats(b, 3, N), _floats(b, N), _floats(b, N)
    both = b.add_op("batch-norm-training", x, scale, offset, epsilon=0.1, feature_index=1)
    return [b.get_tuple_element(both, i) for i in range(3)]


def _sizes(b: Builder) -> list[Instr]:
    x = _floats(b, N, M)
    padded = b.pad(x, b.constant(0.0), [(0, 3), (N, 0)])
    return [b.add_op("get-dimension-size", v, dimensions=(d,)) for v in (x, padded) for d in (0, 1)]


def _bits(b: Builder) -> list[Instr]:
    _floats(b, N)
    state = b.parameter(array(U64, (2,)))
    shape = tuple_of(state.shape, array(U64, (N, 3)))
    both = b.add_op("rng-bit-generator", state, shape=shape, algorithm="rng_philox")
    return [b.get_tuple_element(both, i) for i in (0, 1)]


def _pool_gradient(b: Builder) -> list[Instr]:
    x, source = _floats(b, N, 8), _floats(b, N, 4)
    combine = [scalar_computation(opcode, "f32", opcode) for opcode in ("GE", "add")]
    return [b.select_and_scatter(x, source, b.constant(0.0), (WindowDim(1), WindowDim(2, 2)), *combine)]


def _windows_of_sizes(b: Builder) -> list[Instr]:
    """Cumulative ops, sums of whole dimensions, windows of a size with padding and strides, the choice in one."""
    x, source = _floats(b, LEAST, 3, M), _floats(b, 1, 3, M)
    add, ge = scalar_computation("add", "f32"), scalar_computation("GE", "f32", "GE")
    ends = [b.constant(v) for v in (0.0, 0.5)]
    windows = [
        (WindowDim(LEAST, 1, LEAST - 1, 0), WindowDim(1), WindowDim(1)),
        (WindowDim(LEAST, 1, 0, LEAST - 1), WindowDim(1), WindowDim(1)),
        (WindowDim(LEAST), WindowDim(3), WindowDim(1)),
        (WindowDim(LEAST, 2, LEAST, 1, 2), WindowDim(2, 1, 0, 1), WindowDim(1)),
    ]
    sums = [b.reduce_window([x], [end], window, add) for window in windows for end in ends]
    chosen = (WindowDim(LEAST, LARGE), WindowDim(1), WindowDim(1))
    padded = (WindowDim(LEAST, 1, LEAST - 1, 0), WindowDim(1), WindowDim(1))
    one = b.select_and_scatter(x, source, ends[1], chosen, ge, add)
    return [*sums, one, b.select_and_scatter(x, x, ends[0], padded, ge, add)]


def _gradients_of_convolutions(b: Builder) -> list[Instr]:
    """By the window, which is as large as the result: with padding, dilation, groups; windows of a size, reversed."""
    labels = ConvDims(3, 0, (1, 2), 0, 3, (1, 2), 2, 3, (0, 1))
    x, result = _floats(b, 2, LEAST * 2, 4, 6), _floats(b, 2, LEAST, 4, 8)
    around = (WindowDim(LEAST, 1, 1, 1, 1, 2), WindowDim(4, 1, 1, 1))
    full = b.convolution(x, result, window=around, dim_labels=labels)
    depthwise = b.convolution(x, _floats(b, 2, LEAST, 4, 6), window=around, dim_labels=labels, batch_group_count=6)
    line = ConvDims(0, 2, (1,), 1, 2, (0,), 0, 2, (1,))
    signal, kernel = _floats(b, 2, 5, 3), _floats(b, LEAST, 3, 4)
    turned = [WindowDim(LEAST, 1, LEAST - 1, LEAST, 1, 1, flip) for flip in (False, True)]
    wide = [b.convolution(signal, kernel, window=(w,), dim_labels=line) for w in turned]
    spread = b.convolution(signal, kernel, window=(WindowDim(LEAST, 1, 4, LEAST, 2),), dim_labels=line)
    return [full, depthwise, *wide, spread]


def _solve(b: Builder) -> list[Instr]:
    x, right = _floats(b, N, 4, 4), _floats(b, N, 4, M)
    square = b.dot(x, x, [2], [2], [0], [0])
    lower = b.cholesky(b.add(square, b.broadcast(b.constant(8.0), square.shape.dims)))
    return [b.triangular_solve(lower, right, left_side=True, lower=True)]


def _solve_of_a_size(b: Builder) -> list[Instr]:
    x, right = _floats(b, N, N), _floats(b, N, 3)
    eye = b.compare(b.iota(array(S32, (N, N)), 0), b.iota(array(S32, (N, N)), 1), "EQ")
    square = b.dot(x, x, [1], [1])
    ones = b.broadcast(b.constant(64.0), (N, N))
    lower = b.cholesky(b.add(square, b.select(eye, ones, b.broadcast(b.constant(0.0), (N, N)))))
    return [lower, b.triangular_solve(lower, right, left_side=True, lower=True)]


def _best(b: Builder) -> list[Instr]:
    x = _floats(b, N, 40)
    both = b.topk(x, tuple_of(array(F32, (N, 3)), array(S32, (N, 3))), 3)
    return [b.get_tuple_element(both, i) for i in (0, 1)]


def _calls(b: Builder) -> list[Instr]:
    x, y = _floats(b, N, M), _floats(b, N, M)
    inner = Builder("inner")
    parts = [inner.parameter(array(F32, (N, M))) for _ in range(2)]
    comp = inner.build(inner.maximum(*parts))
    return [b.call(comp, x, y), b.map([x, y], scalar_computation("subtract", "f32"))]


def _attention(b: Builder) -> list[Instr]:
    query, key, value = (_floats(b, N, M, 8) for _ in range(3))
    scores = b.dot(query, key, [2], [2], [0], [0])
    limits = [b.constant(v) for v in (-np.inf, 0.0)]
    most = b.reduce([scores], limits[:1], [2], scalar_computation("maximum", "f32"))
    shifted = b.exponential(b.subtract(scores, b.broadcast(most, (N, M, M), [0, 1])))
    total = b.reduce([shifted], limits[1:], [2], scalar_computation("add", "f32", "sum"))
    weights = b.divide(shifted, b.broadcast(total, (N, M, M), [0, 1]))
    return [b.dot(weights, value, [2], [1], [0], [0])]


MODULES: dict[str, Callable[[Builder], list[Instr]]] = {
    fn.__name__.strip("_"): fn
    for fn in (
        _batch_norm,
        _feature_of_a_size,
        _sizes,
        _bits,
        _pool_gradient,
        _windows_of_sizes,
        _gradients_of_convolutions,
        _solve,
        _solve_of_a_size,
        _best,
        _calls,
        _attention,
    )
}


def argument(param: Instr, seed: np.random.Generator) -> np.ndarray:
    if param.shape.element_type == U64:
        return seed.integers(0, 1 << 60, param.shape.sample_dims, np.uint64)
    return seed.standard_normal(param.shape.sample_dims).astype(np.float32)


# A solution is wrong by its matrix's condition times the error of a sum, whose order is the machine's.
CLOSE = {"solve": 1e-4, "solve_of_a_size": 1e-4}


@pytest.mark.parametrize("name", MODULES)
def test_compiled_once(name: str) -> None:
    b = Builder("m")
    module: Module = b.module(*MODULES[name](b))
    verify(module)
    executable = compiler.compile_module(module, cpu.this_machine()).executable
    least = min((size.low for size in named_sizes(module).values() if size.name == "n"), default=0)
    for n, m in ((6, 5), (1, 1), (3, 17), (65, 2), (0, 4), (4, 0)):
        if n < least:
            continue
        instance = instantiate(module, {"n": n, "m": m})
        verify(instance)
        args = [argument(p, np.random.default_rng(n + 1)) for p in instance.entry.params]
        for number, (got, want) in enumerate(zip(executable.run(args), evaluate(instance, args), strict=True)):
            what = f"{name} of {n}, {m}: output {number}"
            assert (got.dtype, got.shape) == (want.dtype, want.shape), what
            assert_near(got, want, CLOSE.get(name, 1e-5), what)


UPDATE = """
HloModule m
ENTRY e {
  x = f32[4,3] parameter(0)
  count = s32[] parameter(1)
  update = f32[2,3] parameter(2)
  zero = s32[] constant(0)
  rows = f32[<=4,3] set-dimension-size(x, count), dimensions={0}
  ROOT r = f32[<=4,3] dynamic-update-slice(rows, update, zero, zero)
}
"""


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_an_update_of_what_has_fewer_rows_than_it(backend: str) -> None:
    """Of rows whose count the run produces: those that are there are updated, and nothing beside them is written."""
    module = text.parse(UPDATE)
    executable = compiler.compile_module(module, registry.named(backend)).executable
    base, new = np.ones((4, 3), np.float32), np.full((2, 3), 7, np.float32)
    for n in range(5):
        (got,) = executable.run([base, np.array(n, np.int32), new])
        want = base[:n].copy()
        want[:2] = new[:n]
        np.testing.assert_array_equal(got, want)
