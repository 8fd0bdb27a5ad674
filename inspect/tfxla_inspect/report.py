"""From a dump directory to one HTML file."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tfxla_cluster import output_file
from tfxla_cluster.errors import InputFileError

from . import (
    autotune_page,
    compile_times,
    findings,
    findings_page,
    graph_page,
    kernel_times,
    measures,
    recompile_page,
    recompiles,
    start_page,
    workers_page,
)
from .compile_times import Compilation
from .findings import Finding
from .graphs import PLUMBING
from .markup import plural
from .model import Dump, Module, Record, amount, load, word
from .module_page import ModulePages
from .pack import LIMIT, Packer, document
from .parsers import graphdef
from .reading import Reader
from .scan import File, scan
from .site import Page
from .start_page import GraphRow, ModuleRow

_TRACE_ROWS = 200_000
Progress = Callable[[str], None]


def build(directory: Path, limit: int = LIMIT, progress: Progress = lambda what: None, command: str = "") -> str:
    """The report of a dump (what scan takes) as HTML of at most some `limit` bytes of embedded pages; `command`: that
    made it.

    Raises InputFileError when it is missing, empty or no dump; a file that cannot be read is a row
    in the report.
    """
    found = scan(directory, progress)
    if found.is_foreign:
        raise InputFileError(
            f"{directory}: holds no dump: none of its files has a name that only a dump's have",
            "Give the directory of --xla_dump_to",
        )
    reader = Reader(list(found.problems))
    dump = load(found, reader)
    packer = Packer(limit)
    compiled = recompiles.functions(dump)
    graph_pages, graph_rows, splits = _graphs(dump, reader, packer, progress)
    built, module_rows = _modules(dump, reader, packer, progress)
    advice = findings.ranked(
        [
            *findings.of_dump(dump, compiled),
            *splits,
            *(finding for pages in built for finding in pages.findings),
            *findings.launches(dump, {pages.module.page: pages.measures for pages in built}),
        ]
    )
    pages = _findings(advice, packer) + [pages.page for pages in built] + graph_pages
    pages += _recompilations(dump, compiled, packer)
    workers = workers_page.build(dump, packer)
    pages += [workers] if workers else []
    tuning = autotune_page.build(dump, packer)
    pages += [tuning] if tuning else []
    trace = _trace(dump, packer)
    pages += [trace] if trace else []
    problems = reader.problems + [(f.name, "of no known kind") for f in found.files if f.kind == "unknown"]
    again = recompile_page.overview(compiled)
    timed = [kernel_times.Timed(pages.module, pages.measures, pages.kernels) for pages in built]
    sections = start_page.Sections(
        findings_page.overview(advice, any(t.measures.timed for t in timed)) if dump.modules or advice else None,
        kernel_times.overview(timed),
        compile_times.overview([_compilation(dump, pages.module) for pages in built]),
        again,
        command or f"tfxla-inspect report {directory.name or directory}",
        "trace" if trace else "",
    )
    start = start_page.build(dump, graph_rows, module_rows, problems, packer.left_out, sections)
    packer.limit = packer.used + 2**40  # the list of pages always goes in
    site = packer.json([page.site() for page in pages], "pages")
    return document(f"tfxla-inspect: {directory.name or directory}", start, packer, site)


def write(directory: Path, output: Path, limit: int = LIMIT, progress: Progress = lambda what: None) -> int:
    """Build the report and put it at `output`, as output_file.write; its bytes. Raises OutputError, also where
    `output` is a file of the dump."""
    named = f"tfxla-inspect report {shlex.quote(str(directory))} -o {shlex.quote(str(output))}"
    command = named if limit == LIMIT else f"{named} --max-mb {limit / 2**20:g}"
    data = build(directory, limit, progress, command).encode("utf-8", "replace")
    own = [file.path for file in scan(directory).everything if file.kind != "unknown"]
    output_file.write(output, data, own)
    return len(data)


def _graphs(
    dump: Dump, reader: Reader, packer: Packer, progress: Progress
) -> tuple[list[Page], list[GraphRow], list[Finding]]:
    splits: list[Finding] = []
    runs = {m.cluster: measures.of_module(m).executions for m in dump.modules if m.cluster}
    reasons = graph_page.Reasons(dump)
    functions = {Path(word(r, "graph")).name: r for r in dump.of("function") if word(r, "graph")}
    pages, rows = [], []
    for number, file in enumerate(sorted(dump.graphs, key=lambda f: -f.bytes)):
        progress(f"graph {number + 1} of {len(dump.graphs)}")
        graph = graphdef.parse(reader.text(file))
        if graph.truncated or not graph.nodes:
            reader.problems.append((file.name, "breaks off inside a node" if graph.truncated else "no node in it"))
        if not graph.nodes:
            continue
        row = _graph_row(f"g{number}", file, graph, functions.get(file.name, {}))
        for node in graph.nodes:
            if node.cluster:
                dump.cluster_routes.setdefault(node.cluster, f"{row.page}/graph/%3F{node.cluster}")
        group = "TensorFlow graphs" if row.clusters else "Graphs without clusters"
        page = Page(
            packer,
            row.page,
            group,
            row.function or file.name,
            f"{plural(row.nodes, 'node')}, {plural(row.clusters, 'cluster')}",
        )
        graph_page.build(page, dump, graph, reasons.of(file.name))
        said = {n.name: (reasons.of(file.name).reason(n), reasons.of(file.name).place(n)) for n in graph.nodes}
        splits += findings.of_graph(graph, row.page, said, runs)
        pages.append(page)
        rows.append(row)
    return pages, rows, splits


def _graph_row(page: str, file: File, graph: graphdef.Graph, function: Record) -> GraphRow:
    inside, computing = graph_page.coverage(graph)
    left = Counter(n.op for n in graph.nodes if not n.cluster and n.op not in PLUMBING)
    return GraphRow(
        page,
        file.name,
        word(function, "name"),
        len(graph.nodes),
        computing,
        inside,
        len({n.cluster for n in graph.nodes if n.cluster}),
        left,
    )


def _modules(
    dump: Dump, reader: Reader, packer: Packer, progress: Progress
) -> tuple[list[ModulePages], list[ModuleRow]]:
    built, rows = [], []
    titles = _titles(dump)
    for number, module in enumerate(dump.modules):
        progress(f"module {number + 1} of {len(dump.modules)}")
        page = Page(packer, module.page, "Modules", titles[module.page])
        pages = ModulePages(dump, module, reader, page)
        pages.first()
        kernels = next((tab.get("n", 0) for tab in page.tabs if tab["id"] == "kernels"), 0)
        count = pages.after_count or pages.before_count
        page.note = f"{plural(count, 'instruction')}, {plural(kernels, 'kernel')}"
        rows.append(ModuleRow(module, pages.before_count, pages.after_count, kernels))
        built.append(pages)
    for number, pages in enumerate(built):
        progress(f"texts of module {number + 1} of {len(built)}")
        pages.second()
    return built, rows


def _compilation(dump: Dump, module: Module) -> Compilation:
    return Compilation(dump.function_of(module), module.title, module.page, module.phases, module.passes)


def _titles(dump: Dump) -> dict[str, str]:
    """Page -> title; modules of one title have the function and their number besides."""
    count = Counter(module.title for module in dump.modules)
    found = {}
    for module in dump.modules:
        function = dump.function_of(module)
        more = f" of {function}" if function and function != module.title else ""
        found[module.page] = module.title if count[module.title] == 1 else f"{module.title}{more}, {module.files.id}"
    return found


def _findings(found: list[Finding], packer: Packer) -> list[Page]:
    """The page of findings; none where there are none."""
    if not found:
        return []
    page = Page(packer, findings_page.PAGE, "Findings", "What to do", f"{plural(len(found), 'finding')}")
    findings_page.build(page, found)
    return [page]


def _recompilations(dump: Dump, compiled: list[recompiles.Function], packer: Packer) -> list[Page]:
    """The page of recompilations; none where the dump has no record of a compilation."""
    if not dump.of("compile"):
        return []
    count = len(recompiles.again(compiled))
    note = f"{plural(count, 'function')} compiled again" if count else "nothing compiled again"
    page = Page(packer, recompile_page.PAGE, "Trace", "Recompilations", note)
    recompile_page.build(page, dump, compiled)
    return [page]


def _trace(dump: Dump, packer: Packer) -> Page | None:
    records = list(dump.everything())
    if not records:
        return None
    page = Page(packer, "trace", "Trace", "All trace records", f"{len(records):,} records")
    first = next((t for r in records if (t := amount(r, "time"))), 0)
    columns = [("Kind", "", 1), ("Seconds", "n", 1), ("Process", "", 1), ("Fields", "", 10)]
    page.table(
        "records",
        "Records",
        columns,
        (
            (word(r, "kind"), round((amount(r, "time") or first) - first, 3), word(r, "pid"), _fields(r))
            for r in records[:_TRACE_ROWS]
        ),
    )
    return page


def _fields(record: Record) -> str:
    text = json.dumps(
        {k: v for k, v in record.items() if k not in ("kind", "time", "pid", "thread")}, ensure_ascii=False
    )
    return text if len(text) <= 2000 else text[:2000] + " …"
