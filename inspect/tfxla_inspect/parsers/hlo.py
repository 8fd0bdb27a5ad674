"""HLO text as rows for people: one pass over its lines, no graph of objects, nothing is verified.

Old and new printers, cut-off files and lines that do not fit are all read as far as they go
(`tfxla_cluster.ir.text` is the strict parser).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .stack_tables import StackTables, frame, unescaped

_HEAD = re.compile(r"\s*(ROOT )?%?([\w.\-]+) = ")
_ARRAY = re.compile(r"[a-z][a-z0-9]*\[[^\]]*\](?:\{[^}]*\})?")
_OPCODE = re.compile(r"\s*([a-z][\w\-]*)\(")
_PERCENT_NAME = re.compile(r"%([\w.\-]+)")
_BARE_NAME = re.compile(r"([A-Za-z_][\w.\-]*)\s*(?:,|$)")
_COMPUTATION = re.compile(r"(ENTRY )?%?([\w.\-]+) (?:\(.*\) -> .*)?\{\s*(?://.*)?$")
_CALLED = re.compile(
    r"(?:to_apply|calls|body|condition|select|scatter|true_computation|false_computation)=%?([\w.\-]+)"
    r"|(?:branch_computations|called_computations)=\{([^}]*)\}"
)
_OP_NAME = re.compile(r'op_name="((?:[^"\\]|\\.)*)"')
_FRAME = re.compile(r"stack_frame_id=(\d+)")
_SOURCE = re.compile(r'source_file="((?:[^"\\]|\\.)*)"(?: source_line=(\d+))?')
_HEADER = re.compile(r"HloModule ([^,\s]+)")
# Between op_name and the user's line in Row.origin.
ORIGIN = "\t"
# Operands of these are no names: a number, or a literal that may be megabytes long.
_NO_OPERANDS = frozenset(("parameter", "constant", "iota"))


@dataclass(slots=True)
class Row:
    """An instruction. `line` counts from 0; `operands` and `called` are names; `op_name`: of its metadata, a node of
    TensorFlow's graph. `origin`: the same, told apart by the user's line where the text has that (Hlo.sources)."""

    name: str
    shape: str
    opcode: str
    line: int
    operands: tuple[str, ...] = ()
    called: tuple[str, ...] = ()
    op_name: str = ""
    is_root: bool = False
    origin: str = ""


@dataclass(slots=True)
class Block:
    """A computation."""

    name: str
    line: int
    is_entry: bool = False
    rows: list[Row] = field(default_factory=list)


@dataclass(slots=True)
class Hlo:
    """A module's text. `unread`: lines inside computations that are no instruction; `truncated`: the text
    breaks off inside one; `sources`: Row.origin -> the user's frames that the text has, innermost first."""

    name: str
    blocks: list[Block]
    unread: int = 0
    truncated: bool = False
    sources: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    @property
    def entry(self) -> Block | None:
        return next((b for b in self.blocks if b.is_entry), self.blocks[-1] if self.blocks else None)

    @property
    def count(self) -> int:
        return sum(len(b.rows) for b in self.blocks)

    def opcodes(self) -> Counter[str]:
        """How many instructions of each opcode."""
        return Counter(row.opcode for block in self.blocks for row in block.rows)

    def stepped(self) -> list[Block]:
        """The computations that run as steps (entry, loop bodies, branches), not fusion bodies or
        the small ones that a reduction applies."""
        by_name = {block.name: block for block in self.blocks}
        chosen: dict[str, Block] = {}
        todo = [self.entry] if self.entry else []
        while todo:
            block = todo.pop()
            if block.name in chosen:
                continue
            chosen[block.name] = block
            for row in block.rows:
                if row.opcode in ("while", "conditional", "call", "async-start"):
                    todo.extend(by_name[c] for c in row.called if c in by_name)
        return list(chosen.values())


def parse(text: str) -> Hlo:
    """Every computation and instruction of `text` that can be recognised."""
    header = _HEADER.search(text[:2000])
    hlo = Hlo(header[1] if header else "", [])
    tables = StackTables()
    block: Block | None = None
    for number, line in enumerate(text.split("\n")):
        if block is None:
            block = _start(line, number)
            if block is None:
                tables.add(line)
            else:
                hlo.blocks.append(block)
        elif line.startswith("}"):
            block = None
        elif (row := parse_line(line, number)) is not None:
            row.origin = _origin(line, row.op_name, tables, hlo.sources)
            block.rows.append(row)
        elif line.strip() and not line.strip().startswith("//"):
            hlo.unread += 1
    hlo.truncated = block is not None
    return hlo


def _origin(line: str, op_name: str, tables: StackTables, sources: dict[str, list[dict[str, Any]]]) -> str:
    """The key of an instruction in Hlo.sources, where its frames are put."""
    at = line.rfind("metadata={")
    if at < 0:
        return op_name
    if match := _FRAME.search(line, at):
        frames = [f for f in tables.frames(int(match[1])) if f["user"]]
    elif match := _SOURCE.search(line, at):
        frames = [f for f in (frame(unescaped(match[1]), int(match[2] or 0)),) if f["user"]]
    else:
        return op_name
    if not frames:
        return op_name
    key = f"{op_name}{ORIGIN}{frames[0]['file']}:{frames[0]['line']}"
    sources.setdefault(key, frames)
    return key


def named(origins: Iterable[str]) -> list[str]:
    """The op_names of some Row.origin, each once."""
    return list(dict.fromkeys(origin.partition(ORIGIN)[0] for origin in origins))


def _start(line: str, number: int) -> Block | None:
    match = _COMPUTATION.match(line)
    return Block(match[2], number, bool(match[1])) if match else None


def parse_line(line: str, number: int = 0) -> Row | None:
    """One instruction's line, or None where it is none."""
    head = _HEAD.match(line)
    if head is None:
        return None
    start = head.end()
    end = _shape_end(line, start)
    opcode = _OPCODE.match(line, end)
    if opcode is None:
        return None
    row = Row(head[2], line[start:end], opcode[1], number, is_root=bool(head[1]))
    close = opcode.end()
    if row.opcode not in _NO_OPERANDS:
        close = _closing(line, opcode.end())
        row.operands = _names(line[opcode.end() : close])
    rest = line[close:] if row.opcode != "constant" else line[max(line.rfind("metadata={"), close) :]
    row.called = tuple(_called(rest))
    name = _OP_NAME.search(rest)
    row.op_name = unescaped(name[1]) if name else ""
    return row


def _shape_end(line: str, start: int) -> int:
    if line.startswith("(", start):
        return _closing(line, start + 1) + 1
    array = _ARRAY.match(line, start)
    return array.end() if array else start


def _closing(line: str, start: int) -> int:
    """Where the bracket opened just before `start` closes (the end of the line if it never does)."""
    depth, position = 1, start
    while depth:
        closes = line.find(")", position)
        if closes < 0:
            return len(line)
        depth += line.count("(", position, closes) - 1
        position = closes + 1
    return position - 1


def _names(text: str) -> tuple[str, ...]:
    found = _PERCENT_NAME.findall(text)
    return tuple(found or _BARE_NAME.findall(text))


def _called(rest: str) -> list[str]:
    names: list[str] = []
    if "=" in rest:
        for single, several in _CALLED.findall(rest):
            names.extend([single] if single else [n.strip().lstrip("%") for n in several.split(",")])
    return names
