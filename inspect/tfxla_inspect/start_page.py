"""The start page: what ran, what became of it, where time went, what was not compiled and why."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from . import __version__
from .file_kinds import TITLES
from .graphs import PLUMBING
from .markup import Html, el, join, link, milliseconds, number, plural, size, table
from .model import Dump, Module, Record, mapping, word, words
from .parsers import options
from .phases import colour_key, phase_bar
from .site import UNKNOWN

_MOST = 100
_NONE = ("", "", "")
_STATS = (
    "functions",
    "clusters",
    "compilations",
    "lowerings",
    "executions",
    "kernels",
    "native_kernels",
    "cache_hits",
    "cache_misses",
    "fallbacks",
    "internal_errors",
    "ops_total",
    "ops_clustered",
)


@dataclass(frozen=True, slots=True)
class GraphRow:
    """A TensorFlow graph's line on the start page. `left`: op -> nodes in no cluster."""

    page: str
    file: str
    function: str
    nodes: int
    computing: int
    clustered: int
    clusters: int
    left: Counter[str]


@dataclass(frozen=True, slots=True)
class ModuleRow:
    """A module's line: instruction counts as lowered and optimised."""

    module: Module
    before: int
    after: int
    kernels: int


@dataclass(frozen=True, slots=True)
class Sections:
    """Parts that other modules wrote. `times`, `compilations`: where the time of these went; `again`: what was compiled
    more than once; `command`: that made the report; `trace`: the page of all records, or ''."""

    findings: Html | None
    times: Html | None
    compilations: Html | None
    again: Html | None
    command: str
    trace: str


def build(
    dump: Dump,
    graphs: Sequence[GraphRow],
    modules: Sequence[ModuleRow],
    problems: Sequence[tuple[str, str]],
    left_out: Sequence[tuple[str, int]],
    sections: Sections,
) -> Html:
    """The whole start page."""
    return join(
        [
            el("h1", f"Dump of {dump.directory.path.name or dump.directory.path}"),
            _verdict(dump, graphs, modules),
            _tiles(dump, graphs, modules),
            _section("What to do first", sections.findings),
            _section("Where the time of executions went", sections.times),
            _section("Where the time of compilations went", sections.compilations),
            _section("Modules", _modules(modules)),
            _section("TensorFlow graphs", _graphs(graphs)),
            _section("Not compiled, and why", _unclustered(dump, graphs)),
            _section("Compiled again", sections.again),
            _section("Fall-backs and errors", _failures(dump)),
            _section("What ran", _runs(dump)),
            _section("Counters at exit", _stats(dump)),
            _section("Not read", _problems(problems, left_out)),
            _section("Files", _files(dump)),
            el("p", link(sections.trace, "All trace records")) if sections.trace else None,
            el("footer", f"Written by tfxla-inspect {__version__}: ", el("code", sections.command)),
        ]
    )


def _section(title: str, content: Html | None) -> Html | None:
    return el("section", el("h2", title), content) if content is not None else None


def _verdict(dump: Dump, graphs: Sequence[GraphRow], modules: Sequence[ModuleRow]) -> Html:
    here, elsewhere = _by_machine(modules)
    if modules:
        kernels = sum(row.kernels for row in here)
        text = f"{plural(len(here), 'module')} compiled, {plural(kernels, 'kernel')} generated."
        if elsewhere:
            more = sum(row.kernels for row in elsewhere)
            machines = ", ".join(dict.fromkeys(row.module.elsewhere for row in elsewhere))
            text += f" Code only, for {machines}: {plural(len(elsewhere), 'module')}, {plural(more, 'kernel')}."
        inside, computing = sum(g.clustered for g in graphs), sum(g.computing for g in graphs)
        if computing:
            text += (
                f" {inside:,} of {computing:,} computing nodes ({100 * inside / computing:.0f} %) of "
                f"{plural(len(graphs), 'graph')} are in clusters."
            )
        failed = len(dump.of("fallback")) + len(dump.of("error"))
        bugs = sum(_is_bug(r) for r in dump.of("error"))
        if failed:
            text += f" {plural(failed, 'fall-back or error')}: see below."
        if bugs:
            text += f" {plural(bugs, 'internal error')} of tfxla_cluster: please report this directory."
        return el("p", text, class_="verdict bad" if failed else "verdict")
    return el("p", "No module was compiled. " + _why_nothing(dump, graphs), class_="verdict bad")


def _by_machine(modules: Sequence[ModuleRow]) -> tuple[list[ModuleRow], list[ModuleRow]]:
    """Those made to run here, and those made for a machine that is not here."""
    here = [row for row in modules if not row.module.elsewhere]
    return here, [row for row in modules if row.module.elsewhere]


# Both are needed to cluster what is not marked.
_AUTO = {"tf_xla_auto_jit", "tf_xla_cpu_global_jit"}


