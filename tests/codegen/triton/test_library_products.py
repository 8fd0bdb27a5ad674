"""Products by a library: its double multiplies on the double of the driver, Triton's interpreter runs what is around
it, and all of it is compared with the evaluator."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from tests.close import assert_near
from tests.codegen.triton import gpu_module
from tests.codegen.triton.test_gpu_launcher import Doubled
from tests.hlo_case import Case, module
from tests.runtime.cublaslt_double import WORKSPACES, CublasDouble, libraries
from tfxla_cluster import compiler, trace
from tfxla_cluster.backends import gpu
from tfxla_cluster.backends.backend import Backend, Launcher
from tfxla_cluster.codegen.kernel.choice import Candidates, Choice, Chosen
from tfxla_cluster.codegen.kernel.code import Code
from tfxla_cluster.codegen.kernel.library import NO_LIBRARIES, Libraries, NoLibrary
from tfxla_cluster.codegen.kernel.library_product import Algorithm, chosen
from tfxla_cluster.codegen.kernel.lower import gpu as lower
from tfxla_cluster.codegen.kernel.unit import Unit, UnitLibrary
from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.errors import TfxlaError, UnsupportedError
from tfxla_cluster.ir import text
from tfxla_cluster.ir.builder import Builder
from tfxla_cluster.ir.dim import sym
from tfxla_cluster.ir.dtype import DTYPES
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.ir.node import Instr, Module
from tfxla_cluster.ir.shape import array
from tfxla_cluster.options import CompileOptions, TuningOptions
from tfxla_cluster.runtime.gpu.executable import Executable
from tfxla_cluster.runtime.gpu.libraries.on_device import OnDevice
from tfxla_cluster.runtime.gpu.libraries.products import Products
from tfxla_cluster.runtime.plan import LaunchPlan, LibraryStep
from tfxla_cluster.tuning import session, tuner
from tfxla_cluster.tuning.gpu_trial import GpuTrial
from tfxla_cluster.tuning.persisted import files, results
from tfxla_cluster.tuning.tables import Tables

pytestmark = pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")
EPSILON = {"bf16": 2**-7, "f16": 2**-9, "f32": 1e-5, "f64": 1e-13, "c64": 1e-5, "c128": 1e-13}


@dataclass(frozen=True)
class WithLibrary(Doubled):
    """The GPU's backend with both doubles."""

    library: tuple[Products, CublasDouble] = field(init=False)

    def __post_init__(self) -> None:
        driver, machine = self.machine_double
        object.__setattr__(self, "library", libraries(machine, driver.device(0)))

    def _gpu(self) -> gpu.Gpu:
        return gpu.Gpu(self.target, libraries=Libraries(self.library[0], NO_LIBRARIES.convolutions))

    def lower(self, instr: Instr, choice: Choice = Choice()) -> Unit:  # noqa: B008 - frozen
        return self._gpu().lower(instr, choice)

    def candidates(self, instr: Instr) -> Candidates:
        return self._gpu().candidates(instr)

    def load(self, plan: LaunchPlan, code: Code, options: CompileOptions) -> Executable:  # type: ignore[override]
        driver, found = self.machine_double[0], OnDevice(self.library[0])
        return Executable(plan, code, driver=driver, libraries=found, least_graph=options.least_graph)


@dataclass
class ByLibrary:
    """Choices: algorithm `number` of the library for each instruction that it multiplies."""

    backend: Backend[Launcher]
    number: int
    taken: list[str] = field(default_factory=list)

    def begin(self, instrs: Sequence[Instr]) -> None:
        pass

    def choose(self, instr: Instr) -> Chosen:
        others = self.backend.candidates(instr).others
        if not others:
            return Chosen()
        self.taken.append(instr.name)
        return Chosen(others[self.number], "given")

    def refused(self, instr: Instr, chosen: Chosen, reason: str) -> Chosen:
        raise AssertionError(f"{instr.name}: {reason}")


@pytest.fixture
def backend() -> Iterator[WithLibrary]:
    made = WithLibrary()
    yield made
    for errors in (made.machine_double[1].errors, made.library[1].errors):
        assert not errors, errors[0]


def dot(x: str, y: str, out: str, dims: str, rest: str = "", root: str = "ROOT d") -> str:
    return f"  x = {x} parameter(0)\n  y = {y} parameter(1)\n  {root} = {out} dot(x, y), {dims}\n{rest}"


