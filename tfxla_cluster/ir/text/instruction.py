"""Instructions in HLO text: `ROOT %name = shape opcode(operands), attribute=value, ...`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .. import attributes
from ..dim import DimExpr
from ..literal import freeze
from ..node import NO_METADATA, Computation, Instr, Metadata
from ..opcode import OPCODES
from ..shape import Shape
from ..size_values import SIZED, has_sizes
from .attributes import READERS, WRITERS, raw_value
from .frames import Frames
from .literals import parse_literal
from .scanner import Scanner
from .shapes import is_shape_next, parse_shape, render_shape
from .sizes import SIZES_KEY

# The frontend attribute that carries `Instr.sources` where they are more than metadata's op_name.
SOURCES_KEY = "tfxla_sources"
# Attributes that XLA prints and that carry nothing the IR keeps.
_IGNORED = frozenset(
    (
        "origin",
        "statistics",
        "parameter_replication",
        "operand_layout_constraints",
        "output_to_operand_aliasing",
        "custom_call_schedule",
        "async_execution_thread",
        "outfeed_shape",
        "cross_program_prefetch_index",
        "domain",
    )
)
_OPCODE = re.compile(r"[a-z][a-z0-9\-]*")


class Body:
    """The instructions of one computation, as they are read."""

    def __init__(self, scan: Scanner, computations: Mapping[str, Computation], frames: Frames) -> None:
        self.scan, self.computations, self.frames = scan, computations, frames
        self.instrs: dict[str, Instr] = {}
        self.elided: dict[Instr, str] = {}
        self._root: Instr | None = None

    @property
    def root(self) -> Instr:
        """The instruction marked ROOT, else the last one."""
        return self._root or list(self.instrs.values())[-1]

    def instruction(self) -> None:
        """Read one instruction and add it."""
        scan = self.scan
        is_root = scan.keyword("ROOT")
        scan.skip()
        start = scan.pos
        name = scan.name("the name of an instruction")
        scan.expect("=", f"after '{name}'")
        shape = parse_shape(scan)
        scan.skip()
        at = scan.pos
        opcode = self._opcode()
        if name in self.instrs:
            scan.fail(f"instruction '{name}' is defined twice in one computation", start)
        scan.expect("(", f"after {opcode}")
        attrs: dict[str, Any] = {}
        known = len(scan.elided)
        operands = self._inside(opcode, shape, attrs)
        instr = self._finish(name, opcode, shape, operands, attrs, at)
        self.instrs[name] = instr
        if len(scan.elided) > known:
            self.elided[instr] = scan.elided[known]
        if is_root:
            if self._root is not None:
                scan.fail(f"a second ROOT: '{self._root.name}' is one", start)
            self._root = instr

    def _opcode(self) -> str:
        start = self.scan.pos
        found = self.scan.match(_OPCODE) or self.scan.fail("expected an opcode")
        if found.group() not in OPCODES:
            self.scan.fail(f"unknown opcode '{found.group()}'", start)
        return found.group()

    def _inside(self, opcode: str, shape: Shape, attrs: dict[str, Any]) -> tuple[Instr, ...]:
        """What stands in the parentheses: operands, or the number of a parameter, or a literal."""
        if opcode == "parameter":
            attrs["parameter_number"] = self.scan.integer()
        elif opcode == "constant":
            value = parse_literal(self.scan, shape)
            attrs["literal"] = value if isinstance(value, tuple) else freeze(value)
        else:
            return self._operands()
        self.scan.expect(")", f"after {opcode}")
        return ()

    def _operands(self) -> tuple[Instr, ...]:
        scan, found = self.scan, []
        while not scan.accept(")"):
            if is_shape_next(scan):
                parse_shape(scan)
            found.append(self._reference())
            if not scan.peek(")"):
                scan.expect(",", "between operands")
        return tuple(found)

    def _reference(self) -> Instr:
        self.scan.skip()
        start = self.scan.pos
        name = self.scan.name("an operand")
        return self.instrs.get(name) or self.scan.fail(f"operand '{name}' is not defined before its use", start)

    def _finish(
        self, name: str, opcode: str, shape: Shape, operands: tuple[Instr, ...], attrs: dict[str, Any], start: int
    ) -> Instr:
        metadata = NO_METADATA
        control: tuple[Instr, ...] = ()
        order = ""
        while self.scan.accept(","):
            key = self.scan.key() or self.scan.fail("expected attribute=value")
            if key == "metadata":
                metadata = self._metadata()
            elif key == "control-predecessors":
                control = self._control()
            elif key == "order" and opcode == "compare":
                order = raw_value(self.scan)
            else:
                self._attribute(opcode, key, attrs)
        dtype = operands[0].shape.dtype if operands else None
        if order:
            attrs["type"] = attributes.ordered(attrs.get("type", ""), order, dtype.kind if dtype else "")
        try:
            attributes.complete(opcode, attrs, dtype.kind if dtype else "")
        except KeyError as missing:
            self.scan.fail(f"{opcode} lacks its attribute {missing}", start)
        return Instr(name, opcode, shape, operands, attrs, take_sources(attrs, metadata), metadata, control)

    def _attribute(self, opcode: str, key: str, attrs: dict[str, Any]) -> None:
        """Read the value of `key` into `attrs`; what the IR does not keep is skipped."""
        if key in _IGNORED:
            raw_value(self.scan)
            return
        kind = attributes.KINDS.get(key)
        if kind is None or (key not in attributes.defaults(opcode) and key not in attributes.COMMON):
            self.scan.fail(f"{opcode} has no attribute '{key}'")
        attrs[key] = READERS[kind](self.scan, self.computations)

    def _metadata(self) -> Metadata:
        scan = self.scan
        scan.expect("{", "before metadata")
        fields: dict[str, str] = {}
        while not scan.accept("}"):
            key = scan.key() or scan.fail("expected a field of metadata")
            fields[key] = scan.string() if scan.peek('"') else raw_value(scan)
        file, line = fields.get("source_file", ""), int(fields.get("source_line", "0"))
        if not file and "stack_frame_id" in fields:
            file, line = self.frames.where(int(fields["stack_frame_id"]))
        return Metadata(fields.get("op_type", ""), fields.get("op_name", ""), file, line)

    def _control(self) -> tuple[Instr, ...]:
        self.scan.expect("{")
        found = []
        while not self.scan.accept("}"):
            found.append(self._reference())
            self.scan.accept(",")
        return tuple(found)


def take_sources(attrs: dict[str, Any], metadata: Metadata) -> frozenset[str]:
    """The sources the frontend attribute names (it is taken out of `attrs`), else metadata's op_name."""
    listed = _take_frontend(attrs, SOURCES_KEY)
    if listed is None:
        return frozenset((metadata.op_name,)) if metadata.op_name else frozenset()
    return frozenset(filter(None, listed.split(";")))


