"""HloModuleProto or HloProto bytes -> Module."""

from __future__ import annotations

import functools
from typing import Any

from google.protobuf.message import DecodeError

from ... import gc_pause
from ...errors import ParseError
from .. import attributes as table
from ..node import NO_METADATA, Alias, Computation, Instr, Metadata, Module
from ..opcode import OPCODES
from ..shape import Shape
from ..size_values import sampled
from ..text.instruction import take_sizes, take_sources
from ..text.sizes import SIZES_KEY, read_declared
from .attributes import CODECS, COMMON, Read
from .schema import MESSAGES
from .shapes import read_literal, read_shape

_MUST_ALIAS = 2
LOCAL = 0xFFFFFFFF
"""Of an instruction's id: newer ones are computation << 32 | local, and may be named by the local half alone."""


def read(data: bytes) -> Module:
    """The module in `data`. ParseError when it is neither proto, or uses what the IR does not have."""
    return read_listed(data)[0]


def read_listed(data: bytes) -> tuple[Module, tuple[Computation, ...]]:
    """As `read`, and the computations in the order of the proto, those that nothing calls too."""
    proto = decode(data)
    with gc_pause.paused():
        try:
            reader = _Reader(proto)
            return reader.module(), tuple(reader.computations.values())
        except (ValueError, RecursionError) as error:  # names of sizes that are none, nested without end
            raise ParseError(f"the proto cannot be read: {error}") from None


def parameter_shapes(proto: Any) -> tuple[Shape, ...]:
    """Of a decoded module, by number, without reading the rest of it."""
    entry = next((comp for comp in proto.computations if comp.id == proto.entry_computation_id), None)
    if entry is None:
        raise ParseError(f"the module proto '{proto.name}' has no entry computation")
    found = [instr for instr in entry.instructions if instr.opcode == "parameter"]
    return tuple(read_shape(instr.shape) for instr in sorted(found, key=lambda instr: instr.parameter_number))


def decode(data: bytes) -> Any:
    """The HloModuleProto in `data`, as a message; also that of a snapshot. ParseError when it is no such proto.

    Field 1 of HloModuleProto is a name, of HloProto a module, of HloSnapshot an HloProto: whichever has computations
    is right."""
    for name, path in _HOLDERS:
        try:
            proto = MESSAGES[name].FromString(bytes(data))
        except DecodeError:
            continue
        for field in path:
            proto = getattr(proto, field)
        if len(proto.computations):
            return proto
    raise ParseError("not an HloModuleProto or HloProto")


# Message -> the fields by which it leads to an HloModuleProto.
_HOLDERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("HloModuleProto", ()),
    ("HloProto", ("hlo_module",)),
    ("HloSnapshot", ("hlo", "hlo_module")),
)


class _Reader:
    def __init__(self, proto: Any) -> None:
        self.proto = proto
        self.computations: dict[int, Computation] = {}
        # A module has few shapes and attributes, and many instructions of each: what was read, by its bytes.
        self.shapes: dict[bytes, Shape] = {}
        self.attributes: dict[tuple[bytes, str], dict[str, Any]] = {}
        listed = {e.key: e.value for e in proto.frontend_attributes.map}
        self.sizes = read_declared(listed.get(SIZES_KEY, ""))
        self.sequences = {s.key: list(s.value.instruction_ids) for s in proto.schedule.sequences}

    def module(self) -> Module:
        proto = self.proto
        for comp in proto.computations:
            self.computations[comp.id] = self._computation(comp)
        entry = self.computations.get(proto.entry_computation_id)
        if entry is None:
            raise ParseError(f"the module proto '{proto.name}' has no entry computation")
        aliases = tuple(
            Alias(
                tuple(e.output_shape_index), e.parameter_number, tuple(e.parameter_shape_index), e.kind == _MUST_ALIAS
            )
            for e in proto.input_output_alias.entries
        )
        return Module(proto.name, entry, aliases, proto.HasField("schedule"))

    def _computation(self, comp: Any) -> Computation:
        instrs: dict[int, Instr] = {}
        local = {i.id & LOCAL: i.id for i in comp.instructions}
        for instr in self._ordered(comp):
            number = instr.id  # which is cleared while it is read
            instrs[number] = self._instruction(instr, instrs, local)
        root = instrs.get(comp.root_id) or instrs.get(local.get(comp.root_id & LOCAL, -1))
        if root is None:
            raise ParseError(f"computation '{comp.name}' has no root")
        return Computation(comp.name, tuple(instrs.values()), root)

    def _ordered(self, comp: Any) -> list[Any]:
        """The instructions, in the schedule's order where the module has one."""
        sequence = self.sequences.get(comp.id)
        if sequence is None:
            return list(comp.instructions)
        by_id = {i.id & LOCAL: i for i in comp.instructions}
        return [by_id[i & LOCAL] for i in sequence]

    def _instruction(self, p: Any, instrs: dict[int, Instr], local: dict[int, int]) -> Instr:
        """`local`: id by its local half."""
        opcode = p.opcode
        if opcode not in OPCODES:
            raise ParseError(f"instruction '{p.name}' has the unknown opcode '{opcode}'")
        try:
            operands = tuple([instrs[i] if i in instrs else instrs[local[i & LOCAL]] for i in p.operand_ids])
            control = tuple([instrs[i] if i in instrs else instrs[local[i & LOCAL]] for i in p.control_predecessor_ids])
            called = [self.computations[i] for i in p.called_computation_ids]
        except KeyError as missing:
            raise ParseError(f"instruction '{p.name}' uses {missing}, which is not defined before it") from None
        metadata = _metadata(p.metadata, self.proto) if p.HasField("metadata") else NO_METADATA
        name, shape = p.name, self._shape(p.shape)
        attrs = dict(self._attributes(p, operands))
        if called:
            attrs.update(called_attributes(opcode, called, operands))
        sources = take_sources(attrs, metadata)
        sized = take_sizes(opcode, attrs, self.sizes)
        if sized is not None and not sampled(sized).same_as(sampled(shape)):
            raise ParseError(f"instruction '{name}' is {shape}, its sizes say {sized}")
        shape = sized or shape
        return Instr(name, opcode, shape, operands, attrs, sources, metadata, control)

    def _shape(self, p: Any) -> Shape:
        key = p.SerializeToString()
        found = self.shapes.get(key)
        if found is None:
            found = self.shapes[key] = read_shape(p)
        return found

    def _attributes(self, p: Any, operands: tuple[Instr, ...]) -> dict[str, Any]:
        """The attributes that are no computations; all else is cleared in `p`."""
        for field in _NO_ATTRIBUTES:
            p.ClearField(field)
        dtype = operands[0].shape.dtype if operands else None
        key = p.SerializeToString(), dtype.kind if dtype else ""
        found = self.attributes.get(key)
        if found is None:
            found = self.attributes[key] = attributes_of(p, key[1])
        return found


