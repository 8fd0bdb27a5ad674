"""What to do about a dump, by what it would save: kinds of findings in one table, each with evidence and remedy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tfxla_cluster.ir.opcode import OPCODES

from . import recompiles
from .fusions import homes
from .markup import milliseconds, plural, size
from .measures import Kernel, Measures
from .model import Dump, Module, Record, amount, mapping, word, words
from .parsers.graphdef import Graph, split_input
from .parsers.hlo import Block, Hlo, Row
from .parsers.shapes import byte_size

# Estimates, for what the dump itself has no time of.
CALL_MS = 0.008  # an op of machine code called by TensorFlow, as the first trial of such ops took
# A kernel's launch on a GPU, beyond one inside a CUDA graph: README's 92 and 36 us of 40 kernels.
LAUNCH_MS = 0.0014
_FAR = 2.0  # times its floor that a kernel may take
_LEAST_BYTES = 4096  # of a value: less stays in the nearest cache
_LEAST_COMPILE_MS = 500.0


@dataclass(frozen=True, slots=True)
class Kind:
    """`saves`: what the milliseconds are of. `remedy`: where a finding has none of its own."""

    name: str
    title: str
    saves: str
    remedy: str


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("bug", "Internal error of tfxla_cluster", "unknown", "Report it: tfxla-inspect bundle DIR -o report.zip"),
        Kind(
            "parts",
            "Compiled value that is not eager TensorFlow's",
            "unknown",
            "Find the pass or kernel: tfxla-inspect bisect DIR. Then report it",
        ),
        Kind(
            "nonfinite", "NaN or an infinity appears", "unknown", "In eager TensorFlow too: look at what the op takes"
        ),
        Kind("fallback", "Not compiled as asked", "unknown", "See the reason: another op, or less in the function"),
        Kind(
            "recompiled",
            "Compiled again",
            "trace, lowering and compilation, all but the first of the function",
            "See Recompilations for what differed",
        ),
        Kind(
            "not-kept",
            "Executables were not kept",
            "compilations that the next run of the program does again",
            "--tf_xla_persistent_cache_directory=DIR",
        ),
        Kind(
            "far-from-floor",
            "Kernel far from its floor",
            "its time beyond the floor, in all executions",
            "Tune it (--tfxla_autotune=on); if it stays, report the module",
        ),
        Kind(
            "unfused",
            "Value written by one kernel and read by the next",
            "at most: writing and reading the value, in all executions",
            "See Fusion decisions of the module",
        ),
        Kind(
            "copies",
            "Copy or change of layout as a kernel of its own",
            "the kernel's time, in all executions",
            "Transpose once outside, or keep one order of dimensions (data_format)",
        ),
        Kind(
            "launches",
            "Kernels launched one by one",
            f"{LAUNCH_MS * 1000:g} us a kernel, in all executions",
            "See the reason why it is no CUDA graph (--xla_gpu_graph_min_graph_size)",
        ),
        Kind(
            "splits",
            "Op that splits a cluster",
            f"{CALL_MS * 1000:g} us for each call of the cluster behind it",
            "Move the op before or after what compiles, or out of the function",
        ),
    )
}

# Rules of fusion decisions about which nothing can be done: there is no such kernel.
_CLOSED_RULES = frozenset(("cycle", "two-heroes", "order", "too-large"))


@dataclass(frozen=True, slots=True)
class Finding:
    """`kind`: of KINDS. `saved`: estimated milliseconds over the run in the dump; None where unknown. `route`: where
    the report shows it; `where`: the user's line; `is_open`: whether something can be done about it."""

    kind: str
    what: str
    evidence: str
    saved: float | None = None
    route: str = ""
    remedy: str = ""
    where: str = ""
    is_open: bool = True