PLAIN = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
BATCHED = "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}"
AFTER = """  bias = {t}[9] parameter(2)
  wide = {t}[13,9] broadcast(bias), dimensions={{1}}
  zero = {t}[] constant(0)
  zeros = {t}[13,9] broadcast(zero), dimensions={{}}
  sum = {t}[13,9] add(d, wide)
"""
# name -> body, and how many library calls its module makes.
CASES = {
    **{
        f"{t} {a}{b}": dot(
            f"{t}[{'13,21' if a == 'n' else '21,13'}]",
            f"{t}[{'21,9' if b == 'n' else '9,21'}]",
            f"{t}[13,9]",
            f"lhs_contracting_dims={{{1 if a == 'n' else 0}}}, rhs_contracting_dims={{{0 if b == 'n' else 1}}}",
        )
        for t in EPSILON
        for a in "nt"
        for b in "nt"
    },
    "batched": dot("f32[3,5,7]", "f32[3,7,4]", "f32[3,5,4]", BATCHED),
    "batch inside": dot(
        "f32[5,3,7]",
        "f32[7,3,4]",
        "f32[3,5,4]",
        "lhs_batch_dims={1}, rhs_batch_dims={1}, lhs_contracting_dims={2}, rhs_contracting_dims={0}",
    ),
    "two batches": dot(
        "f64[2,3,5,7]",
        "f64[2,3,4,7]",
        "f64[2,3,5,4]",
        "lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_contracting_dims={3}",
    ),
    "two free": dot("f32[2,3,7]", "f32[7,2,2]", "f32[2,3,2,2]", "lhs_contracting_dims={2}, rhs_contracting_dims={0}"),
    "two depths": dot("f32[5,3,7]", "f32[3,7,4]", "f32[5,4]", "lhs_contracting_dims={1,2}, rhs_contracting_dims={0,1}"),
    "depth of 1": dot("f32[5,1]", "f32[1,4]", "f32[5,4]", PLAIN),
    "a row": dot("f32[1,70]", "f32[70,33]", "f32[1,33]", PLAIN),
    "a column": dot("f64[33,70]", "f64[70,1]", "f64[33,1]", PLAIN),
    "one": dot("f64[1,1]", "f64[1,1]", "f64[1,1]", PLAIN),
    "to f32": dot("bf16[13,21]", "bf16[21,9]", "f32[13,9]", PLAIN),
    "exact f32": dot("f32[13,21]", "f32[21,9]", "f32[13,9]", f"{PLAIN}, operand_precision={{highest,highest}}"),
    "widened": """  x = f16[13,21] parameter(0)
  y = f16[21,9] parameter(1)
  a = f32[13,21] convert(x)
  b = f32[21,9] convert(y)
  ROOT d = f32[13,9] dot(a, b), """
    + PLAIN,
    "one widened": """  x = bf16[13,21] parameter(0)
  y = f32[21,9] parameter(1)
  a = f32[13,21] convert(x)
  ROOT d = f32[13,9] dot(a, y), """
    + PLAIN,
    "computed operand": """  x = f32[13,21] parameter(0)
  z = f32[13,21] parameter(2)
  y = f32[21,9] parameter(1)
  a = f32[13,21] multiply(x, z)
  ROOT d = f32[13,9] dot(a, y), """
    + PLAIN,
    "followed": dot(
        "f32[13,21]",
        "f32[21,9]",
        "f32[13,9]",
        PLAIN,
        AFTER.format(t="f32") + "  ROOT r = f32[13,9] maximum(sum, zeros)",
        "d",
    ),
    "followed by two": dot(
        "bf16[13,21]",
        "bf16[21,9]",
        "bf16[13,9]",
        PLAIN,
        AFTER.format(t="bf16")
        + "  r = bf16[13,9] maximum(sum, zeros)\n  ROOT t = (bf16[13,9], bf16[13,9]) tuple(d, r)",
        "d",
    ),
    "seen otherwise": dot("f64[12,21]", "f64[21,10]", "f64[12,10]", PLAIN, "  ROOT r = f64[3,4,10] reshape(d)", "d"),
}


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


def _dot(name: str = "f32 nn") -> Instr:
    return text.parse(module(CASES[name])).entry.root


def _algorithm(backend: WithLibrary, number: int = 0) -> Algorithm:
    found = chosen(backend.candidates(_dot()).others[number])
    assert found is not None
    return found


def test_an_algorithm_of_another_library_is_refused(backend: WithLibrary) -> None:
    algorithm = _algorithm(backend)
    other = replace(algorithm, version=120900)
    with pytest.raises(UnsupportedError, match=r"cuBLASLt 12\.9\.0, and this is 13\.1\.0"):
        backend.lower(_dot(), other.choice())
    wrong = replace(algorithm, words=(77, *algorithm.words[1:]))
    with pytest.raises(UnsupportedError, match="does not multiply these matrices"):
        backend.lower(_dot(), wrong.choice())
    with pytest.raises(UnsupportedError, match="does not multiply these matrices"):
        backend.lower(_dot("f64 nn"), algorithm.choice())
    small = replace(_algorithm(backend, 1), workspace=0)
    with pytest.raises(UnsupportedError, match="takes 4096 bytes of workspace, not 0"):
        backend.lower(_dot(), small.choice())
    with pytest.raises(UnsupportedError, match="the library is not here: the machine is only described"):
        lower.lower(_dot(), backend.target, algorithm.choice(), NO_LIBRARIES)


