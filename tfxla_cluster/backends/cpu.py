"""This machine's cores: LLVM's machine code, run by the interpreter of launch plans and its thread pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ..codegen.kernel import lower
from ..codegen.kernel.choice import DEFAULT, Candidates, Choice
from ..codegen.kernel.code import Code, Listing, Source
from ..codegen.kernel.unit import Unit
from ..codegen.llvm.loader import Library
from ..codegen.llvm.object_code import assemble, compile_kernels, object_files
from ..fusion.machine import Costs, Machine
from ..ir.node import Instr
from ..options import CompileOptions
from ..runtime import store
from ..runtime.cpu import floor, host, native
from ..runtime.cpu.executable import Executable
from ..runtime.floor import Floor
from ..runtime.plan import LaunchPlan
from ..target import Target

COSTS = Costs(
    max_instrs=120,  # beyond, registers spill and compile time grows
    max_repeats=60,  # beyond, code grows without end: `tf.where` of 40,001 took 30 s to compile and 88 ms to run
    plain_instrs=30,
    max_buffers=40,
    max_prologue=4,
    max_again=3,
    long_row=64 * 1024,
    rows_per_core=4,
    long_column=512,
    shared_bytes=16 * 1024,
    max_readers=16,
)
# Scalar operations below which a kernel is generated quickly: some 5 us of work, while careful code saves
# half of that at most and costs 10 ms more to make.
BRIEF_WORK = 20_000


@dataclass(frozen=True, slots=True)
class Cpu:
    """A backend.Backend for the CPU `target`."""

    target: Target
    name: ClassVar[str] = "cpu"
    origin: ClassVar[str] = "generator"

    @property
    def machine(self) -> Machine:
        return Machine(COSTS, self.target.cores)

    def floor(self) -> Floor:
        return floor.floor()

    def lower(self, instr: Instr, choice: Choice = DEFAULT) -> Unit:
        return lower.lower(instr, self.target, choice)

    def candidates(self, instr: Instr) -> Candidates:
        return lower.candidates(instr, self.target)

    def compile(self, sources: Sequence[Source], options: CompileOptions, listing: Listing | None) -> Code:
        """Object files; kernels that run too briefly to repay careful code are generated quickly."""
        brief = {s.symbol for s in sources if s.work is not None and s.work < BRIEF_WORK}
        kernels = [(s.kernel, s.symbol) for s in sources if not s.text]
        codes = compile_kernels(kernels, self.target, host.compile_threads(options.compile_threads), brief, listing)
        given = (assemble(s.text, self.target) for s in sources if s.text)
        return Code((*object_files(codes), *given))

    def load(self, plan: LaunchPlan, code: Code, options: CompileOptions) -> Executable:
        native.runtime(options.threads, store.opened(options.store))
        return Executable(plan, Library(code.objects, self.target), options.timed_executions)


def this_machine() -> Cpu:
    """The backend of the CPU that this process runs on."""
    return Cpu(host.target())
