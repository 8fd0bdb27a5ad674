"""A module's page: summary, optimised IR as graph and text, decisions, plan, buffers, kernels, lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from . import findings, fusions, graph_measures, measures, memory, memory_page, module_summary, passes
from .file_kinds import TITLES
from .findings import Compiled, Finding
from .graphs import hlo_graph, short_shape
from .kernel_tab import Made, kernel_tab
from .model import Dump, Module, frames, place, where, word, words
from .module_summary import Facts
from .parsers import buffers, hlo, lives
from .reading import Reader, rows
from .site import UNKNOWN, Page, route
from .texts_tab import texts_tab

Assigned = tuple[str, list[buffers.Allocation]]  # the text of a buffer assignment, and what is in it


class ModulePages:
    """Builds a module's page in two rounds, so that the large texts of all modules are packed last."""

    def __init__(self, dump: Dump, module: Module, reader: Reader, page: Page) -> None:
        self.dump, self.module, self.reader, self.page = dump, module, reader, page
        self.files = module.files
        self.before_count = self.after_count = 0
        self.measures = measures.of_module(module)
        self.kernels: list[measures.Kernel] = []
        self.findings: list[Finding] = []

    def first(self) -> None:
        """What a person opens first. The texts are dropped again: a dump has many modules."""
        text = self.reader.text(self.files.one("after"))
        self.after = self._parsed("after", text)
        self.before = self._parsed("before", self.reader.text(self.files.one("before")))
        self.before_count, self.after_count = self.before.count, self.after.count
        self.module.sources = self.before.sources | self.after.sources | self.module.sources
        plan = self.reader.json(self.files.one("plan"), dict)
        launches = measures.launches(plan.get("steps"))
        records = rows(self.reader.json(self.files.one("kernels"), list))
        self.kernels = measures.kernels(records, launches, self.measures)
        self.decided = self._decided()
        facts = Facts(self.dump, self.module, self.before, self.after, self.measures, self.kernels, self.decided)
        self.page.html("summary", "Summary", module_summary.build(facts))
        self._graph()
        self._text("text", "Optimised HLO", text, "after")
        self._decisions()
        self._plan(plan)
        compiled = self._compiled()
        self._memory(self._buffers(), compiled.places)
        steps = dict(measures.by_symbol(plan.get("steps")))
        made = Made(self.module, self.after, self.kernels, launches, steps, compiled.places)
        kernel_tab(self.page, made, self.reader)
        self._lines()
        self.findings = list(findings.of_module(compiled))
        del self.after, self.before

    def _parsed(self, kind: str, text: str) -> hlo.Hlo:
        """The HLO in `text`; what is odd about it is noted."""
        found, file = hlo.parse(text), self.files.one(kind)
        if file is not None and text and (found.truncated or not found.blocks):
            reason = "breaks off inside a computation" if found.truncated else "no computation in it"
            self.reader.problems.append((file.name, reason))
        return found

    def second(self) -> None:
        """The large remainder."""
        before = Reader().text(self.files.one("before"))
        self._text("before", "HLO before", before, "before")
        if self.before_count:
            data = hlo_graph(hlo.parse(before), self.module.sources, [("text", "before")])
            self.page.data("graph_before", "Graph before", "graph", data, n=self.before_count)
        self._passes()
        texts_tab(self.page, self.module, self.reader)
        self._files()

    def _compiled(self) -> Compiled:
        rows_ = (row for block in self.after.blocks for row in block.rows)
        places = {row.name: line for row in rows_ if (line := where(self.module.sources, row.origin))}
        return Compiled(self.module, self.after, self.kernels, self.measures, self.decided, places)

    def _graph(self) -> None:
        if not self.after.count:
            self.page.missing("graph", "Graph", "The dump holds no readable optimised HLO of this module.")
            return
        tabs = [("text", "text"), ("kernel", "kernels"), ("decisions", "fusion")]
        columns = graph_measures.columns(self.after, self.measures, self.kernels)
        data = hlo_graph(self.after, self.module.sources, tabs, columns)
        self.page.data("graph", "Graph", "graph", data, n=self.after.count)

    def _text(self, tab: str, title: str, text: str, kind: str) -> None:
        if text:
            self.page.text(tab, title, text, "hlo")
        elif self.files.one(kind):
            self.page.missing(tab, title, "The file is empty or cannot be read; see 'Not read' on the start page.")
        else:
            self.page.missing(tab, title, "The dump holds no such text (killed before, or --xla_dump_hlo_as_text off).")

    def _decisions(self) -> None:
        found = self.decided
        if not found:
            why = "There was nothing to fuse." if self.module.elsewhere else f"Fusion decisions are {UNKNOWN}."
            self.page.missing("fusion", "Fusion decisions", why)
            return
        columns = [
            ("Kernel", "", 3),
            ("Producer", "", 3),
            ("Consumer", "", 3),
            ("Fused", "", 1),
            ("Bytes saved", "b", 1),
            ("Rule", "", 2),
            ("Reason", "", 6),
        ]
        listed = fusions.decided(self.after, self.kernels, found)
        self.page.table("fusion", "Fusion decisions", columns, listed, group=0)

    def _decided(self) -> list[dict[str, Any]]:
        found = rows(self.reader.json(self.files.one("decisions"), list))
        return found or [r for r in self.dump.of("fusion") if r.get("id") == self.files.id]

    def _plan(self, plan: dict[str, Any]) -> None:
        thunks = self.reader.text(self.files.one("thunks"))
        if plan:
            columns = [
                ("Step", "", 1),
                ("Runs", "", 4),
                ("Instruction", "", 3),
                ("Reads", "", 4),
                ("Writes", "", 3),
                ("Tasks", "", 1),
            ]
            self.page.table("plan", "Launch plan", columns, _steps(plan.get("steps"), self.page.page))
        elif thunks:
            self.page.text("plan", "Thunk sequence", thunks, "none")
        else:
            lacking = f"No launch plan: {module_summary.lacking(self.decided)}" if self.module.elsewhere else ""
            self.page.missing("plan", "Launch plan", lacking or f"The launch plan is {UNKNOWN}.")

    def _memory(self, assigned: Assigned, places: Mapping[str, str]) -> None:
        """Ours have a file of it; of XLA's, its live ranges beside or in the buffer assignment."""
        text, allocations = assigned
        found = lives.of_json(self.reader.json(self.files.one("lives"), dict))
        if found is None:
            found = lives.of_text(self.reader.text(self.files.one("live")) or text, allocations)
        if found is None:
            self.page.missing("memory", "Memory", "When each value is in memory is not in the dump of this module.")
            return
        names = words(self.module.compiled, "inputs")
        shown = memory_page.build(memory.timeline(found), self.page.page, places, names)
        self.page.html("memory", "Memory", shown)

    def _buffers(self) -> Assigned:
        text = self.reader.text(self.files.one("buffers"))
        found = buffers.parse(text)
        if not found:
            self.page.missing("buffers", "Buffers", "The dump holds no buffer assignment of this module.")
            return text, found
        columns = [
            ("Allocation", "n", 1),
            ("Kind", "", 2),
            ("Allocation bytes", "b", 1),
            ("Offset", "n", 1),
            ("Bytes", "b", 1),
            ("Instruction", "", 4),
            ("Shape", "", 4),
        ]
        cells: list[tuple[Any, ...]] = []
        for a in found:
            values = a.values or [(a.what, 0, 0, "")]
            cells += [
                (a.number, a.kind, a.bytes, offset, amount, name, short_shape(shape))
                for name, amount, offset, shape in values
            ]
        self.page.table("buffers", "Buffers", columns, cells)
        return text, found

    def _lines(self) -> None:
        """User lines with the instructions that came from each, most first."""
        sources = self.module.sources
        if not sources:
            self.page.missing("lines", "Source lines", f"The user's lines are {UNKNOWN} (only TensorFlow's own file).")
            return
        counted: Counter[str] = Counter(row.origin for block in self.after.blocks for row in block.rows)
        by_line: dict[tuple[str, str], list[str]] = {}
        for node in sources:
            if found := frames(sources, node):
                by_line.setdefault((place(found[0]), word(found[0], "text")), []).append(node)
        cells = [
            (
                where,
                text,
                len(hlo.named(nodes)),
                sum(counted[n] for n in nodes),
                route(self.page.page, "graph", f"?{where}", "in graph"),
                ", ".join(hlo.named(nodes)),
            )
            for (where, text), nodes in by_line.items()
        ]
        columns = [
            ("Line", "", 2),
            ("Text", "", 6),
            ("Nodes", "n", 1),
            ("Instructions", "n", 1),
            ("Show", "", 1),
            ("TensorFlow nodes", "", 4),
        ]
        self.page.table("lines", "Source lines", columns, sorted(cells, key=lambda c: -c[3]))

    def _passes(self) -> None:
        cells: list[tuple[Any, ...]] = []
        lines: list[str] = []
        for step in passes.timeline(self.module, self.reader):
            start = len(lines) + 1
            lines += [f"@ {step.step:04} {step.pipeline}: after {step.after}", *step.delta]
            shown = route(self.page.page, "changes", f"L{start}", "changes")
            cells.append(
                (step.step, step.pipeline, step.after, step.before, step.instructions, step.gone, step.new, shown)
            )
        if not cells:
            self.page.missing(
                "passes", "Passes", "No HLO between passes in the dump: run with --xla_dump_hlo_pass_re=.* to have it."
            )
            return
        columns = [
            ("Step", "", 1),
            ("Pipeline", "", 3),
            ("After", "", 3),
            ("Before", "", 3),
            ("Instructions", "n", 1),
            ("Lines gone", "n", 1),
            ("Lines new", "n", 1),
            ("Show", "", 1),
        ]
        self.page.table("passes", "Passes", columns, cells)
        self.page.text("changes", "Changes", "\n".join(lines), "diff")

    def _files(self) -> None:
        columns = [("File", "", 8), ("Kind", "", 3), ("Bytes", "b", 1)]
        self.page.table(
            "files",
            "Files",
            columns,
            (
                (f.name, TITLES.get(f.kind, "not known"), f.bytes)
                for f in sorted(self.files.files, key=lambda f: -f.bytes)
            ),
        )


