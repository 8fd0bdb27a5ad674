"""Convolutions and their gradients by a library: its double convolves on the double of the driver, Triton's interpreter
runs what is around it, and all of it is compared with the evaluator."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from tests.close import assert_near
from tests.codegen.triton.test_gpu_launcher import Doubled
from tests.codegen.triton.test_library_products import EPSILON, ByLibrary, calls, flat
from tests.hlo_case import Case, module
from tests.runtime.cudnn_double import EXACT, USABLE, CudnnDouble, libraries
from tfxla_cluster import compiler
from tfxla_cluster.backends import gpu
from tfxla_cluster.codegen.kernel.choice import DEFAULT, Candidates, Choice
from tfxla_cluster.codegen.kernel.code import Code
from tfxla_cluster.codegen.kernel.library import NO_LIBRARIES, Libraries
from tfxla_cluster.codegen.kernel.library_convolution import BY_IMAGE, BY_WINDOW, FORWARD, Engine, chosen, from_params
from tfxla_cluster.codegen.kernel.unit import Unit
from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.errors import TfxlaError, UnsupportedError
from tfxla_cluster.ir import text
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.ir.node import Instr
from tfxla_cluster.options import CompileOptions
from tfxla_cluster.runtime.gpu.executable import Executable
from tfxla_cluster.runtime.gpu.libraries.convolutions import Convolutions
from tfxla_cluster.runtime.gpu.libraries.on_device import OnDevice
from tfxla_cluster.runtime.plan import LaunchPlan
from tfxla_cluster.tuning.persisted.results import spelled

pytestmark = pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")


@dataclass(frozen=True)
class WithCudnn(Doubled):
    """The GPU's backend with both doubles."""

    library: tuple[Convolutions, CudnnDouble] = field(init=False)

    def __post_init__(self) -> None:
        driver, machine = self.machine_double
        object.__setattr__(self, "library", libraries(machine, driver.device(0)))

    def _gpu(self) -> gpu.Gpu:
        return gpu.Gpu(self.target, libraries=Libraries(NO_LIBRARIES.products, self.library[0]))

    def lower(self, instr: Instr, choice: Choice = DEFAULT) -> Unit:
        return self._gpu().lower(instr, choice)

    def candidates(self, instr: Instr) -> Candidates:
        return self._gpu().candidates(instr)

    def load(self, plan: LaunchPlan, code: Code, options: CompileOptions) -> Executable:  # type: ignore[override]
        driver, found = self.machine_double[0], OnDevice(convolutions=self.library[0])
        return Executable(plan, code, driver=driver, libraries=found, least_graph=options.least_graph)


@pytest.fixture
def backend() -> Iterator[WithCudnn]:
    made = WithCudnn()
    yield made
    for errors in (made.machine_double[1].errors, made.library[1].errors):
        assert not errors, errors[0]


def conv(x: str, y: str, out: str, window: str, labels: str, root: str = "ROOT c", more: str = "") -> str:
    how = f"window={{{window}}}, dim_labels={labels}{more}"
    return f"  x = {x} parameter(0)\n  y = {y} parameter(1)\n  {root} = {out} convolution(x, y), {how}"