def test_without_a_library_the_candidates_are_ours(backend: WithLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(trace, "record", lambda kind, **fields: told.append(fields["reason"]))
    assert not gpu.Gpu(backend.target).candidates(_dot()).others
    assert not told
    missing = Libraries(NoLibrary("none", said=True), NO_LIBRARIES.convolutions)
    assert not gpu.Gpu(backend.target, 0, missing).candidates(_dot()).others
    assert told == ["none"]
    backend.library[1].failing["cublasLtMatmulAlgoGetHeuristic"] = 15
    assert not backend.candidates(_dot()).others


def test_a_product_that_fails_is_an_error(backend: WithLibrary) -> None:
    case = Case("f32 nn", module(CASES["f32 nn"]))
    made = compiler.compile_module(text.parse(case.text), backend, choices=ByLibrary(backend, 0))
    backend.library[1].failing["cublasLtMatmul"] = 13
    with pytest.raises(TfxlaError, match="cuBLAS status 13, CUBLAS_STATUS_EXECUTION_FAILED"):
        made.executable.run(case.args())


def test_products_are_captured(backend: WithLibrary) -> None:
    """The library's call is made while the stream is captured, and replayed after."""
    case = Case("followed", module(CASES["followed"]))
    parsed, args = text.parse(case.text), case.args()
    options = CompileOptions(least_graph=2)
    made = compiler.compile_module(parsed, backend, options, choices=ByLibrary(backend, 0))
    executable: object = made.executable
    assert isinstance(executable, Executable)
    assert executable.captured
    with executable.prepare(args) as prepared:
        for _ in range(5):
            prepared.launch()
            (got,) = prepared.results()
            assert_near(got, np.asarray(evaluate(parsed, args)[0]), 1e-5)
    assert executable.graphs()["made"] == 1
    assert executable.graphs()["replayed"] == 2
    assert backend.library[1].calls["cublasLtMatmul"] == 3


def test_descriptors_are_given_back(backend: WithLibrary) -> None:
    case = Case("f32 nn", module(CASES["f32 nn"]))
    made = compiler.compile_module(text.parse(case.text), backend, choices=ByLibrary(backend, 0))
    assert len(backend.library[1].things) == 4
    del made
    gc.collect()
    assert not backend.library[1].things


def test_an_algorithm_as_knobs(backend: WithLibrary) -> None:
    for other in backend.candidates(_dot()).others:
        found = chosen(Choice(dict(other)))
        assert found is not None
        assert found.choice() == other
        assert results.spelled(other) == str(found)
        assert str(found).startswith("cuBLASLt 13.1.0, algorithm ")
    assert results.spelled(Choice({"rows": 64})) == "rows=64"
    assert chosen(Choice({"rows": 64})) is None
    assert chosen(Choice({**_algorithm(backend).choice(), "rows": 64})) is None


def test_tuning_finds_the_library_and_a_file_keeps_it(backend: WithLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is fastest; the next process takes the same algorithm from the file, and one of another version is
    a miss that is named."""
    monkeypatch.setattr(tuner, "search", lambda cands, evaluate, stop: evaluate([cands[0], *cands.others]))
    monkeypatch.setattr(GpuTrial, "seconds", lambda self, count: 1e-4 if calls(self._executable.plan) else 2e-4)
    parsed = text.parse(module(CASES["f64 nn"]))
    tables, options = Tables(), TuningOptions(use=True, progress=False)
    tuned = session.choices(backend, CompileOptions(), replace(options, tune=True), tables)
    made = compiler.compile_module(parsed, backend, choices=tuned)
    (entry,) = tables.known().values()
    assert entry.choice in backend.candidates(parsed.entry.root).others
    assert [m.failure for m in entry.measured] == [""] * 4
    kept = files.parse(files.serialised(results.of([entry]), text=True), text=True)
    second = _from_results(parsed, backend, kept)
    assert calls(second.plan) == calls(made.plan) != []
    (name,) = (c.source for c in second.chosen.values())
    assert name == "given"
    algorithm = chosen(entry.choice or Choice())
    assert algorithm is not None
    older = replace(entry, choice=replace(algorithm, version=120900).choice())
    third = _from_results(parsed, backend, results.of([older]))
    assert not calls(third.plan)
    (reason,) = (c.reason for c in third.chosen.values())
    assert "it is an algorithm of cuBLASLt 12.9.0, and this is 13.1.0" in reason


def _from_results(parsed: Module, backend: WithLibrary, known: results.Results) -> compiler.Compiled[Executable]:
    tables = Tables()
    with tables.overlaid(known):
        loaded = session.choices(backend, CompileOptions(), TuningOptions(use=True, progress=False), tables)
        return compiler.compile_module(parsed, backend, choices=loaded)


def calls(plan: LaunchPlan) -> list[LibraryStep]:
    return [s for s in plan.steps if isinstance(s, LibraryStep)]