def ranked(found: Iterable[Finding]) -> list[Finding]:
    """Bugs and what was not compiled first, then by what they save; last what can only be known."""
    first = ("bug", "parts", "nonfinite", "fallback")
    place = {name: first.index(name) if name in first else len(first) for name in KINDS}
    return sorted(found, key=lambda f: (not f.is_open, place[f.kind], -(f.saved or 0)))


# --- of the whole dump ---
def of_dump(dump: Dump, compiled: Sequence[recompiles.Function]) -> Iterator[Finding]:
    """What the trace's records tell."""
    yield from _failures(dump)
    yield from _numbers(dump)
    yield from _recompiled(compiled)
    yield from _not_kept(dump)


def _failures(dump: Dump) -> Iterator[Finding]:
    for kind, name in (("error", "bug"), ("fallback", "fallback")):
        records = [r for r in dump.of(kind) if kind != "error" or r.get("internal") is True]
        counted = Counter(
            (word(r, "what", "function"), word(r, "reason", "message", "error"), word(r, "where")) for r in records
        )
        for (what, reason, where), times in counted.items():
            yield Finding(name, what, f"{reason} ({plural(times, 'time')})", where=where)


def _numbers(dump: Dump) -> Iterator[Finding]:
    """What --tfxla_watch_numerics found."""
    for record in dump.of("numerics"):
        event, op = word(record, "event"), word(record, "op")
        if event in KINDS:
            what = f"{op} in {word(record, 'function')}" if op else word(record, "function")
            yield Finding(event, what, word(record, "message"), where=word(record, "where"))


def _recompiled(compiled: Sequence[recompiles.Function]) -> Iterator[Finding]:
    for function in recompiles.again(compiled):
        later = function.compilations[1:]
        spent = sum(recompiles.cost(c.record) for c in later)
        last = (function.limits or [c.record for c in function.compilations])[-1]
        causes = ", ".join(f"{cause} {n}" for cause, n in function.causes.most_common())
        remedies = words(last, "remedies") or [word(last, "remedy")]
        yield Finding(
            "recompiled",
            function.title,
            f"{plural(len(later), 'compilation')} after the first ({causes}). The last: {recompiles.reason(last)}",
            spent,
            "recompiles",
            "; ".join(filter(None, remedies)),
            recompiles.begins(function),
        )


def _not_kept(dump: Dump) -> Iterator[Finding]:
    """Compilations of processes that keep no executables; those of code for other machines are asked for each time."""
    keeping = {word(r, "pid") for r in dump.of("run") if mapping(r, "flags").get("tf_xla_persistent_cache_directory")}
    made = [r for r in dump.of("compile") if not r.get("hit") and word(r, "pid") not in keeping]
    spent = sum(amount(r, "ms") or 0 for r in made)
    if spent >= _LEAST_COMPILE_MS:
        text = f"{plural(len(made), 'compilation')} took {milliseconds(spent)}; none is on disk for the next process"
        yield Finding("not-kept", "All compilations", text, spent, "recompiles/compilations")


# --- of one module ---
@dataclass(frozen=True, slots=True)
class Compiled:
    """A module with what is known of it. `decisions`: its fusion decisions; `place`: an instruction's user line."""

    module: Module
    hlo: Hlo
    kernels: Sequence[Kernel]
    measures: Measures
    decisions: Sequence[Record]
    places: Mapping[str, str]


def of_module(compiled: Compiled) -> Iterator[Finding]:
    """What its kernels, the values between them and their times tell."""
    if compiled.module.elsewhere:
        return
    yield from _far(compiled)
    yield from _copies(compiled)
    yield from _unfused(compiled)


def _far(compiled: Compiled) -> Iterator[Finding]:
    for kernel in compiled.kernels:
        if kernel.excess is None or kernel.excess < _FAR or kernel.each is None or kernel.floor is None:
            continue
        saved = (kernel.ms or 0) * (1 - 1 / kernel.excess)
        evidence = (
            f"{milliseconds(kernel.each)} a run, {kernel.excess:.1f} x its floor of {milliseconds(kernel.floor)} "
            f"({size(kernel.bytes)}, {kernel.operations or 0:,} operations)"
        )
        yield _of_step("far-from-floor", compiled, kernel.symbol, kernel.instr, evidence, saved)