_NO_ATTRIBUTES = ("name", "id", "metadata", "shape", "operand_ids", "control_predecessor_ids", "called_computation_ids")


_NO_FILE = "dummy_file_name"  # TensorFlow's bridge writes it for an op that has no stack trace


def _metadata(m: Any, module: Any) -> Metadata:
    file, line = m.source_file, m.source_line
    index = module.stack_frame_index
    if not file and 0 < m.stack_frame_id <= len(index.stack_frames):
        location = index.file_locations[index.stack_frames[m.stack_frame_id - 1].file_location_id - 1]
        file, line = index.file_names[location.file_name_id - 1], location.line
    return Metadata(m.op_type, m.op_name) if file == _NO_FILE else Metadata(m.op_type, m.op_name, file, line)


@functools.cache
def _readers(opcode: str) -> tuple[tuple[str, Read, bool], ...]:
    """(attribute, what reads it, whether nothing is a value too) of each attribute that is a field of its own."""
    return tuple(
        (name, CODECS[name][0], default is table.REQUIRED)
        for name, default in table.defaults(opcode).items()
        if name in CODECS
    )


@functools.cache
def _absent(opcode: str) -> tuple[tuple[str, Any], ...]:
    """The attributes that have a value where the proto has none."""
    return tuple((n, d) for n, d in table.defaults(opcode).items() if d is not table.REQUIRED and d is not None)


def attributes_of(p: Any, kind: str) -> dict[str, Any]:
    """The attributes of an HloInstructionProto that are no computations. `kind`: of the first operand's dtype, '' where
    it has none. Raises ParseError, ValueError and IndexError where a field holds what XLA does not write."""
    found: dict[str, Any] = {}
    opcode = p.opcode
    if opcode == "constant":
        found["literal"] = read_literal(p.literal)
    for name, read, required in _readers(opcode):
        value = read(p)
        if value or required:
            found[name] = value
    for name, (present, get, _) in COMMON.items():
        if present(p):
            found[name] = get(p)
    if opcode == "compare":
        found["type"] = table.ordered(found["type"], p.comparison_order, kind)
    for name, default in _absent(opcode):
        found.setdefault(name, default)
    return found


def called_attributes(opcode: str, called: list[Computation], operands: tuple[Instr, ...]) -> dict[str, Any]:
    """The attributes that name the computations a proto lists only by position."""
    if opcode == "while":
        return {"body": called[0], "condition": called[1]}
    if opcode == "select-and-scatter":
        return {"select": called[0], "scatter": called[1]}
    if opcode == "conditional":
        if operands[0].shape.element_type.kind == "pred":
            return {"true_computation": called[0], "false_computation": called[1]}
        return {"branch_computations": tuple(called)}
    if opcode == "custom-call":
        return {"called_computations": tuple(called)}
    return {"calls" if opcode == "fusion" or opcode.startswith("async") else "to_apply": called[0]}