HWIO, IMAGE, WINDOW = "b01f_01io->b01f", "b01f_01oi->b01f", "f01b_i01o->01bf"
# name -> (body, the library's operation)
CASES = {
    **{
        f"3x3 {t}": (conv(f"{t}[2,7,6,3]", f"{t}[3,3,3,4]", f"{t}[2,7,6,4]", "size=3x3 pad=1_1x1_1", HWIO), FORWARD)
        for t in ("bf16", "f16", "f32", "f64")
    },
    "strides": (conv("f32[2,7,6,3]", "f32[3,3,3,4]", "f32[2,4,3,4]", "size=3x3 stride=2x2 pad=1_1x0_1", HWIO), FORWARD),
    "dilated": (conv("f32[2,9,8,3]", "f32[3,2,3,4]", "f32[2,5,6,4]", "size=3x2 rhs_dilate=2x2", HWIO), FORWARD),
    "features first": (
        conv("f32[2,3,7,6]", "f32[4,3,3,3]", "f32[2,4,7,6]", "size=3x3 pad=1_1x1_1", "bf01_oi01->bf01"),
        FORWARD,
    ),
    "as the library has it": (
        conv("f32[2,7,6,3]", "f32[4,3,3,3]", "f32[2,7,6,4]", "size=3x3 pad=1_1x1_1", "b01f_o01i->b01f"),
        FORWARD,
    ),
    "by image": (
        conv("f32[2,7,6,4]", "f32[3,3,3,4]", "f32[2,7,6,3]", "size=3x3 pad=1_1x1_1 rhs_reversal=1x1", IMAGE),
        BY_IMAGE,
    ),
    "by image, strides": (
        conv(
            "bf16[2,4,3,4]",
            "bf16[3,3,3,4]",
            "bf16[2,7,6,3]",
            "size=3x3 pad=1_1x1_2 lhs_dilate=2x2 rhs_reversal=1x1",
            IMAGE,
        ),
        BY_IMAGE,
    ),
    "by image, one tap": (
        conv("f32[2,4,3,4]", "f32[1,1,3,4]", "f32[2,7,6,3]", "size=1x1 pad=0_0x0_1 lhs_dilate=2x2", IMAGE),
        BY_IMAGE,
    ),
    "by window": (conv("f32[2,7,6,3]", "f32[2,7,6,4]", "f32[3,3,3,4]", "size=7x6 pad=1_1x1_1", WINDOW), BY_WINDOW),
    "by window, strides": (
        conv("f64[2,7,6,3]", "f64[2,4,3,4]", "f64[3,3,3,4]", "size=4x3 pad=1_1x1_0 rhs_dilate=2x2", WINDOW),
        BY_WINDOW,
    ),
    "followed": (
        conv("f32[2,7,6,3]", "f32[3,3,3,4]", "f32[2,7,6,4]", "size=3x3 pad=1_1x1_1", HWIO, "c")
        + """
  bias = f32[4] parameter(2)
  wide = f32[2,7,6,4] broadcast(bias), dimensions={3}
  s = f32[2,7,6,4] add(c, wide)
  zero = f32[] constant(0)
  zeros = f32[2,7,6,4] broadcast(zero), dimensions={}
  ROOT r = f32[2,7,6,4] maximum(s, zeros)""",
        FORWARD,
    ),
    "by window, followed": (
        conv("f32[2,7,6,3]", "f32[2,7,6,4]", "f32[3,3,3,4]", "size=7x6 pad=1_1x1_1", WINDOW, "c")
        + "\n  w = f32[3,3,3,4] parameter(2)\n  ROOT s = f32[3,3,3,4] subtract(w, c)",
        BY_WINDOW,
    ),
}
_TOLERANCE = 4  # of products with one sum


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("number", range(len(USABLE)))
def test_values(name: str, number: int, backend: WithCudnn) -> None:
    """Engines with knobs and with a workspace."""
    body, kind = CASES[name]
    case = Case(name, module(body), finite=True)
    parsed, args = text.parse(case.text), case.args()
    choices = ByLibrary(backend, number)
    made = compiler.compile_module(parsed, backend, CompileOptions(passes=False), choices=choices)
    (step,) = calls(made.plan)
    assert from_params(step.params)[0].kind == kind
    tolerance = _TOLERANCE * max(bound for t, bound in EPSILON.items() if f"{t}[" in body)
    for _ in range(2):
        for got, want in zip(made.executable.run(args), flat(evaluate(parsed, args)), strict=True):
            assert_near(got, want, tolerance, name)
    assert backend.library[1].ran == [USABLE[number]] * 2


