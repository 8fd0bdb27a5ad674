"""The summary of a module: what it is, where its time went, what it was compiled for, what the passes left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from .compile_times import phase_table
from .graphs import short_shape
from .markup import Html, el, join, link, milliseconds, number, plural, size, table
from .measures import Kernel, Measures
from .model import Dump, Module, Record, mapping, word, words
from .parsers import options
from .parsers.hlo import Hlo
from .parsers.shapes import byte_size
from .phases import phase_bar
from .site import UNKNOWN

_MOST_STEPS = 50
_MOST_REFUSED = 10  # instructions without a kernel
_MOST_OPEN = 12  # rows of a table that is not folded


@dataclass(frozen=True, slots=True)
class Facts:
    """What the page knows of its module. `decisions`: of fusion."""

    dump: Dump
    module: Module
    before: Hlo
    after: Hlo
    measures: Measures
    kernels: Sequence[Kernel]
    decisions: Sequence[Record]


def build(facts: Facts) -> Html:
    """The whole tab."""
    module = facts.module
    parts: list[object] = [el("dl", *_facts(facts))]
    if module.phases:
        parts += [
            el("h3", "Phases of compilation"),
            phase_bar(module.phases, module.milliseconds or 0),
            phase_table(module.phases, module.passes),
        ]
    parts += [*_executions(facts), *_parameters(facts), *_guards(module), *_asked_again(module)]
    return join([*parts, *_opcodes(facts)])


def _facts(facts: Facts) -> list[Html]:
    module, compiled = facts.module, facts.module.compiled
    graph = facts.dump.cluster_routes.get(module.cluster, "")
    entry = len(facts.after.entry.rows) if facts.after.entry else 0
    shown = (
        ("Module", facts.after.name or facts.before.name or module.files.name or "unknown"),
        ("Number in file names", module.files.id if module.files.is_numbered else "none"),
        ("Function", facts.dump.function_of(module) or "unknown"),
        ("Made for", f"{module.elsewhere}: code only, nothing of it ran" if module.elsewhere else ""),
        ("Without a kernel", lacking(facts.decisions)),
        ("Cluster", link(graph, module.cluster) if graph else module.cluster or _no_cluster(module)),
        (
            "Instructions",
            f"{facts.before.count:,} as lowered, {facts.after.count:,} after passes and fusion with all bodies, "
            f"{entry:,} of them in the entry",
        ),
        ("Kernels", _kernel_counts(facts)),
        ("Compile time", milliseconds(module.milliseconds) or UNKNOWN),
        ("Why compiled", "--tfxla_gpu_target" if module.elsewhere else word(compiled, "reason") or "unknown"),
        ("Flags then", " ".join(f"--{k}={v}" for k, v in mapping(compiled, "flags").items())),
        ("Debug options", options.shown(module.options)),
        ("Files", f"{len(module.files.files):,}, {size(module.files.bytes)}"),
    )
    return [el(tag, value) for title, value in shown if value != "" for tag, value in (("dt", title), ("dd", value))]


def _kernel_counts(facts: Facts) -> str:
    compiled = facts.module.compiled
    steps, native = word(compiled, "kernels"), word(compiled, "native")
    said = f"{plural(len(facts.kernels), 'kernel')} of different code" if facts.kernels else ""
    ran = f"{steps} steps of the plan run code" + (f", {native} of them native" if native else "") if steps else ""
    return "; ".join(filter(None, (said, ran)))


def _no_cluster(module: Module) -> str:
    return f"as module {word(module.crossed, 'module')}" if module.elsewhere else "none: a whole function"


def lacking(decisions: Sequence[Record]) -> str:
    """The instructions that the machine it was made for has no kernel for, and why; '' where there is none."""
    refused = [r for r in decisions if word(r, "rule") == "no-kernel"]
    shown = [f"{word(r, 'a')} ({word(r, 'reason')})" for r in refused[:_MOST_REFUSED]]
    more = f"and {len(refused) - _MOST_REFUSED} more: see 'Fusion decisions'" if refused[_MOST_REFUSED:] else ""
    return "; ".join(filter(None, (*shown, more)))


def _executions(facts: Facts) -> list[object]:
    """Where the time of its executions went, by step of the plan, the longest first."""
    found = facts.measures
    if not found.ms:
        return []
    floors = {step: k.floor for k in facts.kernels for step in k.homes}
    shown = [
        (
            link(f"{facts.module.page}/kernels/{name}", name),
            number(step.runs),
            milliseconds(step.ms),
            f"{100 * step.ms / found.ms:.1f} %",
            milliseconds(step.each),
            milliseconds(floors.get(name)) or "unknown",
        )
        for name, step in sorted(found.steps.items(), key=lambda item: -item[1].ms)[:_MOST_STEPS]
    ]
    left_out = f" The {_MOST_STEPS} longest of {len(found.steps)}." if len(found.steps) > _MOST_STEPS else ""
    head, right = ("Step", "Executions", "Time", "Share", "One run", "Floor"), (1, 2, 3, 4, 5)
    rest = shown[_MOST_OPEN:]
    return [
        el("h3", "Time of executions"),
        el("p", f"{milliseconds(found.ms)} in all its steps, in {_timed(found)}.{left_out}"),
        table(head, shown[:_MOST_OPEN], right),
        _folded(f"{plural(len(rest), 'step')} more", table(head, rest, right), len(shown)) if rest else None,
    ]


def _timed(found: Measures) -> str:
    """Which executions the times are of."""
    if found.timed >= found.executions:
        return plural(found.executions, "execution")
    return f"the first {number(found.timed)} of {plural(found.executions, 'execution')} (--tfxla_timings: in all)"


def _parameters(facts: Facts) -> list[object]:
    """The parameters by the user's names, with their bytes."""
    inputs = words(facts.module.compiled, "inputs")
    entry = facts.before.entry or facts.after.entry
    shapes = [row.shape for row in entry.rows if row.opcode == "parameter"] if entry else []
    count = max(len(inputs), len(shapes))
    if not count:
        return []
    names = inputs + [f"parameter {n}" for n in range(len(inputs), count)]
    shapes += [""] * (count - len(shapes))
    rows = [(n, name, short_shape(shape), size(byte_size(shape))) for n, (name, shape) in enumerate(zip(names, shapes))]
    head = f"{plural(count, 'parameter')}, {size(sum(map(byte_size, shapes)))}"
    return [el("h3", "Parameters"), _folded(head, table(("Number", "Name", "Shape", "Bytes"), rows, (0, 3)), count)]