def _copies(compiled: Compiled) -> Iterator[Finding]:
    bodies = {block.name: block for block in compiled.hlo.blocks}
    for block in compiled.hlo.stepped():
        for row in block.rows:
            if not _moves(row, bodies):
                continue
            step = compiled.measures.steps.get(row.name)
            spent = compiled.measures.spent(step) if step else None
            evidence = f"{size(byte_size(row.shape))} moved and nothing computed"
            evidence += f", {milliseconds(step.each)} a run" if step else ""
            yield _of_step("copies", compiled, row.name, row.name, evidence, spent)


def _moves(row: Row, bodies: Mapping[str, Block]) -> bool:
    """Does it put elements in another order, and no more?"""
    body = bodies.get(row.called[0]) if row.opcode == "fusion" and row.called else None
    inside = [r.opcode for r in body.rows] if body else [row.opcode]
    moving = [name for name in inside if OPCODES[name].category not in ("leaf", "tuple")] if _known(inside) else []
    large = byte_size(row.shape) >= _LEAST_BYTES
    return large and bool({"copy", "transpose"} & set(moving)) and all(OPCODES[n].category == "move" for n in moving)


def _known(opcodes: Iterable[str]) -> bool:
    return all(name in OPCODES for name in opcodes)


def _unfused(compiled: Compiled) -> Iterator[Finding]:
    """Values that a kernel writes for others, with the reason why they are not one."""
    rate = max((k.rate or 0 for k in compiled.kernels), default=0)
    steps = {name for kernel in compiled.kernels for name in kernel.homes}
    reasons = _reasons(compiled)
    for block in compiled.hlo.stepped():
        for value, maker, readers in _between(block, steps):
            bytes_ = byte_size(value.shape)
            if bytes_ < _LEAST_BYTES:
                continue
            rule, reason = next((reasons[maker, r] for r in readers if (maker, r) in reasons), ("", ""))
            moved = bytes_ * (1 + len(readers))
            saved = moved / rate * compiled.measures.executions if rate and compiled.measures.executions else None
            evidence = f"{size(bytes_)} go from {maker} to {', '.join(readers[:4])}: " + (
                f"{rule}: {reason}" if rule else "no decision about it is recorded"
            )
            yield _of_step("unfused", compiled, value.name, value.name, evidence, saved, rule not in _CLOSED_RULES)


def _between(block: Block, steps: set[str]) -> Iterator[tuple[Row, str, list[str]]]:
    """(value, the step that makes it, those that read it) of the values that go from kernel to kernel."""
    by_name = {row.name: row for row in block.rows}
    readers: dict[str, list[str]] = {}
    for row in block.rows:
        if row.name in steps:
            for operand in dict.fromkeys(row.operands):
                readers.setdefault(operand, []).append(row.name)
    for name, found in readers.items():
        value = maker = by_name.get(name)
        while maker is not None and maker.opcode in ("get-tuple-element", "bitcast") and maker.operands:
            maker = by_name.get(maker.operands[0])
        if value is not None and maker is not None and maker.name in steps:
            yield value, maker.name, found


def _reasons(compiled: Compiled) -> dict[tuple[str, str], tuple[str, str]]:
    """(step, step) -> rule and reason for which what they hold was not joined."""
    home = homes(compiled.hlo)
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for record in compiled.decisions:
        a, b = home.get(word(record, "a", "producer")), home.get(word(record, "b", "consumer"))
        if a and b and a != b and not record.get("ok"):
            found.setdefault((a, b), (word(record, "rule"), word(record, "reason")))
    return found