REFUSED = {
    "groups": conv("f32[2,7,6,4]", "f32[3,3,2,4]", "f32[2,5,4,4]", "size=3x3", HWIO, more=", feature_group_count=2"),
    "lines": conv("f32[2,7,3]", "f32[3,3,4]", "f32[2,5,4]", "size=3", "b0f_0io->b0f"),
    "negative padding": conv("f32[2,7,6,3]", "f32[3,3,3,4]", "f32[2,4,3,4]", "size=3x3 pad=-1_0x-1_0", HWIO),
    "an image with gaps": conv("f32[2,4,3,3]", "f32[3,3,3,4]", "f32[2,5,3,4]", "size=3x3 lhs_dilate=2x2", HWIO),
    "another type": conv("bf16[2,7,6,3]", "bf16[3,3,3,4]", "f32[2,5,4,4]", "size=3x3", HWIO),
    "nothing": conv("f32[0,7,6,3]", "f32[3,3,3,4]", "f32[0,5,4,4]", "size=3x3", HWIO),
    "no convolution": "  x = f32[5] parameter(0)\n  ROOT y = f32[5] negate(x)",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_ours_alone(name: str, backend: WithCudnn) -> None:
    for instr in text.parse(module(REFUSED[name])).entry.instrs:
        if instr.opcode != "parameter":
            assert not backend.candidates(instr).others


def _conv(more: str = "") -> Instr:
    body = conv("f32[2,7,6,3]", "f32[3,3,3,4]", "f32[2,5,4,4]", "size=3x3", HWIO, more=more)
    return text.parse(module(body)).entry.root


def test_which_engines_are_offered(backend: WithCudnn) -> None:
    """None whose sums change their order, that takes too much memory or does not work; for exact f32 none of fewer
    bits."""
    assert [c["engine"] for c in backend.candidates(_conv()).others] == list(USABLE)
    exact = _conv(", operand_precision={highest,highest}")
    assert [c["engine"] for c in backend.candidates(exact).others] == list(EXACT)
    backend.library[1].failing["cudnnBackendFinalize"] = 3000
    assert not backend.candidates(_conv()).others


def test_an_engine_of_another_library_is_refused(backend: WithCudnn) -> None:
    engine = chosen(backend.candidates(_conv()).others[1])
    assert engine is not None
    for wrong, said in (
        (replace(engine, version=91002), r"cuDNN 9\.10\.2, and this is 9\.19\.0"),
        (replace(engine, number=77), "does not do this convolution"),
        (replace(engine, knobs=((2, 9),)), "does not do this convolution"),
        (replace(engine, workspace=0), "takes 4100 bytes"),
    ):
        with pytest.raises(UnsupportedError, match=said):
            backend.lower(_conv(), wrong.choice())


def test_engines_as_knobs() -> None:
    engine = Engine(91900, 4096, 3, ((2, 7), (14, 2)), 9)
    assert chosen(engine.choice()) == engine
    assert spelled(engine.choice()) == "cuDNN 9.19.0, engine 3 (2=7 14=2), 4096 bytes"
    assert chosen(Choice({"rows": 64})) is None
    assert chosen(Choice({**engine.choice(), "rows": 64})) is None


UPDATE = (
    conv("bf16[2,7,6,3]", "bf16[2,7,6,4]", "bf16[3,3,3,4]", "size=7x6 pad=1_1x1_1", WINDOW, "c")
    + """
  w = f32[3,3,3,4] parameter(2)
  wide = f32[3,3,3,4] convert(c)
  ROOT s = f32[3,3,3,4] subtract(w, wide)"""
)


@pytest.mark.parametrize("widens", [True, False])
def test_what_follows_reads_narrow_floats_unrounded(widens: bool, backend: WithCudnn) -> None:
    """Where the library writes them in f32."""
    backend.library[1].widens = widens
    case = Case("update", module(UPDATE), finite=True)
    parsed, args = text.parse(case.text), case.args()
    made = compiler.compile_module(parsed, backend, CompileOptions(passes=False), choices=ByLibrary(backend, 0))
    (step,) = calls(made.plan)
    assert from_params(step.params)[0].result == (0 if widens else 9)
    (got,) = made.executable.run(args)
    x, g = (a.astype(np.float64) for a in args[:2])
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    exact = [[np.einsum("nhwc,nhwk->ck", padded[:, r : r + 7, s : s + 6], g) for s in range(3)] for r in range(3)]
    error = np.abs(got - (args[2] - np.array(exact))).max() / np.abs(exact).max()
    assert (error < 1e-6) == widens
    assert error < 2**-8
    others = backend.candidates(next(iter(made.chosen))).others
    assert {c["type"] for c in others} == ({0, 9} if widens else {9})
    with pytest.raises(UnsupportedError, match="the engine's result has another type"):
        backend.lower(next(iter(made.chosen)), Choice({**others[0], "type": 1}))


def _run(backend: WithCudnn, options: CompileOptions = CompileOptions()) -> tuple[Executable, list[np.ndarray]]:  # noqa: B008
    case = Case("3x3", module(CASES["followed"][0]), finite=True)
    made = compiler.compile_module(text.parse(case.text), backend, options, choices=ByLibrary(backend, 0))
    executable: object = made.executable
    assert isinstance(executable, Executable)
    return executable, case.args()


@pytest.mark.parametrize(
    "function", ["cudnnSetStream", "cudnnBackendCreateDescriptor", "cudnnBackendFinalize", "cudnnBackendExecute"]
)
def test_a_call_that_fails_is_an_error_and_gives_all_back(function: str, backend: WithCudnn) -> None:
    executable, args = _run(backend)
    before, double = len(backend.library[1].things), backend.library[1]
    double.failing[function] = 5000
    with pytest.raises(TfxlaError, match="cuDNN status 5000, CUDNN_STATUS_EXECUTION_FAILED"):
        executable.run(args)
    assert len(double.things) == before
    del double.failing[function]
    executable.run(args)
    assert len(double.things) == before


def test_convolutions_are_captured(backend: WithCudnn) -> None:
    executable, args = _run(backend, CompileOptions(least_graph=2))
    want = executable.run(args)[0]
    with executable.prepare(args) as prepared:
        for _ in range(4):
            prepared.launch()
            np.testing.assert_array_equal(prepared.results()[0], want)
    assert executable.graphs()["made"] == 1
    assert executable.graphs()["replayed"] == 2


def test_descriptors_are_given_back(backend: WithCudnn) -> None:
    executable, _ = _run(backend)
    assert backend.library[1].things
    del executable
    gc.collect()
    assert not backend.library[1].things


def test_executions_of_several_threads(backend: WithCudnn) -> None:
    """Each on its own stream, by one handle, which none of them keeps."""
    executable, args = _run(backend, CompileOptions(least_graph=0))
    want = executable.run(args)[0]
    with ThreadPoolExecutor(4) as pool:
        for (got,) in pool.map(lambda _: executable.run(args), range(12)):
            np.testing.assert_array_equal(got, want)
    assert len(backend.library[1].ran) == 13
