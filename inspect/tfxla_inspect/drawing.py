"""`tfxla-inspect graph`: a computation as DOT, SVG or PNG: all of it, around an instruction, or between two.

The DOT is made of HLO anew, never taken from a file; it is drawn by a process of its own with a time limit.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import graphviz

from tfxla_cluster import output_file
from tfxla_cluster.errors import InputFileError, TfxlaError, UsageError, VersionError

from . import module_choice
from .parsers import hlo
from .parsers.hlo import Block, Row
from .reading import Reader

FORMATS = (".dot", ".svg", ".png")
MOST_NODES = 1500  # that an engine draws in some seconds
_TIMEOUT_S = 60.0
_MOST_NEIGHBOURS = 12  # of one instruction: more are counted
_SMALL, _LONGEST = 300, 4  # from so many nodes on, edges over more ranks are words in the box: they take minutes
_WHEEL = "graphviz-pure"
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_FILLS = {
    "parameter": "#dbe9f6", "constant": "#e8e8e8", "fusion": "#fde3c8", "dot": "#f9d0d0", "convolution": "#f9d0d0",
    "custom-call": "#e6d7f3", "while": "#d5efd9", "conditional": "#d5efd9",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Wanted:
    """`stage`: 'before' or 'after'. `computation`: '' the entry. `around`, `hops`: an instruction and how far from it.
    `between`: two instructions, whose paths are drawn; () none."""

    stage: str = "after"
    computation: str = ""
    around: str = ""
    hops: int = 2
    between: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """Rows to draw; `hidden`: neighbours of each that are left out."""

    rows: list[Row]
    hidden: Mapping[str, int]


def run(named: str, output: Path, wanted: Wanted) -> int:
    """Draws into `output`; the number of instructions drawn. UsageError for a name that is not there, or too many
    instructions, VersionError where nothing draws."""
    if output.suffix not in FORMATS:
        raise UsageError(f"{output}: no such format", f"Known: {', '.join(FORMATS)}")
    text = _text(named, wanted.stage)
    block = _block(hlo.parse(text), wanted.computation, named)
    part = _part(block, wanted)
    if len(part.rows) > MOST_NODES and output.suffix != ".dot":
        raise UsageError(
            f"{block.name} has {len(part.rows):,} instructions, and at most {MOST_NODES:,} are drawn",
            "Take --around NAME, --paths A B, or write .dot",
        )
    source = dot(block.name, part)
    data = source.encode() if output.suffix == ".dot" else render(source, output.suffix[1:], len(part.rows))
    output_file.write(output, data)
    return len(part.rows)


def _text(named: str, stage: str) -> str:
    path, which = module_choice.divided(named)
    reader = Reader()
    if module_choice.is_dump(path):
        module = module_choice.chosen(path, which).module
        text = reader.text(module.one(stage))
        if not text:
            raise InputFileError(f"{named}: no readable HLO {stage} optimisation", "Give --stage, or another module")
        return text
    return module_choice.file_text(path)


def _block(module: hlo.Hlo, name: str, named: str) -> Block:
    found = next((b for b in module.blocks if b.name == name), None) if name else module.entry
    if found is None:
        known = ", ".join(b.name for b in module.blocks[:20]) or "none: it is no HLO text"
        raise (UsageError if name else InputFileError)(f"{named}: no computation {name}", f"It has: {known}")
    return found


def _part(block: Block, wanted: Wanted) -> Part:
    rows = {row.name: row for row in block.rows}
    for name in filter(None, (wanted.around, *wanted.between)):
        if name not in rows:
            near = [n for n in rows if name.lower() in n.lower()][:10]
            raise UsageError(f"{block.name} has no instruction {name}", f"Near: {', '.join(near)}" if near else "")
    below = {name: [o for o in row.operands if o in rows] for name, row in rows.items()}
    above: dict[str, list[str]] = {name: [] for name in rows}
    for name, operands in below.items():
        for operand in dict.fromkeys(operands):
            above[operand].append(name)
    kept, hidden = set(rows), dict[str, int]()
    if wanted.between:
        first, last = wanted.between
        kept = _reached(first, above) & _reached(last, below) or _reached(last, above) & _reached(first, below)
        if not kept:
            raise UsageError(f"no path leads from {first} to {last}")
    elif wanted.around:
        kept, hidden = _around(wanted.around, wanted.hops, below, above)
    return Part([row for row in block.rows if row.name in kept], hidden)


def _reached(start: str, edges: Mapping[str, Iterable[str]]) -> set[str]:
    found, todo = {start}, [start]
    while todo:
        new = [n for n in edges[todo.pop()] if n not in found]
        found.update(new)
        todo += new
    return found


def _around(
    start: str, hops: int, below: Mapping[str, list[str]], above: Mapping[str, list[str]]
) -> tuple[set[str], dict[str, int]]:
    """What is at most so many edges away, and how many neighbours of each are not shown."""
    found, ring, hidden = {start}, [start], dict[str, int]()
    for _ in range(hops):
        new: list[str] = []
        for name in ring:
            for near in (below[name], above[name]):
                fresh = [n for n in dict.fromkeys(near) if n not in found]
                new += fresh[:_MOST_NEIGHBOURS]
                found.update(fresh[:_MOST_NEIGHBOURS])
                if fresh[_MOST_NEIGHBOURS:]:
                    hidden[name] = hidden.get(name, 0) + len(fresh) - _MOST_NEIGHBOURS
        ring = new
    return found, hidden


def dot(title: str, part: Part) -> str:
    """The rows as DOT; one edge a statement, boxes with an id and a class of their own."""
    graph = graphviz.Digraph(
        _plain(title),
        graph_attr={"bgcolor": "transparent", "rankdir": "TB", "ranksep": "0.3", "nodesep": "0.2"},
        node_attr={"shape": "box", "style": "rounded,filled", "fontname": "Helvetica", "fontsize": "11"},
        edge_attr={"color": "#808080", "arrowsize": "0.6"},
    )
    ids = {row.name: f"n{number}" for number, row in enumerate(part.rows)}
    ranks = _ranks(part.rows, ids)
    many = len(part.rows) > _SMALL
    for row in part.rows:
        near, far = list[str](), list[str]()
        for operand in dict.fromkeys(o for o in row.operands if o in ids):
            (far if many and ranks[row.name] - ranks[operand] > _LONGEST else near).append(operand)
        lines = [row.name, f"{row.opcode} {row.shape.partition('{')[0][:40]}", *(f"<- {name}" for name in far[:4])]
        lines += [f"<- {len(far) - 4} more"] if len(far) > 4 else []
        lines += [f"+ {part.hidden[row.name]} neighbours"] if row.name in part.hidden else []
        graph.node(
            ids[row.name],
            label="\\n".join(graphviz.escape(_plain(line)) for line in lines),
            fillcolor=_FILLS.get(row.opcode, "#ffffff"),
            id=f"hlo_{ids[row.name]}",
            **{"class": f"hlo {row.opcode}", "penwidth": "2" if row.is_root else "1"},
        )
        for operand in near:
            graph.edge(ids[operand], ids[row.name])
    return str(graph.source)


def _plain(text: str) -> str:
    """Without control characters, which would stand in the SVG."""
    return _CONTROL.sub("?", text)


def _ranks(rows: list[Row], ids: Mapping[str, str]) -> dict[str, int]:
    """The longest path from above, by the order of the text."""
    found: dict[str, int] = {}
    for row in rows:
        found[row.name] = max((found[o] + 1 for o in row.operands if o in found and o in ids), default=0)
    return found


def engine() -> str:
    """The program that draws: `dot`, else the one of a wheel. VersionError where there is none."""
    beside = str(Path(sys.executable).parent)
    found = shutil.which("dot") or shutil.which(_WHEEL) or shutil.which(_WHEEL, path=beside)
    if found is None:
        raise VersionError("nothing draws graphs here", f"pip install {_WHEEL}==0.2.2, install Graphviz, or write .dot")
    return found


def render(source: str, form: str, count: int) -> bytes:
    """`source` drawn as 'svg' or 'png'. TfxlaError where the engine fails, takes too long, or draws not all `count`
    boxes."""
    command = [engine(), f"-T{form}"]
    try:
        done = subprocess.run(command, input=source.encode(), capture_output=True, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        problem = f"{count:,} instructions were not drawn in {_TIMEOUT_S:g} s"
        raise TfxlaError(problem, "Take --around NAME with fewer --hops, or write .dot") from None
    if done.returncode or not done.stdout:
        raise TfxlaError(f"{command[0]} failed: {done.stderr.decode(errors='replace').strip()[:300]}")
    drawn = done.stdout.count(b'id="hlo_')
    if form == "svg" and drawn != count:
        raise TfxlaError(f"{command[0]} drew {drawn:,} of {count:,} instructions", "Write .dot")
    return done.stdout
