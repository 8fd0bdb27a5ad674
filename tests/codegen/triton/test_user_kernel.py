"""A user's own Triton kernel: how its text is taken, what a module's call of it becomes, and what Triton says of it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.codegen.triton import gpu_module
from tests.codegen.triton.test_gpu_launcher import Doubled
from tests.codegen.triton.test_gpu_launcher import compiled as compiled_for
from tfxla_cluster import compiler, kernel_source, user_kernels
from tfxla_cluster.backends import cpu, gpu
from tfxla_cluster.codegen.kernel import key
from tfxla_cluster.codegen.kernel.unit import UnitKernel
from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.codegen.triton.source import render
from tfxla_cluster.errors import UserKernelError
from tfxla_cluster.ir import proto, text, verifier
from tfxla_cluster.ir.builder import Builder
from tfxla_cluster.ir.dtype import DTYPES
from tfxla_cluster.ir.node import Module
from tfxla_cluster.ir.shape import array, tuple_of
from tfxla_cluster.kernel_source import TritonKernel, libdevice, tl, triton_kernel
from tfxla_cluster.user_kernels import KernelCall

SCALE, NAME = 3.0, "unused"
other_name = tl


@triton_kernel
def scaled(x):
    return x * SCALE


@triton_kernel
def add(x, y, n, out, BLOCK: tl.constexpr, KIND: tl.constexpr = None):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    total = scaled(tl.load(x + at, mask=mask)) + tl.load(y + at, mask=mask)
    tl.store(out + at, total, mask=mask)


@triton_kernel
def places(out, rows, columns):
    """Which program wrote each element of a cube."""
    x, y, z = other_name.program_id(0), other_name.program_id(1), other_name.program_id(2)
    other_name.store(out + (z * rows + y) * columns + x, x + 100 * y + 10000 * z)


@triton_kernel
def increase(state, out, total, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    now = tl.load(state + at) + 1
    tl.store(out + at, now)
    tl.store(total, tl.sum(now, axis=0))


@triton_kernel
def root(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, libdevice.rsqrt(tl.load(x + at)))


@triton_kernel
def wrong(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at)
    tl.store(out + at, tl.no_such_thing(value))


@triton_kernel
def helper_wrong(x, out, BLOCK: tl.constexpr):
    tl.store(out + tl.arange(0, BLOCK), tl.load(x + tl.arange(0, 3)))


@triton_kernel
def calls_wrong(x, out, BLOCK: tl.constexpr):
    helper_wrong(x, out, BLOCK)


def line_of(kernel: TritonKernel, words: str) -> int:
    """The line of this file's text that has `words`, after the kernel's `def`."""
    lines = Path(__file__).read_text().splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith(f"def {kernel.__name__}("))
    return next(n for n in range(first, len(lines)) if words in lines[n]) + 1


def call_of(kernel: TritonKernel, arguments: dict[str, str], constexprs: dict[str, str], **more) -> KernelCall:
    digest = user_kernels.register(kernel.source)
    more = {"grid": (1, 1, 1), **more}
    return KernelCall(digest, kernel.__name__, arguments, constexprs, **more)


def module_of(call: KernelCall, inputs: Sequence[np.ndarray], outputs: Sequence[tuple[str, tuple[int, ...]]]) -> Module:
    b = Builder("main")
    params = [b.parameter(array(dtype_of(a), a.shape)) for a in inputs]
    shapes = [array(DTYPES[name], dims) for name, dims in outputs]
    shape = shapes[0] if len(shapes) == 1 else tuple_of(*shapes)
    root = b.custom_call(user_kernels.TARGET, params, shape, backend_config=call.to_json())
    return Module("user", b.build(root))


def dtype_of(value: np.ndarray):
    return next(d for d in DTYPES.values() if d.numpy == value.dtype)


def add_call(n: int, block: int) -> KernelCall:
    arguments = {"x": "in 0", "y": "in 1", "n": f"tl.full([], {n}, tl.int32)", "out": "out 0"}
    return call_of(add, arguments, {"BLOCK": str(block)}, grid=(-(-n // block), 1, 1))


def add_module(n: int, block: int = 64) -> Module:
    x = np.zeros(n, np.float32)
    return module_of(add_call(n, block), [x, x], [("f32", (n,))])


def run(module: Module, args: Sequence[np.ndarray]) -> list[np.ndarray]:
    return gpu_module.compiled(module, gpu_module.Interpreted()).executable.run(args)


# --- text ---------------------------------------------------------------------------------------


def test_a_name_that_means_two_things(tmp_path: Path) -> None:
    """Kernels of several modules stand in one text, where the last meaning of a name would count for all."""
    other = tmp_path / "other.py"
    other.write_text("import triton\n\nSCALE = 2.0\n\n@triton.jit\ndef halved(x):\n    return x / SCALE\n")
    halved = triton_kernel(f"{other}:halved")

    def both(x, out):
        tl.store(out, halved(scaled(tl.load(x))))

    with pytest.raises(UserKernelError, match="two meanings of 'SCALE'"):
        triton_kernel(both)


def test_text_of_a_kernel() -> None:
    source = add.source
    assert source.parameters == ("x", "y", "n", "out", "BLOCK", "KIND")
    assert source.optional == {"KIND"}
    assert "SCALE = tl.constexpr(3.0)" in source.text
    assert "NAME" not in source.text
    assert source.text.index("def scaled") < source.text.index("def add")
    assert source.text.count("@triton.jit") == 2
    assert "triton_kernel" not in source.text
    assert [(name, line) for name, _, line in source.places] == [
        ("scaled", line_of(scaled, "def scaled")),
        ("add", line_of(add, "def add")),
    ]
    assert {file for _, file, _ in source.places} == {__file__}


def test_another_name_of_the_language() -> None:
    assert "other_name = tl\n" in places.source.text


def test_a_kernel_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "kernels.py"
    path.write_text(
        "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef f(x, out, N: tl.constexpr): pass\n"
    )
    source = triton_kernel(f"{path}:f").source
    assert (source.text, source.parameters, source.where) == (path.read_text(), ("x", "out", "N"), f"{path}:6")
    for name, said in ((f"{path}:g", "no function 'g'"), (f"{path}.no:f", "cannot be read"), ("f", "FILE.py:FUNCTION")):
        with pytest.raises(UserKernelError, match=re.escape(said)):
            triton_kernel(name)


def test_what_a_kernel_cannot_use() -> None:
    def uses_path(x):
        Path(x)

    with pytest.raises(UserKernelError, match=r"kernel uses_path uses 'Path', a"):
        triton_kernel(uses_path)
    with pytest.raises(UserKernelError, match="cannot be read"):
        triton_kernel(len)
    with pytest.raises(UserKernelError, match="not a function"):
        triton_kernel(lambda x: x)
    for call in (lambda: tl.load(1), lambda: add(1, 2)):
        with pytest.raises(UserKernelError, match="triton_call"):
            call()


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (128, "128"),
        (True, "True"),
        (None, "None"),
        (0.5, "0.5"),
        (float("-inf"), 'float("-inf")'),
        ("relu", "'relu'"),
        (tl.float32, "tl.float32"),
        (np.int64(7), "7"),
        ((1, tl.bfloat16), "(1, tl.bfloat16, )"),
        ([1], None),
        ((1, []), None),
        (np.zeros(3), None),
    ],
)
def test_constexprs_as_text(value: object, want: str | None) -> None:
    assert kernel_source.literal(value) == want


# --- modules ------------------------------------------------------------------------------------


def test_text_and_proto_keep_the_call() -> None:
    module = add_module(100)
    verifier.verify(module)
    for again in (text.parse(text.render(module)), proto.read(proto.write(module))):
        assert user_kernels.from_json(again.entry.root.attrs["backend_config"]) == add_call(100, 64)
        assert again.entry.root.attrs["custom_call_target"] == "tfxla.triton"


def test_the_kernel_key_tells_calls_apart() -> None:
    def keys(module: Module) -> str:
        (step,) = gpu.described().lower(module.entry.root).steps
        assert isinstance(step, UnitKernel)
        return key.key(step.kernel)

    assert keys(add_module(100)) == keys(add_module(100))
    assert len({keys(add_module(100)), keys(add_module(90)), keys(add_module(100, 32))}) == 3


def test_a_source_that_is_not_known() -> None:
    call = dataclasses.replace(add_call(8, 8), kernel="0" * 32)
    module = module_of(call, [np.zeros(8, np.float32)] * 2, [("f32", (8,))])
    with pytest.raises(UserKernelError, match="source of Triton kernel 'add' is not known"):
        gpu.described().lower(module.entry.root)


@pytest.mark.parametrize("config", ["", "{}", "[1]", '{"kernel": "x"}'])
def test_a_call_that_says_nothing(config: str) -> None:
    b = Builder("main")
    x = b.parameter(array(DTYPES["f32"], (4,)))
    root = b.custom_call(user_kernels.TARGET, [x], x.shape, backend_config=config)
    with pytest.raises(UserKernelError, match="says nothing"):
        gpu.described().lower(root)


def test_an_operand_that_is_not_there() -> None:
    module = module_of(add_call(8, 8), [np.zeros(8, np.float32)], [("f32", (8,))])
    with pytest.raises(UserKernelError, match="no operand or result 'in 1'"):
        gpu.described().lower(module.entry.root)


def test_the_cpu_refuses() -> None:
    with pytest.raises(UserKernelError, match=r"test_user_kernel.py:\d+: Triton kernel add runs on GPUs only"):
        cpu.this_machine().lower(add_module(8).entry.root)


# --- numbers ------------------------------------------------------------------------------------

triton = pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")


@triton
@pytest.mark.parametrize("n", [1, 64, 100, 1000])
@pytest.mark.parametrize("block", [64, 256])
def test_numbers(n: int, block: int) -> None:
    rng = np.random.default_rng(n)
    x, y = rng.standard_normal((2, n)).astype(np.float32)
    (found,) = run(add_module(n, block), [x, y])
    np.testing.assert_allclose(found, x * np.float32(3) + y, rtol=1e-6)


@triton
@pytest.mark.parametrize("launcher", [False, True])
def test_a_grid_of_three_axes(launcher: bool) -> None:
    arguments = {"out": "out 0", "rows": "tl.full([], 4, tl.int32)", "columns": "tl.full([], 5, tl.int32)"}
    call = call_of(places, arguments, {}, grid=(5, 4, 3))
    module, backend = module_of(call, [], [("s32", (3, 4, 5))]), Doubled()
    (found,) = compiled_for(module, backend).run([]) if launcher else run(module, [])
    assert [launch.grid for launch in backend.machine_double[1].launches] == [(4, 3)] * launcher
    z, y, x = np.indices((3, 4, 5))
    np.testing.assert_array_equal(found, x + 100 * y + 10000 * z)


@triton
@pytest.mark.parametrize("grid", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_no_program(grid: tuple[int, int, int]) -> None:
    backend = Doubled()
    compiled_for(unary(root, grid=grid), backend).run([np.ones(64, np.float32)])
    assert not backend.machine_double[1].launches


@triton
@pytest.mark.parametrize("used_after", [False, True])
def test_an_operand_and_a_result_in_one_buffer(used_after: bool) -> None:
    arguments = {"state": "in 0", "out": "out 0", "total": "out 1"}
    call = call_of(increase, arguments, {"BLOCK": "8"}, aliases=((0, 0),))
    b = Builder("main")
    x = b.parameter(array(DTYPES["s32"], (8,)))
    state = b.add(x, x)
    shape = tuple_of(x.shape, array(DTYPES["s32"], ()))
    made = b.custom_call(user_kernels.TARGET, [state], shape, backend_config=call.to_json())
    results = [b.get_tuple_element(made, 0), b.get_tuple_element(made, 1), *([state] if used_after else [])]
    start = np.arange(8, dtype=np.int32)
    found = run(Module("aliased", b.build(b.tuple(*results))), [start])
    np.testing.assert_array_equal(found[0], 2 * start + 1)
    assert found[1] == (2 * start + 1).sum()
    if used_after:
        np.testing.assert_array_equal(found[2], 2 * start)


@triton
def test_beside_other_kernels() -> None:
    b = Builder("main")
    x = b.parameter(array(DTYPES["f32"], (40,)))
    y = b.exponential(x)
    made = b.custom_call(user_kernels.TARGET, [y, x], x.shape, backend_config=add_call(40, 32).to_json())
    value = np.linspace(-2, 2, 40, dtype=np.float32)
    (found,) = run(Module("mixed", b.build(b.negate(made))), [value])
    np.testing.assert_allclose(found, -(3 * np.exp(value) + value), rtol=1e-5)


# --- Triton's compiler --------------------------------------------------------------------------


def compiled(kernel: TritonKernel, module: Module):
    (step,) = gpu.described().lower(module.entry.root).steps
    assert isinstance(step, UnitKernel)
    return workers.compile_sources([render(step.kernel)], gpu.described().target, 1)[0]


def unary(kernel: TritonKernel, **more) -> Module:
    call = call_of(kernel, {"x": "in 0", "out": "out 0"}, {"BLOCK": "64"}, **more)
    return module_of(call, [np.zeros(64, np.float32)], [("f32", (64,))])


@triton
def test_code_for_a_gpu() -> None:
    made = compiled(root, unary(root, num_warps=2, grid=(1, 2, 3)))
    assert ".target sm_90a" in made.texts["ptx"]
    assert f".entry {made.entry}(" in made.texts["ptx"]
    assert "rsqrt" in made.texts["ptx"]
    (step,) = compiler.compile_module(unary(root, num_warps=2, grid=(1, 2, 3)), gpu.described()).plan.steps
    assert dict(step.params).items() >= {"num_warps": 2, "grid_y": 2, "grid_z": 3}.items()
    assert step.tasks == 1
    assert made.cubin[:4] == b"\x7fELF"


@triton
@pytest.mark.parametrize(
    ("kernel", "guilty", "words", "said"),
    [(wrong, wrong, "no_such_thing", "no_such_thing"), (calls_wrong, helper_wrong, "arange(0, 3)", "power of 2")],
)
def test_what_triton_rejects(kernel: TritonKernel, guilty: TritonKernel, words: str, said: str) -> None:
    with pytest.raises(UserKernelError, match=said) as caught:
        compiled(kernel, unary(kernel))
    assert caught.value.message.startswith(f"Triton rejects kernel {kernel.__name__}: ")
    assert caught.value.where == f"{__file__}:{line_of(guilty, words)}"
