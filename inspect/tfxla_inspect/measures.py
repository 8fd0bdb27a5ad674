"""How long the steps of a module took in the executions that were timed, and the least that they could take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from .model import Module, Record, amount, word
from .reading import rows


@dataclass(slots=True)
class StepTime:
    """Of one step of the plan: `runs` that were timed took `ms` in all; `least` and `median` of one, where known."""

    runs: int = 0
    ms: float = 0.0
    least: float | None = None
    median: float | None = None

    @property
    def each(self) -> float:
        """Milliseconds of one run: the median, else the mean."""
        return self.median if self.median is not None else self.ms / max(self.runs, 1)


@dataclass(slots=True)
class Measures:
    """`executions` of the module in all, of which the first `timed` were timed; `steps` by instruction, `codes` by
    the symbol that they run."""

    executions: int = 0
    timed: int = 0
    steps: dict[str, StepTime] = field(default_factory=dict)
    codes: dict[str, StepTime] = field(default_factory=dict)

    @property
    def ms(self) -> float:
        """Of all steps of the executions that were timed."""
        return sum(step.ms for step in self.steps.values())

    @property
    def scale(self) -> float:
        """From what was timed to all executions."""
        return self.executions / self.timed if self.timed else 0.0

    def spent(self, step: StepTime) -> float:
        """Milliseconds of a step in all executions, those not timed taken as the timed ones."""
        return step.ms * self.scale


def of_module(module: Module) -> Measures:
    """From the trace's records of its executions: of each process the last one holds."""
    last = {word(record, "pid"): record for record in module.executions}
    found = Measures()
    for record in last.values():
        executions = int(amount(record, "count") or 0)
        timed = amount(record, "timed")
        found.executions += executions
        found.timed += executions if timed is None else int(timed)
        for step in rows(_list(record, "steps")):
            _add(found, step)
    return found


def _add(found: Measures, record: Record) -> None:
    runs, ms = int(amount(record, "count") or 0), float(amount(record, "ms") or 0)
    least, median = amount(record, "min_ms"), amount(record, "median_ms")
    for name, places in ((word(record, "instr", "symbol"), found.steps), (word(record, "symbol"), found.codes)):
        if not name:
            continue
        step = places.setdefault(name, StepTime())
        step.runs += runs
        step.ms += ms
        step.least = least if step.least is None else min(step.least, least if least is not None else step.least)
        step.median = median if step.median is None or step.runs == runs else step.ms / max(step.runs, 1)


def _list(record: Record, key: str) -> list[Any]:
    value = record.get(key)
    return value if isinstance(value, list) else []


@dataclass(slots=True)
class Kernel:
    """A kernel of a module: what kernels.json says of it, and how long it took. `steps`: the instructions whose step
    runs it. `bytes`, `operations`, `floor` (milliseconds): of a launch, the mean of its launches; `shares`: how many
    kernels have these numbers of their instruction together, in dumps that have none of each launch. `ms`: of all
    executions, `each`: of one run; None where it was not timed."""

    symbol: str
    record: Record
    instr: str
    steps: Sequence[str]
    shares: int = 1
    bytes: int | None = None
    operations: int | None = None
    runs: int = 0
    each: float | None = None
    ms: float | None = None
    floor: float | None = None

    @property
    def rate(self) -> float | None:
        """Bytes a millisecond that it was seen to move."""
        return self.bytes / self.each if self.bytes and self.each and self.shares == 1 else None

    @property
    def excess(self) -> float | None:
        """How many times its floor a run takes."""
        return self.each / self.floor if self.each is not None and self.floor else None

    @property
    def homes(self) -> Sequence[str]:
        """The instructions whose time is its own: those of its steps, without a plan its own."""
        return self.steps or [self.instr]


def by_symbol(steps: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """(symbol, step) of the steps that run a kernel, nested ones too."""
    for step in rows(steps) if isinstance(steps, list) else []:
        if symbol := word(step, "symbol"):
            yield symbol, step
        branches = step.get("branches")
        for inner in [*(branches if isinstance(branches, list) else []), step.get("condition"), step.get("body")]:
            yield from by_symbol(inner)


def launches(steps: Any) -> dict[str, list[str]]:
    """Symbol -> instructions whose step, nested ones too, runs it."""
    found: dict[str, list[str]] = {}
    for symbol, step in by_symbol(steps):
        found.setdefault(symbol, []).append(word(step, "instr"))
    return found


def kernels(records: Iterable[Record], launches: dict[str, list[str]], found: Measures) -> list[Kernel]:
    """`records`: those of kernels.json; `launches`: symbol -> instructions whose step runs it."""
    listed = [r for r in records if word(r, "symbol")]
    names = [word(r, "instr") for r in listed]
    return [_kernel(r, launches.get(word(r, "symbol"), []), names.count(word(r, "instr")), found) for r in listed]


def _kernel(record: Record, steps: Sequence[str], together: int, found: Measures) -> Kernel:
    launches = rows(_list(record, "launches"))
    shares = 1 if launches else together
    bytes_, operations, floor = (_mean(launches or [record], name) for name in ("bytes", "flops", "floor_ms"))
    kernel = Kernel(
        word(record, "symbol"),
        record,
        word(record, "instr"),
        steps,
        shares,
        None if bytes_ is None else round(bytes_),
        None if operations is None else round(operations),
        floor=floor,
    )
    code = found.codes.get(kernel.symbol)
    times = [code] if code else [found.steps[name] for name in steps if name in found.steps and together == 1]
    if times:
        kernel.runs = sum(t.runs for t in times)
        kernel.each = sum(t.each * t.runs for t in times) / max(kernel.runs, 1)
        kernel.ms = sum(map(found.spent, times))
    return kernel


def _mean(launches: Sequence[Record], name: str) -> float | None:
    known = [value for launch in launches if (value := amount(launch, name)) is not None]
    return sum(known) / len(known) if known else None
