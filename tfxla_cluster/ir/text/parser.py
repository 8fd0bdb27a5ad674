"""The parser of HLO text: old and new forms, with and without `%`, signatures and operand shapes."""

from __future__ import annotations

import re

from ... import gc_pause
from ..dim import DimExpr
from ..node import Alias, Computation, Instr, Module
from .attributes import READERS, raw_value
from .frames import TABLES, Frames
from .instruction import Body
from .scanner import Scanner
from .shapes import parse_shape
from .sizes import SIZES_KEY, read_declared

_ALIAS = re.compile(r"\{([\d,\s]*)\}\s*:\s*\(\s*(\d+)\s*,\s*\{([\d,\s]*)\}\s*(?:,\s*([\w-]+))?\s*\)")


def parse(text: str, filename: str = "", *, allow_elided: bool = False) -> Module:
    """The module that `text` holds. ParseError, with file:line:column, when it is not HLO text.

    Literals that were elided (`{...}`) are an error, or zeros with `allow_elided` (to look at, not to run).
    """
    return _parse(Scanner(text, filename, allow_elided))[0]


def parse_elided(text: str, filename: str = "") -> tuple[Module, dict[Instr, str]]:
    """As `parse`, and the constants whose literals were elided, which are zeros, each with file:line:column."""
    return _parse(Scanner(text, filename, allow_elided=True))


def _parse(scan: Scanner) -> tuple[Module, dict[Instr, str]]:
    with gc_pause.paused():
        try:
            parser = _Parser(scan)
            return parser.module(), parser.elided
        except (ValueError, OverflowError) as error:  # a number that is none, or that no dtype holds
            scan.fail(f"a value cannot be read: {error}")
        except RecursionError:
            scan.fail("brackets are nested too deep")


class _Parser:
    def __init__(self, scan: Scanner) -> None:
        self.scan = scan
        self.computations: dict[str, Computation] = {}
        self.frames = Frames()
        self.elided: dict[Instr, str] = {}

    def module(self) -> Module:
        if not self.scan.keyword("HloModule"):
            self.scan.fail("expected 'HloModule': this is not HLO text")
        name = self.scan.name("the name of the module")
        header = self._attributes()
        self.scan.sizes = self._sizes(header.get("frontend_attributes", "{}"))
        entry = None
        while not self.scan.at_end():
            if self._table():
                continue
            is_entry = self.scan.keyword("ENTRY")
            comp = self._computation()
            entry = comp if is_entry else entry
        if entry is None:
            self.scan.fail("the module has no ENTRY computation")
        return Module(name, entry, _aliases(header), header.get("is_scheduled") == "true")

    def _sizes(self, attributes: str) -> dict[str, DimExpr]:
        """Those that the module declares."""
        listed = dict(READERS["strings"](Scanner(attributes, self.scan.filename), {}))
        return read_declared(listed.get(SIZES_KEY, ""))

    def _attributes(self) -> dict[str, str]:
        """`, key=value, ...` as raw text."""
        found = {}
        while self.scan.accept(","):
            key = self.scan.key() or self.scan.fail("expected key=value")
            found[key] = raw_value(self.scan)
        return found

    def _table(self) -> bool:
        """Read a stack frame table if one comes next."""
        for table in TABLES:
            if self.scan.keyword(table):
                self.frames.read(self.scan, table)
                return True
        return False

    def _computation(self) -> Computation:
        scan = self.scan
        scan.skip()
        start = scan.pos
        name = scan.name("a computation")
        if scan.peek("("):
            scan.balanced()
            scan.expect("->", "in the signature of a computation")
            parse_shape(scan)
        scan.expect("{", "before the body of a computation")
        body = Body(scan, self.computations, self.frames)
        while not scan.accept("}"):
            body.instruction()
        self.elided.update(body.elided)
        self._attributes()
        if not body.instrs:
            scan.fail(f"computation '{name}' is empty", start)
        if name in self.computations:
            scan.fail(f"computation '{name}' is defined twice", start)
        self.computations[name] = Computation(name, tuple(body.instrs.values()), body.root)
        return self.computations[name]


def _index(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part.strip())


def _aliases(header: dict[str, str]) -> tuple[Alias, ...]:
    rows = _ALIAS.findall(header.get("input_output_alias", ""))
    return tuple(Alias(_index(out), int(number), _index(at), kind == "must-alias") for out, number, at, kind in rows)
