"""What tests of products by a library of the GPU share: a backend over the double of the library, and products."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.codegen.triton.test_gpu_launcher import Doubled
from tests.hlo_case import module
from tests.runtime.cublaslt_double import CublasDouble, libraries
from tfxla_cluster.backends import gpu
from tfxla_cluster.backends.backend import Backend, Launcher
from tfxla_cluster.codegen.kernel.choice import Candidates, Choice, Chosen
from tfxla_cluster.codegen.kernel.code import Code
from tfxla_cluster.codegen.kernel.library import NO_LIBRARIES, Libraries
from tfxla_cluster.codegen.kernel.library_product import Algorithm, chosen
from tfxla_cluster.codegen.kernel.unit import Unit
from tfxla_cluster.ir import text
from tfxla_cluster.ir.node import Instr
from tfxla_cluster.options import CompileOptions
from tfxla_cluster.runtime.gpu.executable import Executable
from tfxla_cluster.runtime.gpu.libraries.on_device import OnDevice
from tfxla_cluster.runtime.gpu.libraries.products import Products
from tfxla_cluster.runtime.plan import LaunchPlan, LibraryStep

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


@contextmanager
def opened() -> Iterator[WithLibrary]:
    """A backend whose machine and library may not have met an error at the end."""
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


def library_dot(name: str = "f32 nn") -> Instr:
    return text.parse(module(CASES[name])).entry.root


def first_algorithm(backend: WithLibrary, number: int = 0) -> Algorithm:
    found = chosen(backend.candidates(library_dot()).others[number])
    assert found is not None
    return found


def calls(plan: LaunchPlan) -> list[LibraryStep]:
    return [s for s in plan.steps if isinstance(s, LibraryStep)]
