"""A module's page: summary, optimised IR as graph and text, decisions, plan, buffers, kernels, lines."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from . import findings, measures
from .findings import Compiled, Finding
from .graphs import hlo_graph, short_shape
from .kernel_tab import kernel_tab
from .markup import Html, el, join, link, milliseconds, number, plural, size, table
from .model import Dump, Module, amount, frames, mapping, place, where, word, words
from .parsers import buffers, hlo
from .phases import phase_bar, phase_legend
from .reading import Reader, rows
from .scan import KINDS
from .site import UNKNOWN, Page, route

MOST_STEPS = 50
_MOST_REFUSED = 10  # instructions without a kernel, in the summary
_TITLES = {kind.name: kind.title for kind in KINDS}


class ModulePages:
    """Builds a module's page in two rounds, so that the large texts of all modules are packed last."""

    def __init__(self, dump: Dump, module: Module, reader: Reader, page: Page) -> None:
        self.dump, self.module, self.reader, self.page = dump, module, reader, page
        self.files = module.files
        self.before_count = self.after_count = 0
        self.launches: dict[str, list[str]] = {}
        self.measures = measures.of_module(module)
        self.kernels: list[measures.Kernel] = []
        self.findings: list[Finding] = []

    def first(self) -> None:
        """What a person opens first. The texts are dropped again: a dump has many modules."""
        text = self.reader.text(self.files.one("after"))
        self.after = self._parsed("after", text)
        self.before = self._parsed("before", self.reader.text(self.files.one("before")))
        self.before_count, self.after_count = self.before.count, self.after.count
        plan = self.reader.json(self.files.one("plan"), dict)
        _launches(plan.get("steps"), self.launches)
        records = rows(self.reader.json(self.files.one("kernels"), list))
        self.kernels = measures.kernels(records, self.launches, self.measures)
        self.page.html("summary", "Summary", self._summary())
        self._graph()
        self._text("text", "Optimised HLO", text, "after")
        self._decisions()
        self._plan(plan)
        self._buffers()
        kernel_tab(self.page, self.module, self.reader, self.after, self.launches)
        self._lines()
        self.findings = list(findings.of_module(self._compiled()))
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
        self._text("before", "HLO before", Reader().text(self.files.one("before")), "before")
        self._passes()
        self._files()

    def _compiled(self) -> Compiled:
        rows_ = (row for block in self.after.stepped() for row in block.rows)
        places = {row.name: where(self.module.sources, row.op_name) for row in rows_ if row.op_name}
        return Compiled(self.module, self.after, self.kernels, self.measures, self._decided(), places)

    def _summary(self) -> Html:
        module, compiled = self.module, self.module.compiled
        graph = self.dump.cluster_routes.get(module.cluster, "")
        facts = [
            ("Module", self.after.name or self.before.name or self.files.name or "unknown"),
            ("Number in file names", self.files.id),
            ("Function", self.dump.function_of(module) or "unknown"),
            ("Made for", f"{module.elsewhere}: code only, nothing of it ran" if module.elsewhere else ""),
            ("Without a kernel", self._lacking()),
            ("Cluster", link(graph, module.cluster) if graph else module.cluster or self._no_cluster()),
            (
                "Instructions",
                f"{self.before.count:,} as lowered, {self.after.count:,} after passes and fusion, "
                f"{len(self.after.entry.rows) if self.after.entry else 0:,} in the entry",
            ),
            ("Kernels", ", of them native: ".join(filter(None, (word(compiled, "kernels"), word(compiled, "native"))))),
            ("Compile time", milliseconds(module.milliseconds) or UNKNOWN),
            ("Why compiled", "--tfxla_gpu_target" if module.elsewhere else word(compiled, "reason") or "unknown"),
            ("Files", f"{len(self.files.files):,}, {size(self.files.bytes)}"),
        ]
        parts: list[object] = [
            el(
                "dl",
                *(
                    el(tag, value)
                    for title, value in facts
                    if value != ""
                    for tag, value in (("dt", title), ("dd", value))
                ),
            )
        ]
        if module.phases:
            parts += [
                el("h3", "Phases"),
                phase_bar(module.phases, module.milliseconds or 0),
                phase_legend(module.phases),
            ]
        parts += [*self._executions(), *self._key_part(), el("h3", "Instructions before and after"), self._opcodes()]
        return join(parts)

    def _no_cluster(self) -> str:
        if self.module.elsewhere:
            return f"as module {word(self.module.crossed, 'module')}"
        return "none: a whole function"

    def _lacking(self) -> str:
        """The instructions that the machine it was made for has no kernel for, and why; '' where there is none."""
        refused = [r for r in self._decided() if word(r, "rule") == "no-kernel"]
        shown = [f"{word(r, 'a')} ({word(r, 'reason')})" for r in refused[:_MOST_REFUSED]]
        more = f"and {len(refused) - _MOST_REFUSED} more: see 'Fusion decisions'" if refused[_MOST_REFUSED:] else ""
        return "; ".join(filter(None, (*shown, more)))

    def _executions(self) -> list[object]:
        """Where the time of its executions went, by step of the plan, the longest first."""
        listed = (record.get("steps") for record in self.module.executions)
        steps = [step for value in listed if isinstance(value, list) for step in rows(value)]
        spent: dict[str, float] = defaultdict(float)
        runs: Counter[str] = Counter()
        for step in steps:
            spent[word(step, "instr")] += amount(step, "ms") or 0
            runs[word(step, "instr")] += int(amount(step, "count") or 0)
        whole = sum(spent.values())
        if not whole:
            return []
        shown = [
            (name, number(runs[name]), milliseconds(ms), f"{100 * ms / whole:.1f} %")
            for name, ms in sorted(spent.items(), key=lambda item: -item[1])[:MOST_STEPS]
        ]
        left_out = f" The {MOST_STEPS} longest of {len(spent)}." if len(spent) > MOST_STEPS else ""
        return [
            el("h3", "Time of executions"),
            el("p", f"{milliseconds(whole)} in all its steps, in {self._timed()}.{left_out}"),
            table(("Step", "Executions", "Time", "Share"), shown, (1, 2, 3)),
        ]

    def _timed(self) -> str:
        """Which executions the times are of."""
        record = self.module.executions[-1]
        count, timed = amount(record, "count") or 0, amount(record, "timed")
        if timed is None or timed >= count:
            return plural(int(count), "execution")
        return f"the first {number(timed)} of {plural(int(count), 'execution')} (--tfxla_timings: in all)"

    def _key_part(self) -> list[object]:
        guards = self.module.compiled.get("guards")
        listed = (
            guards
            if isinstance(guards, list)
            else [f"{k}: {v}" for k, v in mapping(self.module.compiled, "guards").items()]
        )
        parts: list[object] = []
        if listed:
            parts += [el("h3", "Compiled for"), el("ul", *(el("li", str(guard)) for guard in listed))]
        inputs = words(self.module.compiled, "inputs")
        if inputs:
            parts += [el("h3", "Parameters"), el("ol", *(el("li", text) for text in inputs), start=0)]
        hits = [r for r in self.module.compiles if r is not self.module.compiled]
        if hits:
            counted = Counter((word(r, "hit") or "compiled", word(r, "reason")) for r in hits)
            parts += [
                el("h3", "Asked for again"),
                table(("Answer", "Reason", "Times"), [(*k, n) for k, n in counted.items()], (2,)),
            ]
        return parts

    def _opcodes(self) -> Html:
        before, after = self.before.opcodes(), self.after.opcodes()
        names = sorted(before | after, key=lambda k: (-max(before[k], after[k]), k))
        shown = [
            (k, number(before[k]), number(after[k]), f"{after[k] - before[k]:+,}" if after[k] != before[k] else "")
            for k in names
        ]
        return table(("Opcode", "As lowered", "Optimised", "Difference"), shown, (1, 2, 3))

    def _graph(self) -> None:
        if not self.after.count:
            self.page.missing("graph", "Graph", "The dump holds no readable optimised HLO of this module.")
            return
        tabs = [("text", "text"), ("kernel", "kernels"), ("decisions", "fusion")]
        self.page.data("graph", "Graph", "graph", hlo_graph(self.after, self.module.sources, tabs), n=self.after.count)

    def _text(self, tab: str, title: str, text: str, kind: str) -> None:
        if text:
            self.page.text(tab, title, text, "hlo")
        elif self.files.one(kind):
            self.page.missing(tab, title, "The file is empty or cannot be read; see 'Not read' on the start page.")
        else:
            self.page.missing(tab, title, "The dump holds no such text (killed before, or --xla_dump_hlo_as_text off).")

    def _decisions(self) -> None:
        found = self._decided()
        if not found:
            why = "There was nothing to fuse." if self.module.elsewhere else f"Fusion decisions are {UNKNOWN}."
            self.page.missing("fusion", "Fusion decisions", why)
            return
        columns = [("Producer", "", 3), ("Consumer", "", 3), ("Fused", "", 1), ("Rule", "", 2), ("Reason", "", 6)]
        self.page.table(
            "fusion",
            "Fusion decisions",
            columns,
            (
                (
                    word(r, "a", "producer"),
                    word(r, "b", "consumer"),
                    "yes" if r.get("ok") else "no",
                    word(r, "rule"),
                    word(r, "reason"),
                )
                for r in found
            ),
        )

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
            lacking = f"No launch plan: {self._lacking()}" if self.module.elsewhere else ""
            self.page.missing("plan", "Launch plan", lacking or f"The launch plan is {UNKNOWN}.")

    def _buffers(self) -> None:
        found = buffers.parse(self.reader.text(self.files.one("buffers")))
        if not found:
            self.page.missing("buffers", "Buffers", "The dump holds no buffer assignment of this module.")
            return
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

    def _lines(self) -> None:
        """User lines with the instructions that came from each, most first."""
        sources = self.module.sources
        if not sources:
            self.page.missing("lines", "Source lines", f"The user's lines are {UNKNOWN} (only TensorFlow's own file).")
            return
        counted: Counter[str] = Counter(row.op_name for block in self.after.blocks for row in block.rows)
        by_line: dict[tuple[str, str], list[str]] = {}
        for node in sources:
            if found := frames(sources, node):
                by_line.setdefault((place(found[0]), word(found[0], "text")), []).append(node)
        cells = [
            (
                where,
                text,
                len(nodes),
                sum(counted[n] for n in nodes),
                route(self.page.page, "graph", f"?{where}", "in graph"),
                ", ".join(nodes),
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
        found = sorted(self.files.all("pass"), key=lambda f: int(f.groups["step"]))
        if not found:
            self.page.missing(
                "passes", "Passes", "No HLO between passes in the dump: run with --xla_dump_hlo_pass_re=.* to have it."
            )
            return
        cells: list[tuple[Any, ...]] = []
        lines: list[str] = []
        previous: list[str] = []
        for file in found:
            text = self.reader.text(file).splitlines()
            gone, new = _difference(previous, text) if previous else ([], [])
            start = len(lines) + 1
            lines += [f"@ {file.groups['step']} {file.groups['pipeline']}: after {file.groups['after']}", *gone, *new]
            cells.append(
                (
                    file.groups["step"],
                    file.groups["pipeline"],
                    file.groups["after"],
                    file.groups["before"],
                    sum(" = " in line for line in text),
                    len(gone),
                    len(new),
                    route(self.page.page, "changes", f"L{start}", "changes"),
                )
            )
            previous = text
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
                (f.name, _TITLES.get(f.kind, "not known"), f.bytes)
                for f in sorted(self.files.files, key=lambda f: -f.bytes)
            ),
        )


def _difference(old: list[str], new: list[str]) -> tuple[list[str], list[str]]:
    """Lines that only `old`, and only `new`, has (as bags), marked as in a diff; 2,000 of each at most."""
    before, after = Counter(old), Counter(new)
    gone, came = before - after, after - before
    return [f"- {line}" for line in old if line in gone][:2000], [f"+ {line}" for line in new if line in came][:2000]


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


def _launches(steps: Any, found: dict[str, list[str]]) -> None:
    """Add to symbol -> instructions what the steps, nested ones too, run."""
    for step in rows(steps) if isinstance(steps, list) else []:
        if symbol := word(step, "symbol"):
            found.setdefault(symbol, []).append(word(step, "instr"))
        branches = step.get("branches")
        for inner in [*(branches if isinstance(branches, list) else []), step.get("condition"), step.get("body")]:
            _launches(inner, found)


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