def _of_step(
    kind: str, compiled: Compiled, what: str, instr: str, evidence: str, saved: float | None, is_open: bool = True
) -> Finding:
    tab = "kernels" if kind == "far-from-floor" else "graph"
    title = f"{what} of {compiled.module.title}"
    route = f"{compiled.module.page}/{tab}/{instr}"
    return Finding(kind, title, evidence, saved, route, "", compiled.places.get(instr, ""), is_open)


def launches(dump: Dump, measured: Mapping[str, Measures]) -> Iterator[Finding]:
    """Modules on a GPU that are no CUDA graph; `measured`: by their pages, as numbers may be in several folders."""
    refused = {word(r, "module"): r for r in dump.of("graph") if not r.get("ok")}
    for module in dump.modules:
        record = next((refused[n] for n in (module.files.name, word(module.compiled, "module")) if n in refused), None)
        kernels = amount(module.compiled, "kernels")
        if record is None or not kernels or not word(module.compiled, "device").startswith("GPU"):
            continue
        runs = measured[module.page].executions if module.page in measured else 0
        reason = ": ".join(filter(None, (word(record, "rule"), word(record, "reason"))))
        text = f"{int(kernels):,} kernels an execution, {plural(runs, 'execution')}. {reason}"
        saved = kernels * runs * LAUNCH_MS if runs else None
        yield Finding("launches", module.title, text, saved, f"{module.page}/plan")


# --- of a TensorFlow graph ---
def of_graph(
    graph: Graph, page: str, reason: Mapping[str, tuple[str, str]], runs: Mapping[str, int]
) -> Iterator[Finding]:
    """Ops in no cluster that lie between two. `reason`: node -> (reason, user line); `runs`: executions of clusters."""
    between = _splitters(graph)
    groups: dict[tuple[str, str], list[str]] = {}
    ops = {node.name: node.op for node in graph.nodes}
    for name in between:
        groups.setdefault((ops[name], reason.get(name, ("", ""))[0]), []).append(name)
    for (op, why), names in groups.items():
        behind = {cluster for name in names for cluster in between[name]}
        calls = sum(runs.get(cluster, 0) for cluster in behind)
        text = f"{plural(len(names), 'node')} ({names[0]}, ...) before {', '.join(sorted(behind)[:4])}: {why}"
        saved = calls * CALL_MS if calls else None
        yield Finding("splits", op, text, saved, f"{page}/left/%3F{op}", where=reason.get(names[0], ("", ""))[1])


def _splitters(graph: Graph) -> dict[str, set[str]]:
    """Name of a node in no cluster, with a cluster before it -> the other clusters that wait for it."""
    inputs = {n.name: [source for source, output in map(split_input, n.inputs) if output >= 0] for n in graph.nodes}
    users: dict[str, list[str]] = {}
    for name, sources in inputs.items():
        for source in sources:
            users.setdefault(source, []).append(name)
    clusters = {node.name: node.cluster for node in graph.nodes}
    before, after = _nearest(clusters, inputs), _nearest(clusters, users)
    return {name: after[name] - before[name] for name in before if before[name] and after[name] - before[name]}


def _nearest(clusters: Mapping[str, str], edges: Mapping[str, Sequence[str]]) -> dict[str, set[str]]:
    """Node in no cluster -> the clusters that `edges` lead to first; edges that go round a loop are left out."""
    outside = {name: [e for e in edges.get(name, ()) if e in clusters] for name in clusters if not clusters[name]}
    found: dict[str, set[str]] = {}
    for root in outside:
        stack = [(root, iter(outside[root]))]
        found.setdefault(root, set())
        while stack:
            name, rest = stack[-1]
            following = next((e for e in rest), None)
            if following is None:
                stack.pop()
                if stack:
                    found[stack[-1][0]] |= found[name]
            elif clusters[following]:
                found[name].add(clusters[following])
            elif following in found:
                found[name] |= found[following]
            else:
                found[following] = set()
                stack.append((following, iter(outside[following])))
    return found