def _steps(steps: Any, page: str, prefix: str = "") -> Iterator[tuple[Any, ...]]:
    """Rows of a launch plan, the steps of loops and branches after their own row."""
    for number_, step in enumerate(rows(steps) if isinstance(steps, list) else []):
        at = f"{prefix}{number_}"
        symbol = word(step, "symbol")
        what: Any = (
            route(page, "kernels", symbol)
            if symbol
            else (word(step, "routine", "op") or word(step, "type").removesuffix("Step").lower())
        )
        target = [step["target"]] if isinstance(step.get("target"), dict) else step.get("outputs")
        source = [step["source"]] if isinstance(step.get("source"), dict) else step.get("inputs")
        yield at, what, word(step, "instr"), _refs(source), _refs(target), _dim(step.get("tasks"))
        branches = step.get("branches")
        for n, branch in enumerate(branches if isinstance(branches, list) else []):
            yield from _steps(branch, page, f"{at}.branch{n}.")
        yield from _steps(step.get("condition"), page, f"{at}.condition.")
        yield from _steps(step.get("body"), page, f"{at}.body.")


def _refs(value: Any) -> str:
    found = rows(value) if isinstance(value, list) else []
    return ", ".join(
        f"{word(r, 'kind')}{'@' + _dim(r.get('offset')) if r.get('kind') == 'temp' else word(r, 'index')}"
        for r in found
    )


def _dim(value: Any) -> str:
    if isinstance(value, dict):
        return f"{word(value, 'dim')} (now {word(value, 'sample')})"
    return f"{value:,}" if isinstance(value, int) else ""
