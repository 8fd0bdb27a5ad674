"""`triton_call` in programs: eager, must-compile, nested, with gradients and mistakes. The kernels run in Triton's
interpreter, by the GPU backend's plans; code for a GPU is made and not run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import tfxla_cluster
from tests.codegen.triton import gpu_module
from tests.tf import double
from tfxla_cluster import api, executable_key, flags, triton_calls, user_kernels
from tfxla_cluster.backends import gpu
from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.dynamic import families
from tfxla_cluster.ir import guard
from tfxla_cluster.ir import proto as hlo_proto
from tfxla_cluster.options import DEFAULT
from tfxla_cluster.runtime.stepwise import Stepwise
from tfxla_cluster.triton_calls import triton_call

tl, triton_kernel = tfxla_cluster.tl, tfxla_cluster.triton_kernel
pytestmark = pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")


@triton_kernel
def axpy(x, y, factor, n, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask=mask) * factor + tl.load(y + at, mask=mask), mask=mask)


@triton_kernel
def both(x, flags, count, large, BLOCK: tl.constexpr, TYPE: tl.constexpr):
    at = tl.arange(0, BLOCK)
    chosen = tl.load(flags + at)
    tl.store(large + at, tl.load(x + at) > 0)
    tl.store(count, tl.sum(tl.where(chosen, 1, 0).to(TYPE), axis=0))


@triton_kernel
def rejected(x, out, BLOCK: tl.constexpr):
    tl.store(out + tl.arange(0, BLOCK), tl.load(x + tl.arange(0, BLOCK)) @ 1)


def call_axpy(x, y, factor=2.0, block=32):
    return triton_call(
        axpy, x, y, factor, int(x.shape[0]), out_shape=x, grid=lambda meta: -(-x.shape[0] // meta["BLOCK"]), BLOCK=block
    )


class OnGpu(double.Compiler):
    """Runs modules by GPU kernels in the interpreter; keeps them."""

    def __init__(self) -> None:
        super().__init__()
        self.modules: dict[bytes, Stepwise] = {}

    def compile_hlo(self, proto, request):
        self.modules[proto] = gpu_module.compiled(hlo_proto.read(proto), gpu_module.Interpreted()).executable
        return super().compile_hlo(proto, request)

    def execute(self, proto, args):
        return self.modules[proto].run(args)


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[OnGpu]:
    side = double.Ours()
    made = OnGpu()
    double.Frontend.__init__(side, made)
    monkeypatch.setattr(api, "connect", lambda: side)
    triton_calls._function.cache_clear()
    side.enable()
    yield made
    side.disable()
    triton_calls._function.cache_clear()


def values(n: int) -> tuple[tf.Tensor, tf.Tensor, np.ndarray]:
    x, y = np.random.default_rng(n).standard_normal((2, n)).astype(np.float32)
    return tf.constant(x), tf.constant(y), 2 * x + y


@pytest.mark.parametrize("n", [1, 32, 50])
def test_eager(on_gpu: OnGpu, n: int) -> None:
    x, y, want = values(n)
    for _ in range(2):
        np.testing.assert_allclose(call_axpy(x, y), want, rtol=1e-6)
    assert (len(on_gpu.modules), on_gpu.runs) == (1, 2)


@pytest.mark.parametrize("jit", [True, None])
def test_in_a_function(on_gpu: OnGpu, jit: bool | None) -> None:
    """Must-compile: one module holds all of it; a plain function calls it as a must-compile one."""
    x, y, want = values(40)
    f = tf.function(lambda a, b: tf.exp(call_axpy(a * 1.0, b)) + 1.0, jit_compile=jit)
    np.testing.assert_allclose(f(x, y), np.exp(want) + 1, rtol=1e-5)
    assert on_gpu.runs == 1
    module = hlo_proto.read(list(on_gpu.modules)[-1])
    opcodes = {i.opcode for comp in module.computations() for i in comp.instrs}
    assert "custom-call" in opcodes
    assert ("exponential" in opcodes) == bool(jit)


def test_several_outputs_and_types(on_gpu: OnGpu) -> None:
    x = tf.constant([1.0, -1.0, 0.0, 5.0])
    chosen = tf.constant([True, True, False, True])
    shapes = {"count": tf.TensorSpec([], tf.int64), "large": tf.TensorSpec([4], tf.bool)}
    found = triton_call(both, x, chosen, out_shape=shapes, grid=(1, 1), BLOCK=4, TYPE=tf.int64)
    assert int(found["count"]) == 3
    assert found["large"].numpy().tolist() == [True, False, False, True]


def test_a_gradient_is_the_users(on_gpu: OnGpu) -> None:
    @tf.custom_gradient
    def with_gradient(x, y):
        return call_axpy(x, y), lambda up: (call_axpy(up, tf.zeros_like(up)), up)

    x, y, want = values(8)
    for jit in (False, True):
        f = tf.function(with_gradient, jit_compile=True) if jit else with_gradient
        with tf.GradientTape() as tape:
            tape.watch((x, y))
            out = f(x, y)
        np.testing.assert_allclose(out, want, rtol=1e-6)
        by_x, by_y = tape.gradient(out, (x, y))
        np.testing.assert_allclose(by_x, np.full(8, 2.0))
        np.testing.assert_allclose(by_y, np.ones(8))


def test_no_gradient_is_an_error(on_gpu: OnGpu) -> None:
    x, y, _ = values(8)
    with tf.GradientTape() as tape:
        tape.watch(x)
        out = call_axpy(x, y)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"axpy has no gradient.*custom_gradient"):
        tape.gradient(out, x)


def test_constexprs_make_other_executables(on_gpu: OnGpu) -> None:
    """A Python argument that becomes a constexpr traces and compiles anew; the keys say which one changed."""
    x, y, want = values(40)
    f = tf.function(lambda a, b, block: call_axpy(a, b, block=block), jit_compile=True)
    for block in (16, 32, 16):
        np.testing.assert_allclose(f(x, y, block), want, rtol=1e-6)
    assert len(on_gpu.modules) == 2
    choices = [families.alone(hlo_proto.read(m)) for m in on_gpu.modules]
    keys = [executable_key.cache_key(choice, gpu.described(), DEFAULT) for choice in choices]
    changed = [guard.fact_text(fact) for fact in set(keys[1]) - set(keys[0])]
    assert "axpy.BLOCK=32" in changed
    assert len(changed) == 2  # and the module
    assert "axpy.BLOCK=16" in map(guard.fact_text, keys[0])


def test_an_argument_that_is_written(on_gpu: OnGpu) -> None:
    x, y, want = values(8)
    before = x.numpy()
    found = triton_call(
        axpy, x, y, 2.0, 8, out_shape=y, grid=1, input_output_aliases={1: 0}, BLOCK=8, num_warps=1, num_stages=2
    )
    np.testing.assert_allclose(found, want, rtol=1e-6)
    np.testing.assert_array_equal(x, before)


def misfits() -> dict[str, tuple[dict, str]]:
    x = tf.zeros([8])
    good = {"args": (x, x, 2.0, 8), "out_shape": x, "grid": 1, "BLOCK": 8}
    return {
        "few": (
            {**good, "args": (x, x)},
            r"takes x, y, factor, n, out; it was given 2 arguments and 1 outputs, .*Constexprs are given by name",
        ),
        "many": ({**good, "args": (x,) * 5}, r"takes x, y, .*given 5 arguments"),
        "constexpr": ({**good, "WIDTH": 3}, r"has no parameter 'WIDTH'"),
        "value": ({**good, "BLOCK": [8]}, r"given a list as the constexpr 'BLOCK'"),
        "grid": ({**good, "grid": (1, 2, 3, 4)}, r"the grid \(1, 2, 3, 4\)"),
        "negative": ({**good, "grid": lambda meta: meta["BLOCK"] - 9}, r"the grid -1"),
        "large": ({**good, "grid": (1, 65536)}, r"the grid \(1, 65536\): at most"),
        "shape": ({**good, "out_shape": tf.TensorSpec([None])}, r"not known while tracing"),
        "twice": ({**good, "input_output_aliases": {0: 0, 1: 0}}, r"two arguments that are to be one buffer"),
        "alias": ({**good, "input_output_aliases": {2: 0}}, r"no tensor 2"),
        "alias_kind": ({**good, "input_output_aliases": [0]}, r"input_output_aliases=\[0\], not a mapping"),
        "alias_word": ({**good, "input_output_aliases": {"x": 0, 1: 0}}, r"no tensor x or no output 0"),
        "none": ({**good, "args": (x, None, 2.0, 8)}, r"no tensor as argument 1"),
        "uneven": ({**good, "args": (x, [[1.0], [1.0, 2.0]], 2.0, 8)}, r"no tensor as argument 1"),
        "ragged": ({**good, "args": (tf.ragged.constant([[1.0], []]), x, 2.0, 8)}, r"a RaggedTensor as argument 0"),
        "output": ({**good, "out_shape": (8,)}, r"the output 8\. out_shape is tf.TensorSpec"),
        "no output": ({**good, "out_shape": None}, r"the output None\. out_shape is tf.TensorSpec"),
        "name": ({**good, "grid": lambda meta: meta["WIDTH"]}, r"asks for 'WIDTH', which is no constexpr"),
        "warps": ({**good, "num_warps": 3}, r"num_warps=3, which has to be one of 1, 2, 4"),
        "ctas": ({**good, "num_ctas": "2"}, r"num_ctas='2', which has to be one of 1, 2, 4, 8, 16"),
        "stages": ({**good, "num_stages": 0}, r"num_stages=0, which has to be an integer from 1"),
        "alias_type": (
            {**good, "out_shape": tf.TensorSpec([9]), "input_output_aliases": {0: 0}},
            r"cannot write output 0",
        ),
    }


@pytest.mark.parametrize("name", list(misfits()))
def test_arguments_that_do_not_fit(name: str) -> None:
    given, said = misfits()[name]
    arguments = dict(given)
    with pytest.raises(tf.errors.InvalidArgumentError, match=said) as caught:
        triton_call(axpy, *arguments.pop("args"), **arguments)
    assert f"{__file__}:{axpy.source.places[0][2]}: " in str(caught.value)


def test_a_type_that_triton_has_not(on_gpu: OnGpu) -> None:
    x = tf.zeros([8], tf.complex64)
    with pytest.raises(tf.errors.InvalidArgumentError, match="c64 has no Triton type"):
        triton_call(axpy, x, x, 2.0, 8, out_shape=x, grid=1, BLOCK=8)


# --- without a GPU ------------------------------------------------------------------------------


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("fallback", ["xla", "raise"])
def test_a_cpu_refuses(nested: bool, fallback: str) -> None:
    x = tf.zeros([8])
    f = tf.function(lambda a: call_axpy(a, a), jit_compile=None if nested else True)
    with tfxla_cluster.enable(), flags.patch(tfxla_must_compile_fallback=fallback):
        triton_calls._function.cache_clear()
        with pytest.raises(tf.errors.InvalidArgumentError, match="Triton kernel axpy runs on GPUs only") as caught:
            f(x)
    assert f"{__file__}:{axpy.source.places[0][2]}: " in str(caught.value)


def test_code_for_a_gpu_in_the_dump(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    x = tf.zeros([8])
    with tfxla_cluster.enable(), flags.patch(xla_dump_to=str(tmp_path), tfxla_gpu_target="sm_90"):
        triton_calls._function.cache_clear()
        with pytest.raises(tf.errors.InvalidArgumentError):
            tf.function(lambda a: call_axpy(a + 1.0, a), jit_compile=True)(x)
        with pytest.raises(tf.errors.InvalidArgumentError):
            triton_call(rejected, x, out_shape=x, grid=1, BLOCK=8)
    triton_calls._function.cache_clear()
    found = {path.name.split("sm_90.")[1]: path for path in tmp_path.glob("module_0001.*sm_90.*")}
    assert "def axpy(x, y, factor, n, out, BLOCK: tl.constexpr)" in found["triton.py"].read_text()
    assert ".target sm_90a" in found["ptx"].read_text()
    assert len([name for name in found if name.endswith(".cubin")]) == 2
    hlo = found["sm_9.0_gpu_after_optimizations.txt"].read_text()
    assert f'custom_call_target="{user_kernels.TARGET}"' in hlo
    assert json.loads(found["kernels.json"].read_text())
    said = capfd.readouterr().err
    assert f"{__file__}:{rejected.source.places[0][2] + 1}: Triton rejects kernel rejected" in said
