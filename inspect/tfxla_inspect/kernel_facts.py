"""What is known of one kernel: what it computes and for which lines, its time against its floor, what it takes of the
machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .kernel_times import rate
from .markup import milliseconds, number, size
from .measures import Kernel
from .model import Module, amount, frames, mapping, place, word, words
from .occupancy import occupancy
from .parsers import cubin
from .parsers.hlo import Row, named
from .reading import Reader
from .site import route

_MOST = 20
_UNKNOWN = "unknown"
# Fields of kernels.json that stand elsewhere.
_SHOWN = frozenset(
    ("symbol", "instr", "opcode", "instrs", "sources", "bytes", "flops", "tasks", "launches", "floor_ms", "choice")
)

Fact = list[Any]


class Facts:
    """Of the kernels of one module, for the page `page`; `rows`: its instructions by name, `plan`: steps of its launch
    plan by symbol."""

    def __init__(
        self, page: str, module: Module, rows: Mapping[str, Row], plan: dict[str, dict[str, Any]], reader: Reader
    ) -> None:
        self.page, self.module, self.rows, self.plan, self.reader = page, module, rows, plan, reader
        self.objects = {f.groups.get("kernel", ""): f for f in module.files.all("cubin")}

    def of(self, kernel: Kernel) -> list[Fact]:
        """[title, value] pairs."""
        return [*self._runs(kernel), *self._costs(kernel), *self._takes(kernel), *self._origins(kernel), *_rest(kernel)]

    def _runs(self, kernel: Kernel) -> list[Fact]:
        row = self.rows.get(kernel.instr)
        facts: list[Fact] = []
        if row is not None:
            graph = route(self.page, "graph", kernel.instr, f"{kernel.instr} = {row.opcode}, in the graph")
            facts.append(["Instruction", [graph, route(self.page, "text", kernel.instr, "in the text")]])
        if len(kernel.steps) > 1:
            links = [route(self.page, "graph", name) for name in kernel.steps[:_MOST]]
            facts.append(["Runs for", [*links, *_more(len(kernel.steps))]])
        return facts

    def _costs(self, kernel: Kernel) -> list[Fact]:
        """Time against floor, with what both are of."""
        time = f"{milliseconds(kernel.each)} a run ({number(kernel.runs)} timed)" if kernel.each is not None else ""
        floor = milliseconds(kernel.floor)
        far = f", {kernel.excess:.1f} x its floor" if kernel.excess is not None else ""
        moved = f"{size(kernel.bytes)} a run" if kernel.bytes is not None else ""
        moved += f", {rate(kernel)}" if kernel.rate else ""
        moved += f" (of its instruction, which has {kernel.shares} kernels)" if moved and kernel.shares > 1 else ""
        done = f"{kernel.operations:,} a run" if kernel.operations is not None else ""
        return [
            ["Time", f"{time}{far}" if time else f"{_UNKNOWN}: not timed"],
            ["Floor", f"{floor}: the longer of moving its bytes and of its operations" if floor else _UNKNOWN],
            ["Bytes", moved or _UNKNOWN],
            ["Operations", done or _UNKNOWN],
        ]

    def _takes(self, kernel: Kernel) -> list[Fact]:
        """Of a GPU: registers, spills, shared memory, warps, how many fit on a multiprocessor."""
        step = self.plan.get(kernel.symbol, {})
        params = _pairs(step.get("params"))
        file = self.objects.get(kernel.symbol)
        code = cubin.parse(self.reader.data(file)) if file is not None else cubin.Code()
        warps, shared = amount(params, "num_warps"), amount(params, "shared_bytes")
        if warps is None and code.threads:
            warps = -(-code.threads // 32)
        if warps is None and code.registers is None:
            return []
        facts = [
            ["Registers", f"{code.registers} a thread" if code.registers is not None else _UNKNOWN],
            ["Spills and stack", f"{code.frame} bytes a thread" if code.frame is not None else _UNKNOWN],
            ["Shared memory", f"{size(shared)} a block" if shared is not None else _UNKNOWN],
            ["Warps", f"{int(warps)} a block" if warps is not None else _UNKNOWN],
        ]
        return [*facts, ["Occupancy", self._fits(warps, code.registers, shared)]]

    def _fits(self, warps: float | None, registers: int | None, shared: float | None) -> str:
        arch = self.module.elsewhere or word(mapping(self.module.timings, "target"), "arch")
        if warps is None or registers is None or shared is None:
            return _UNKNOWN
        found = occupancy(arch, int(warps), registers, int(shared))
        if found is None:
            return f"{_UNKNOWN}: {arch or 'no GPU'} is not in the table"
        return f"{100 * found.share:.0f} % of the warps, {found.blocks} blocks at once; limited by {found.limit}"

    def _origins(self, kernel: Kernel) -> list[Fact]:
        """What it computes, and the user's lines that this came from."""
        fused, row = words(kernel.record, "instrs"), self.rows.get(kernel.instr)
        links = [route(self.page, "text", name) for name in fused[:_MOST]]
        facts: list[Fact] = [["Computes", [*links, *_more(len(fused))]]] if len(fused) > 1 else []
        origins = words(kernel.record, "sources") or ([row.origin] if row and row.origin else [])
        facts.append(["User lines", self._lines(origins) or _UNKNOWN])
        nodes = [name for name in named(origins) if name]
        if nodes:
            facts.append(["TensorFlow nodes", ", ".join([*nodes[:_MOST], *_more(len(nodes))])])
        return facts

    def _lines(self, nodes: list[str]) -> list[dict[str, str]]:
        """The user's lines of some nodes, each once, as links into the tab 'lines'."""
        found: dict[str, dict[str, str]] = {}
        for node in nodes:
            for frame in frames(self.module.sources, node)[:1]:
                text = f"{place(frame)}  {word(frame, 'text')}"
                found[text] = route(self.page, "lines", place(frame), text)
        return list(found.values())


def _pairs(value: Any) -> dict[str, Any]:
    """[[name, value], ...] of a plan's step."""
    listed = value if isinstance(value, list) else []
    return {str(pair[0]): pair[1] for pair in listed if isinstance(pair, list) and len(pair) == 2}


def _rest(kernel: Kernel) -> list[Fact]:
    """Its form and how it was chosen, and what else the dump says."""
    choice = mapping(kernel.record, "choice")
    form = ", ".join(f"{knob} {value}" for knob, value in choice.items()) or "the default"
    facts = [["Form", form]] if "choice" in kernel.record else []
    rest = ((k.replace("_", " "), v) for k, v in kernel.record.items() if k not in _SHOWN and v not in (None, ""))
    return facts + [[key, str(value)] for key, value in rest]


def _more(count: int) -> list[str]:
    return [f"and {count - _MOST} more"] if count > _MOST else []