def _guards(module: Module) -> list[object]:
    guards = module.compiled.get("guards")
    listed = (
        [str(guard) for guard in guards]
        if isinstance(guards, list)
        else [f"{k}: {v}" for k, v in mapping(module.compiled, "guards").items()]
    )
    if not listed:
        return []
    rows = el("ul", *(el("li", guard) for guard in listed))
    return [el("h3", "Compiled for"), _folded(plural(len(listed), "guard"), rows, len(listed))]


def _asked_again(module: Module) -> list[object]:
    hits = [r for r in module.compiles if r is not module.compiled]
    if not hits:
        return []
    counted = Counter((word(r, "hit") or "compiled", word(r, "reason")) for r in hits)
    rows = [(*key, n) for key, n in counted.items()]
    return [el("h3", "Asked for again"), table(("Answer", "Reason", "Times"), rows, (2,))]


def _opcodes(facts: Facts) -> list[object]:
    before, after = facts.before.opcodes(), facts.after.opcodes()
    names = sorted(before | after, key=lambda k: (-max(before[k], after[k]), k))
    rows = [
        (k, number(before[k]), number(after[k]), f"{after[k] - before[k]:+,}" if after[k] != before[k] else "")
        for k in names
    ]
    shown = table(("Opcode", "As lowered", "Optimised", "Difference"), rows, (1, 2, 3))
    return [el("h3", "Instructions before and after"), _folded(plural(len(rows), "opcode"), shown, len(rows))]


def _folded(title: str, content: Html, count: int) -> Html:
    """Folded where it is long."""
    return el("details", el("summary", title), content, open="" if count <= _MOST_OPEN else None)