def instruction_sizes(instr: Instr) -> str:
    """The shape, and the attributes that hold sizes, as text with the expressions; '' where all are numbers."""
    if not has_sizes(instr):
        return ""
    name = SIZED.get(instr.opcode)
    shape = render_shape(instr.shape)
    return f"{shape}, {name}={WRITERS[attributes.KINDS[name]](instr.attrs[name])}" if name else shape


def take_sizes(opcode: str, attrs: dict[str, Any], sizes: Mapping[str, DimExpr]) -> Shape | None:
    """The shape that the frontend attribute of `instruction_sizes` says, None where there is none. The attribute is
    taken out of `attrs`, and what it says of the opcode's attribute put in."""
    text = _take_frontend(attrs, SIZES_KEY)
    if text is None:
        return None
    scan = Scanner(text)
    scan.sizes = sizes
    shape = parse_shape(scan)
    name = SIZED.get(opcode)
    if name and scan.accept(","):
        scan.expect(f"{name}=")
        attrs[name] = READERS[attributes.KINDS[name]](scan, {})
    return shape if scan.at_end() else scan.fail("expected the end of an instruction's sizes")


def _take_frontend(attrs: dict[str, Any], key: str) -> str | None:
    """Take one frontend attribute out of `attrs`."""
    if "frontend_attributes" not in attrs:
        return None
    front = dict(attrs["frontend_attributes"])
    value: str | None = front.pop(key, None)
    if value is not None and front:
        attrs["frontend_attributes"] = tuple(front.items())
    elif value is not None:
        del attrs["frontend_attributes"]
    return value


def sources_attributes(instr: Instr) -> Mapping[str, Any]:
    """The attributes of `instr`, with its sources where metadata's op_name does not say them."""
    own = frozenset((instr.metadata.op_name,)) if instr.metadata.op_name else frozenset()
    if instr.sources == own:
        return instr.attrs
    listed = (*instr.attrs.get("frontend_attributes", ()), (SOURCES_KEY, ";".join(sorted(instr.sources))))
    return {**instr.attrs, "frontend_attributes": tuple(sorted(listed))}
