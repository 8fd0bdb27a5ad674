"""A module's HLO as structure without names: what computes what, in which kernels, from and to how many bytes."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import dataclass, field

from .parsers import hlo
from .parsers.hlo import Block, Hlo, Row
from .parsers.shapes import byte_size

_PARAMETER = re.compile(r"\bparameter\((\d+)\)")
_LAYOUT = re.compile(r"\{[^}]*\}|/\*.*?\*/")
# Attributes that say what an instruction computes; printers agree on these.
_ATTRIBUTES = re.compile(
    r"\b(dimensions|direction|slice|index|iota_dimension|lhs_contracting_dims|rhs_contracting_dims)=(\{[^}]*\}|\w+)"
)
# What no kernel computes: values under another name.
_VIEWS = frozenset(
    ("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "add-dependency", "partition-id")
)
_THROUGH = frozenset(("bitcast", "copy"))  # the same value, however it lies


@dataclass(frozen=True, slots=True)
class Op:
    """An instruction, in a fusion or not. `key`: digest of what it computes from the inputs on. `kernel`: the
    instruction of the entry whose kernel it is in, '' of a view. `uses`: keys of what it reads."""

    name: str
    key: str
    title: str
    kernel: str
    uses: tuple[str, ...]


@dataclass(slots=True)
class Structure:
    """`kernels`: instruction of the entry -> its parts in words; `bytes`: read and written by all of them once."""

    ops: list[Op] = field(default_factory=list)
    kernels: dict[str, str] = field(default_factory=dict)
    bytes: int = 0

    def count(self) -> Counter[str]:
        """Keys of what is computed."""
        return Counter(op.key for op in self.ops)

    def borders(self) -> dict[tuple[str, str], bool]:
        """(producer's, consumer's key) -> whether both are in one kernel."""
        homes: dict[str, set[str]] = {}
        for op in self.ops:
            homes.setdefault(op.key, set()).add(op.kernel)
        return {
            (used, op.key): op.kernel in homes[used]
            for op in self.ops
            for used in op.uses
            if used in homes and op.kernel
        }


def of_text(text: str) -> Structure:
    """The structure of the entry computation of HLO text, fusions opened."""
    return _Reader(hlo.parse(text), text.split("\n")).structure()


class _Reader:
    def __init__(self, module: Hlo, lines: list[str]) -> None:
        self.blocks = {block.name: block for block in module.blocks}
        self.entry, self.lines = module.entry, lines
        self.found = Structure()

    def structure(self) -> Structure:
        if self.entry is None:
            return self.found
        shapes = {row.name: row.shape for row in self.entry.rows}
        for row in self.entry.rows:
            if row.opcode not in _VIEWS:
                self.found.kernels[row.name] = self._parts(row)
                read = {o: byte_size(shapes[o]) for o in row.operands if o in shapes}
                self.found.bytes += byte_size(row.shape) + sum(read.values())
        self._block(self.entry, {}, "")
        return self.found

    def _parts(self, row: Row) -> str:
        """'multiply, reduce' of a fusion, else the opcode; then the result's shape."""
        inside = [r.opcode for name in row.called for r in self.blocks.get(name, Block("", 0)).rows]
        opcodes = sorted(o for o in inside if o not in _VIEWS) if row.opcode == "fusion" else []
        return f"{', '.join(opcodes) or row.opcode} -> {_plain(row.shape)}"

    def _block(self, block: Block, given: dict[int, str], kernel: str) -> dict[str, str]:
        """Instruction -> key; `given`: keys of the parameters, of the entry their numbers."""
        keys: dict[str, str] = {}
        for row in block.rows:
            uses = tuple(keys.get(o, "") for o in row.operands)
            number = self._number(row)
            home = kernel or ("" if row.opcode in _VIEWS else row.name)
            if row.opcode == "parameter" and number in given:
                keys[row.name] = given[number]
            elif row.opcode in _THROUGH and uses:
                keys[row.name] = uses[0]
            elif row.opcode == "fusion" and row.called and row.called[0] in self.blocks:
                inner = self.blocks[row.called[0]]
                made = self._block(inner, dict(enumerate(uses)), home)
                keys[row.name] = next((made[r.name] for r in inner.rows if r.is_root), "")
            else:
                keys[row.name] = self._key(row, uses, number)
                if row.opcode not in _VIEWS:
                    title = f"{row.opcode} {_plain(row.shape)}"
                    self.found.ops.append(Op(row.name, keys[row.name], title, home, uses))
        return keys

    def _number(self, row: Row) -> int:
        match = _PARAMETER.search(self.lines[row.line]) if row.opcode == "parameter" else None
        return int(match[1]) if match else -1

    def _key(self, row: Row, uses: tuple[str, ...], number: int) -> str:
        line = self.lines[row.line]
        what = sorted(_ATTRIBUTES.findall(line.partition("metadata=")[0]))
        literal = line.partition("constant(")[2].partition(", metadata=")[0] if row.opcode == "constant" else ""
        applied = [r.opcode for name in row.called for r in self.blocks.get(name, Block("", 0)).rows if r.is_root]
        said = (row.opcode, _plain(row.shape), number, what, literal[:1000], applied, uses)
        return hashlib.sha256(repr(said).encode()).hexdigest()[:16]


def _plain(shape: str) -> str:
    """A shape without its layout."""
    return _LAYOUT.sub("", shape)


def differences(one: Structure, other: Structure) -> list[str]:
    """What differs, as lines: '-' only the first has, '+' only the other."""
    lines = [f"kernels: {len(one.kernels)} and {len(other.kernels)}"] if len(one.kernels) != len(other.kernels) else []
    if one.bytes != other.bytes:
        lines.append(f"bytes that kernels read and write: {one.bytes:,} and {other.bytes:,}")
    for sign, mine, theirs in (("-", one, other), ("+", other, one)):
        extra = Counter(mine.kernels.values()) - Counter(theirs.kernels.values())
        lines += [f"{sign} kernel {parts}{f' ({n} times)' if n > 1 else ''}" for parts, n in sorted(extra.items())]
    titles = {op.key: op.title for op in (*one.ops, *other.ops)}
    for sign, mine, theirs in (("-", one, other), ("+", other, one)):
        extra = mine.count() - theirs.count()
        known = theirs.count()
        said = Counter(titles[key] for key, n in extra.items() for _ in range(n) if key not in known)
        lines += [f"{sign} computes {title}{f' ({n} times)' if n > 1 else ''}" for title, n in sorted(said.items())]
    first, second = one.borders(), other.borders()
    for edge in sorted(first.keys() & second.keys(), key=lambda e: (titles[e[0]], titles[e[1]])):
        if first[edge] != second[edge]:
            where = "first" if first[edge] else "second"
            lines.append(f"fused in the {where} alone: {titles[edge[0]]} into {titles[edge[1]]}")
    return list(dict.fromkeys(lines))