def _why_nothing(dump: Dump, graphs: Sequence[GraphRow]) -> str:
    rules = Counter(
        word(r, "rule") or word(r, "reason") for r in dump.of("unclustered") if word(r, "op") not in PLUMBING
    )
    if rules:
        return "Most frequent reasons: " + ", ".join(f"{rule} ({n:,} nodes)" for rule, n in rules.most_common(3)) + "."
    if dump.of("fallback"):
        return "Every compilation fell back: see 'Fall-backs and errors'."
    if graphs:
        return "Graphs were looked at, but no cluster was compiled; clusters compile when they first run."
    flags = [found for r in dump.of("run") if isinstance(found := r.get("flags"), dict)]
    if flags and not any(set(found) >= _AUTO for found in flags):
        return (
            "The program called no function with jit_compile=True, and auto-clustering was off "
            "(TFXLA_FLAGS=--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit)."
        )
    if dump.of("function"):
        return "Functions were traced; none of their ops is one that compiles."
    if dump.of("stats"):  # written when a program ends
        return "The program called no tf.function: ops that are called one by one are not compiled."
    return "No function was traced, or the dump was cut short: see 'Files' for what there is."


def _tiles(dump: Dump, graphs: Sequence[GraphRow], modules: Sequence[ModuleRow]) -> Html:
    here, elsewhere = _by_machine(modules)
    total = sum(row.module.milliseconds or 0 for row in modules)
    run, native = (
        sum(n for r in modules if isinstance(n := r.module.compiled.get(field), int)) for field in ("kernels", "native")
    )
    shown = (
        (
            number(len(dump.of("function")) or len(graphs)),
            "functions" if dump.of("function") else "graphs",
            "looked at",
        ),
        (number(sum(g.clusters for g in graphs)), "clusters", "in all graphs"),
        (number(len(here)), "modules", "executables that were compiled"),
        (number(sum(r.kernels for r in here)), "kernels", "different code; one may run in several steps"),
        (number(sum(r.kernels for r in elsewhere)), "kernels for a GPU", "code only, it is not here")
        if elsewhere
        else _NONE,
        (number(run), "kernel steps", "of the launch plans") if run else _NONE,
        (number(native), "native steps", "of those: machine code or a library") if run else _NONE,
        (milliseconds(total), "compile time", "of all modules, from the trace on") if total else _NONE,
        (
            size(sum(f.bytes for f in dump.directory.files) + sum(m.files.bytes for m in dump.modules)),
            "dump",
            "all files",
        ),
    )
    return el(
        "div",
        *(
            el("div", el("b", value), el("span", name), el("small", what), class_="tile")
            for value, name, what in shown
            if name
        ),
        class_="tiles",
    )


def _modules(modules: Sequence[ModuleRow]) -> Html | None:
    if not modules:
        return None
    longest = max((row.module.milliseconds or 0 for row in modules), default=0)
    rows = []
    for row in modules[:_MOST]:
        module = row.module
        took = module.milliseconds
        rows.append(
            (
                link(f"{module.page}/summary", module.title),
                link(f"{module.page}/graph", number(row.before) + " → " + number(row.after)),
                link(f"{module.page}/kernels", number(row.kernels)),
                milliseconds(took) or "unknown",
                phase_bar(module.phases, longest) if module.phases else el("span", "unknown", class_="soft"),
                size(module.files.bytes),
                _short_hashes(word(module.compiled, "reason")) or el("span", "unknown", class_="soft"),
            )
        )
    more = el("p", f"and {len(modules) - _MOST:,} more, in the list on the left") if len(modules) > _MOST else None
    phases = dict.fromkeys(name for row in modules for name in row.module.phases)
    return join(
        [
            table(
                ("Module", "Instructions", "Kernels", "Compile time", "Phases", "Files", "Why compiled"),
                rows,
                (1, 2, 3, 5),
            ),
            more,
            colour_key(phases) if phases else None,
        ]
    )


def _short_hashes(text: str) -> str:
    """Digests cut to eight digits: people compare them, no more."""
    return re.sub(r"\b([0-9a-f]{8})[0-9a-f]{16,}\b", r"\1…", text)


def _graphs(graphs: Sequence[GraphRow]) -> Html | None:
    if not graphs:
        return None
    rows = [
        (
            link(f"{g.page}/clusters", g.function or g.file),
            number(g.nodes),
            number(g.clusters),
            f"{100 * g.clustered / g.computing:.0f} %" if g.computing else "",
            g.file,
        )
        for g in sorted(graphs, key=lambda g: -g.nodes)[:_MOST]
    ]
    return table(("Graph", "Nodes", "Clusters", "In clusters", "File"), rows, (1, 2, 3))


