"""The kernels of a module, equal ones once, and what the dump and the trace say of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Union

from . import trace
from .codegen.kernel import key as kernel_key
from .codegen.kernel import text as kernel_text
from .codegen.kernel.choice import Chosen
from .codegen.kernel.ir import Kernel
from .codegen.kernel.unit import Unit, UnitKernel, UnitLibrary, UnitRef
from .codegen.kernel.work import work
from .dump import module_files
from .dump.cost import flops_of, shape_bytes
from .dump.module_files import KernelRow
from .dump.sink import ModuleDump
from .ir.dim import sample
from .ir.node import Instr
from .runtime.floor import Floor
from .runtime.schedule import leaves
from .tuning import fingerprint


@dataclass(frozen=True)
class Shared:
    """Kernels of all units, equal ones once: symbol -> kernel, every kernel -> its symbol, and for each
    symbol the instruction it was first made for. `calls`: of libraries, by a name of their own."""

    kernels: dict[str, Kernel]
    symbols: dict[Kernel, str]
    instrs: dict[str, Instr]
    calls: dict[str, Instr]

    def of(self, unit: Unit) -> set[str]:
        """The symbols of a unit's kernels."""
        return {self.symbols[step.kernel] for step in unit.steps if isinstance(step, UnitKernel)}

    def chosen(
        self, symbols: Set[str], units: Mapping[Instr, Unit], chosen: Mapping[Instr, Chosen]
    ) -> dict[Instr, Chosen]:
        """What was chosen for the instructions that kernels of `symbols` are of."""
        return {instr: chosen[instr] for instr, unit in units.items() if self.of(unit) & symbols}


def share_kernels(units: Mapping[Instr, Unit]) -> Shared:
    """Give kernels of equal structure one symbol; sizes are arguments, so they may differ."""
    shared = Shared({}, {}, {}, {})
    by_key: dict[str, str] = {}
    for instr, unit in units.items():
        for step in unit.steps:
            if isinstance(step, UnitLibrary):
                shared.calls[call_name(step, instr)] = instr
            if not isinstance(step, UnitKernel):
                continue
            symbol = by_key.setdefault(kernel_key.key(step.kernel), f"kernel_{len(by_key)}_{_word(step.kernel.name)}")
            shared.symbols[step.kernel] = symbol
            shared.kernels.setdefault(symbol, step.kernel)
            shared.instrs.setdefault(symbol, instr)
    return shared


def rows(
    shared: Shared,
    units: Mapping[Instr, Unit],
    chosen: Mapping[Instr, Chosen],
    dump: ModuleDump,
    floor: Callable[[], Floor | None],
) -> list[KernelRow]:
    """A row of each kernel and call of a library; none where neither dump nor trace takes them. `floor`: of the
    machine, which may have to be measured."""
    if not dump and not trace.wants("kernel"):
        return []
    best = floor() if dump else None
    launches: dict[str, list[dict[str, Any]]] = {}
    for instr, unit in units.items():
        for symbol, launch in _launches(shared, instr, unit):
            least = None if best is None else best.milliseconds(launch["bytes"], launch["flops"])
            launches.setdefault(symbol, []).append({**launch, "floor_ms": least})
    made = {**shared.instrs, **shared.calls}
    return [
        KernelRow(symbol, instr, {**_first(launches[symbol]), **_tuning(instr, chosen[instr], dump)})
        for symbol, instr in made.items()
    ]


def _launches(shared: Shared, instr: Instr, unit: Unit) -> Iterator[tuple[str, dict[str, Any]]]:
    """(symbol, what one launch does) of each step of a unit that runs code, at sample sizes."""
    calls = [step for step in unit.steps if not isinstance(step, UnitKernel)]
    for step in unit.steps:
        if isinstance(step, UnitKernel):
            kernel, tasks = step.kernel, sample(step.kernel.tasks)
            found = work(kernel, list(map(sample, kernel.sizes)), tasks, *extents(step, instr, unit))
            does = {"tasks": tasks, "bytes": found.bytes, "flops": found.operations}
            yield shared.symbols[kernel], {"instr": instr.name, **does}
        elif isinstance(step, UnitLibrary):
            flops = flops_of(instr) if calls == [step] else None
            moved = sum(map(sum, extents(step, instr, unit)))
            does = {"tasks": sample(step.tasks), "bytes": moved, "flops": flops}
            yield call_name(step, instr), {"instr": instr.name, **does}


def extents(step: Union[UnitKernel, UnitLibrary], instr: Instr, unit: Unit) -> tuple[list[int], list[int]]:
    """Bytes of what a step reads from and of what it writes to."""
    sizes = {
        "operand": [shape_bytes(leaf) for operand in instr.operands for leaf in leaves(operand.shape)],
        "result": [shape_bytes(leaf) for leaf in leaves(instr.shape)],
        "temp": [sample(size) for size in unit.temps],
    }

    def of(refs: Sequence[UnitRef]) -> list[int]:
        return [sizes[ref.kind][ref.index] for ref in refs]

    return of(step.inputs), of(step.outputs)


def _first(launches: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Facts of a row: those of the first launch, and all launches."""
    first = {name: value for name, value in launches[0].items() if name != "instr"}
    return {**first, "launches": list(launches)}


def write(dump: ModuleDump, shared: Shared, rows: Sequence[KernelRow]) -> None:
    """The table and the kernels' IR into the dump."""
    if dump:
        module_files.kernel_table(dump, rows)
        texts = [(f"kernel {symbol}", kernel_text.render(kernel)) for symbol, kernel in shared.kernels.items()]
        module_files.kernel_texts(dump, "kernel_ir.txt", texts)


def record(module: str, dump: ModuleDump, rows: Sequence[KernelRow]) -> None:
    """A record of each row."""
    if trace.wants("kernel"):
        for row in rows:
            trace.record("kernel", module=module, id=dump.number, **row.row())


def _tuning(instr: Instr, chosen: Chosen, dump: ModuleDump) -> dict[str, Any]:
    """Facts of a kernel: the form it has, and why that one; in a dump, what keys of results know it by."""
    facts = {"choice": dict(chosen.choice), "tuning": chosen.source, "tuning_reason": chosen.reason}
    return {**facts, "fingerprint": fingerprint.digest(fingerprint.canonical(instr))} if dump else facts


def call_name(step: UnitLibrary, instr: Instr) -> str:
    """Of a library's call, among symbols."""
    return f"{step.routine}.{instr.name}"


def _word(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)
