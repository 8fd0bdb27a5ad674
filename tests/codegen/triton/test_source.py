"""Kernel IR as Triton source: right in Triton's interpreter, and compiled to PTX with no GPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.close import assert_near
from tests.codegen.triton import interpreter
from tfxla_cluster.codegen.kernel.builder import KernelBuilder
from tfxla_cluster.codegen.kernel.key import key
from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.codegen.triton.source import render
from tfxla_cluster.errors import KernelError, UnsupportedError
from tfxla_cluster.ir.dim import sym
from tfxla_cluster.ir.dtype import F32, PRED, S32
from tfxla_cluster.target import Target

pytestmark = pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")
SM90 = Target("gpu", "sm_90")
WIDTH = 64  # lanes of vector loops
ROWS, COLUMNS = sym("rows", 5), sym("columns", 37)


def elementwise():
    """max(x + y * z, tanh(x)) a row a task."""
    b = KernelBuilder("elementwise")
    x, y, z, out = b.input(F32), b.input(F32), b.input(F32), b.output(F32)
    base = b.mul(b.task, b.size(COLUMNS))
    with b.loop(b.index(0), b.size(COLUMNS), "vector", WIDTH) as i:
        at = b.add(base, i)
        chain = b.op("add", b.load(x, at), b.op("multiply", b.load(y, at), b.load(z, at)))
        b.store(out, at, b.op("maximum", chain, b.op("tanh", b.load(x, at))))
    return b.finish(ROWS)


def softmax():
    """A row program: maximum, sum of exponentials, quotient."""
    b = KernelBuilder("softmax")
    x, out = b.input(F32), b.output(F32)
    base, zero, stop = b.mul(b.task, b.size(COLUMNS)), b.index(0), b.size(COLUMNS)
    low, nought = b.const(float("-inf"), F32), b.const(0.0, F32)

    def at(i):
        return b.add(base, i)

    (top,) = b.reduce(
        zero,
        stop,
        [low],
        [float("-inf")],
        lambda i: [b.load(x, at(i))],
        lambda a, v: [b.op("maximum", a, v)],
        width=WIDTH,
    )

    def power(i):
        return b.op("exponential", b.op("subtract", b.load(x, at(i)), top))

    (total,) = b.reduce(
        zero, stop, [nought], [0.0], lambda i: [power(i)], lambda a, v: [b.op("add", a, v)], width=WIDTH
    )
    with b.loop(zero, stop, "vector", WIDTH) as i:
        b.store(out, at(i), b.op("divide", power(i), total))
    return b.finish(ROWS)


def argmax():
    """A reduction of pairs (value, index); the earlier index wins."""
    b = KernelBuilder("argmax")
    x, out = b.input(F32), b.output(S32)
    base = b.mul(b.task, b.size(COLUMNS))

    def better(value, index, other, place):
        later = b.op("and", b.compare(value, other, "EQ"), b.compare(place, index, "LT"), dtype=PRED)
        take = b.op("or", b.compare(other, value, "GT"), later, dtype=PRED)
        return [b.op("select", take, other, value, dtype=F32), b.op("select", take, place, index, dtype=S32)]

    init = [b.const(float("-inf"), F32), b.const(2**31 - 1, S32)]
    values = b.reduce(
        b.index(0),
        b.size(COLUMNS),
        init,
        [float("-inf"), 2**31 - 1],
        lambda i: [b.load(x, b.add(base, i)), b.op("convert", i, dtype=S32)],
        better,
        width=WIDTH,
    )
    b.store(out, b.task, values[1])
    return b.finish(ROWS)


def stable_softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


CASES = [
    (elementwise, 3, np.float32, lambda x, y, z: np.maximum(x + y * z, np.tanh(x))),
    (softmax, 1, np.float32, stable_softmax),
    (argmax, 1, np.int32, lambda x: x.argmax(1).astype(np.int32)),
]


@pytest.mark.parametrize(("make", "arity", "dtype", "reference"), CASES, ids=lambda c: getattr(c, "__name__", ""))
@pytest.mark.parametrize("shape", [(5, 37), (1, 1), (3, 130)])
def test_right_in_the_interpreter(make, arity, dtype, reference, shape):
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(shape).astype(np.float32) for _ in range(arity)]
    expected = reference(*inputs)
    source = render(make())
    (found,) = interpreter.run(source, inputs, [np.zeros(expected.shape, dtype)], _sizes(make(), shape), shape[0])
    assert_near(found, expected, 1e-6)


def artefacts(make):
    (made,) = workers.compile_sources([render(make())], SM90, 1)
    return made


def test_what_triton_does_not_compile_is_our_bug():
    text = "import triton\n@triton.jit\ndef tfxla_elementwise(): nothing\n"
    wrong = replace(render(elementwise()), text=text, pointers=(), sizes=0)
    with pytest.raises(KernelError, match="Triton does not compile tfxla_elementwise: ") as failure:
        workers.compile_sources([wrong], SM90, 1)
    assert failure.value.symbols == {"tfxla_elementwise"}
    assert "Traceback" in str(failure.value.__cause__)
    assert len(failure.value.message.splitlines()) == 1


def _sizes(kernel, shape):
    from tfxla_cluster.ir.dim import evaluate

    return [evaluate(s, {"rows": shape[0], "columns": shape[1]}) for s in kernel.sizes]


def test_maximum_keeps_nan_in_the_interpreter():
    x = np.array([[1.0, np.nan, 3.0]], np.float32)
    (found,) = interpreter.run(
        render(elementwise()), [x, x * 0, x * 0], [np.zeros_like(x)], _sizes(elementwise(), x.shape), 1
    )
    assert np.isnan(found[0, 1])
    assert not np.isnan(found[0, 0])


@pytest.mark.parametrize("make", [elementwise, softmax, argmax], ids=lambda m: m.__name__)
def test_compiles_to_ptx_without_a_gpu(make):
    made = artefacts(make)
    assert ".target sm_90" in made.texts["ptx"]
    assert len(made.cubin) > 100
    assert "tt.load" in made.texts["ttir"]


def test_maximum_is_one_nan_propagating_instruction():
    made = artefacts(elementwise)
    assert "max.NaN.f32" in made.texts["ptx"]


def test_what_has_no_triton_form_says_so():
    b = KernelBuilder("scratchy")
    b.scratch_buffer(F32, 8)
    with pytest.raises(UnsupportedError, match="scratch"):
        render(b.finish(1))


def test_what_is_known_of_sizes_takes_part_in_the_key():
    """Kernels of one structure are one: they may not differ in what Triton is told of their sizes."""

    def copied(columns):
        b = KernelBuilder("copied", multiple=16)
        x, out = b.input(F32), b.output(F32)
        with b.loop(b.index(0), b.size(columns), "vector", WIDTH) as i:
            b.store(out, i, b.load(x, i))
        return b.finish(1)

    assert key(copied(32)) == key(copied(48)) != key(copied(33))
    assert [render(copied(n)).multiples for n in (32, 33, 24, 12)] == [((0, 16),), (), ((0, 8),), ((0, 4),)]