def _unclustered(dump: Dump, graphs: Sequence[GraphRow]) -> Html | None:
    records = [r for r in dump.of("unclustered") if word(r, "op") not in PLUMBING]
    if records:
        groups: dict[tuple[str, str, str], list[Record]] = {}
        for record in records:
            groups.setdefault((word(record, "op"), word(record, "rule"), word(record, "reason")), []).append(record)
        rows = [
            (op, rule, reason, number(len(found)), word(found[0], "node"), word(found[0], "where"))
            for (op, rule, reason), found in sorted(groups.items(), key=lambda g: -len(g[1]))[:_MOST]
        ]
        return table(("Op", "Rule", "Reason", "Nodes", "For example", "User line"), rows, (3,))
    left: Counter[str] = Counter()
    for graph in graphs:
        left.update(graph.left)
    if not left:
        return None
    return join(
        [
            el("p", f"The reason is {UNKNOWN}.", class_="soft"),
            table(("Op in no cluster", "Nodes"), [(op, number(n)) for op, n in left.most_common(25)], (1,)),
        ]
    )


def _is_bug(record: Record) -> bool:
    return record.get("internal") is True


def _failures(dump: Dump) -> Html | None:
    rows: list[tuple[object, ...]] = []
    for kind in ("fallback", "error"):
        counted = Counter(
            (
                "internal error" if _is_bug(r) else kind,
                word(r, "what", "function", "name"),
                word(r, "reason", "message", "error"),
                word(r, "where"),
            )
            for r in dump.of(kind)
        )
        rows += [(*key, number(n)) for key, n in counted.most_common(_MOST)]
    return table(("Kind", "What", "Reason", "User line", "Times"), rows, (4,)) if rows else None


def _runs(dump: Dump) -> Html:
    parts: list[object] = []
    for record in dump.of("run"):
        versions, flags = mapping(record, "versions"), mapping(record, "flags")
        facts = [
            ("Process", word(record, "pid")),
            ("Command", " ".join(words(record, "argv")) or word(record, "argv")),
            ("Versions", ", ".join(f"{k} {v}" for k, v in versions.items())),
            ("Flags", " ".join(f"--{k}={v}" for k, v in flags.items()) or "all at their default"),
            ("Environment", " ".join(f"{k}={v}" for k, v in mapping(record, "environment").items())),
            ("Host", _host(record)),
        ]
        parts.append(
            el(
                "dl",
                *(el(tag, value) for title, value in facts if value for tag, value in (("dt", title), ("dd", value))),
            )
        )
    if not parts:
        parts += _options(dump)
        lacking = "Versions and command line are" if parts else "Versions, flags and command line are"
        parts.append(el("p", f"{lacking} {UNKNOWN}.", class_="soft"))
    return join(parts)


def _options(dump: Dump) -> list[Html]:
    """The debug options of XLA's modules: which sets there are, and of how many modules each is."""
    sets = Counter(options.shown(module.options) for module in dump.modules if module.files.one("options"))
    if not sets:
        return []
    rows = [(text or "all at their default, but those of the dump", number(n)) for text, n in sets.most_common(_MOST)]
    return [table(("Debug options of XLA", "Modules"), rows, (1,))]


def _host(record: Record) -> str:
    host = record.get("host")
    return ", ".join(f"{k} {v}" for k, v in host.items()) if isinstance(host, dict) else word(record, "host")


def _stats(dump: Dump) -> Html | None:
    rows = []
    for record in dump.of("stats"):
        values = mapping(record, "stats") or {k: v for k, v in record.items() if k in _STATS}
        plain = [(k, number(v)) for k, v in values.items() if isinstance(v, (int, float))]
        nested = [
            (f"{k}: {reason}", number(n)) for k, v in values.items() if isinstance(v, dict) for reason, n in v.items()
        ]
        rows += [(word(record, "pid"), *row) for row in plain + nested]
    return table(("Process", "Counter", "Value"), rows, (2,)) if rows else None


def _problems(problems: Sequence[tuple[str, str]], left_out: Sequence[tuple[str, int]]) -> Html | None:
    if not problems and not left_out:
        return None
    rows = [(name, reason) for name, reason in problems[:500]]
    rows += [
        (what, f"left out of the report for its size ({size(n)}); --max-mb changes the limit") for what, n in left_out
    ]
    head = el(
        "p",
        f"{plural(len(problems), 'file')} not read, or only in part."
        if problems
        else "Every file was read; some pages are left out.",
    )
    return join([head, table(("File or page", "Reason"), rows)])


def _files(dump: Dump) -> Html:
    files = [f for m in dump.modules for f in m.files.files] + dump.directory.files
    counts, bytes_ = Counter(f.kind for f in files), Counter[str]()
    for file in files:
        bytes_[file.kind] += file.bytes
    return table(
        ("Kind", "Files", "Size"),
        [
            (TITLES.get(kind, "not known to this report"), number(n), size(bytes_[kind]))
            for kind, n in counts.most_common()
        ],
        (1, 2),
    )
