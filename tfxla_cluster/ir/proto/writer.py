"""Module -> HloModuleProto bytes."""

from __future__ import annotations

from typing import Any

from .. import attributes as table
from ..node import Computation, Instr, Module
from ..size_values import sampled
from ..text.instruction import instruction_sizes, sources_attributes
from ..text.sizes import SIZES_KEY, declare
from .attributes import CODECS, COMMON
from .schema import MESSAGES
from .shapes import write_literal, write_shape


def write(module: Module, named: bool = True) -> bytes:
    """HloModuleProto bytes; sizes are written as their samples, their names in frontend attributes (`text.sizes`).

    named: with the names of instructions and computations and the metadata, which say where a module comes from and
    nothing about what it computes; without them the bytes are for comparison, and are not read again. Only types of
    TensorFlow's ops stay: passes ask for them (`passes.product_precision`).
    """
    proto = MESSAGES["HloModuleProto"](name=module.name if named else "", id=1)
    ids: dict[Computation, int] = {}
    for comp in module.computations():
        ids[comp] = len(ids) + 1
        _write_computation(comp, ids, proto.computations.add(), named)
    proto.entry_computation_name = module.entry.name if named else ""
    proto.entry_computation_id = ids[module.entry]
    proto.host_program_shape.CopyFrom(proto.computations[-1].program_shape)
    sizes = declare(module)
    if sizes:
        proto.frontend_attributes.map.add(key=SIZES_KEY, value=sizes)
    for alias in module.aliases:
        proto.input_output_alias.entries.add(
            output_shape_index=alias.output_index,
            parameter_number=alias.parameter,
            parameter_shape_index=alias.parameter_index,
            kind=2 if alias.must else 1,
        )
    if module.is_scheduled:
        for comp in proto.computations:
            entry = proto.schedule.sequences.add(key=comp.id)
            entry.value.instruction_ids.extend(i.id for i in comp.instructions)
    return bytes(proto.SerializeToString())


def _write_computation(comp: Computation, ids: dict[Computation, int], proto: Any, named: bool) -> None:
    proto.name, proto.id = comp.name if named else "", ids[comp]
    local = {instr: ids[comp] << 32 | number for number, instr in enumerate(comp.instrs)}
    for instr in comp.instrs:
        _write_instruction(instr, local, ids, proto.instructions.add(), named)
    proto.root_id = local[comp.root]
    for param in comp.params:
        write_shape(param.shape, proto.program_shape.parameters.add())
        proto.program_shape.parameter_names.append(param.name if named else "")
    write_shape(comp.root.shape, proto.program_shape.result)


def _write_instruction(instr: Instr, local: dict[Instr, int], ids: dict[Computation, int], p: Any, named: bool) -> None:
    if named:
        _write_origin(instr, p)
    p.opcode, p.id, p.metadata.op_type = instr.opcode, local[instr], instr.metadata.op_type
    write_shape(instr.shape, p.shape)
    p.operand_ids.extend(local[o] for o in instr.operands)
    p.control_predecessor_ids.extend(local[c] for c in instr.control)
    p.called_computation_ids.extend(ids[c] for c in instr.called)
    for name, value in (sources_attributes(instr) if named else instr.attrs).items():
        _write_attribute(instr, name, value, p)
    sizes = instruction_sizes(instr)
    if sizes:
        p.frontend_attributes.map.add(key=SIZES_KEY, value=sizes)


def _write_origin(instr: Instr, p: Any) -> None:
    """Its name and where it comes from."""
    meta = instr.metadata
    p.name, p.metadata.op_name = instr.name, meta.op_name
    p.metadata.source_file, p.metadata.source_line = meta.source_file, meta.source_line


def _write_attribute(instr: Instr, name: str, value: Any, p: Any) -> None:
    if name == "literal":
        write_literal(value, instr.shape, p.literal)
    elif name in COMMON:
        COMMON[name][2](p, value)
    elif name in CODECS and name in table.defaults(instr.opcode):
        CODECS[name][1](p, sampled(value))
