"""HLO protos as the text that XLA prints of them, whatever opcodes they hold; nothing is verified.

What the IR's reader knows of attributes is used; an instruction that it does not know is shown without them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tfxla_cluster.ir.dtype import BY_NUMBER
from tfxla_cluster.ir.opcode import OPCODES
from tfxla_cluster.ir.proto.reader import LOCAL, attributes_of, called_attributes
from tfxla_cluster.ir.proto.shapes import read_literal, read_shape
from tfxla_cluster.ir.text.attributes import quote
from tfxla_cluster.ir.text.literals import ELIDED, render_literal
from tfxla_cluster.ir.text.printer import render_attributes

from .sharding import rendered as sharding

_TUPLE, _OPAQUE, _TOKEN, _BUFFER = 13, 14, 17, 34
_OTHER_TYPES = {_OPAQUE: "opaque[]", _TOKEN: "token[]"}
_MUST_ALIAS = 2
_MOST_ELEMENTS = 10  # of literals that XLA prints
_EACH = ("name", "id", "metadata", "operand_ids", "control_predecessor_ids", "called_computation_ids", "literal")
# Fields of metadata that the text has.
_SOURCE = frozenset(
    [
        "op_type",
        "op_name",
        "source_file",
        "source_line",
        "source_end_line",
        "source_column",
        "source_end_column",
        "stack_frame_id",
        "deduplicated_name",
        "scheduling_name",
    ]
)


@dataclass(frozen=True, slots=True)
class _Named:
    """What the writers of attributes ask of a computation."""

    name: str


@dataclass(slots=True)
class _Printer:
    """Of one module; a module has few shapes and attributes, and many instructions of each: what was printed, by its
    bytes."""

    module: Any
    names: dict[int, _Named]
    shapes: dict[tuple[bytes, bool], str] = field(default_factory=dict)
    attributes: dict[tuple[bytes, str], tuple[list[str], list[str]]] = field(default_factory=dict)
    sequences: dict[int, list[int]] = field(default_factory=dict)


def printed(module: Any) -> str:
    """The text of an HloModuleProto (of hlo_schema), with literals of up to 10 elements. Its messages are emptied."""
    printer = _Printer(module, {c.id: _Named(c.name) for c in module.computations})
    printer.sequences = {s.key: list(s.value.instruction_ids) for s in module.schedule.sequences}
    parts = [_header(printer), *_tables(module.stack_frame_index)]
    parts += ["\n".join(_computation(printer, comp)) for comp in module.computations]
    return "\n\n".join(parts) + "\n"


def _header(printer: _Printer) -> str:
    module = printer.module
    parts = [f"HloModule {module.name}"]
    if module.HasField("schedule"):
        parts.append("is_scheduled=true")
    aliases = [
        f"{_index(e.output_shape_index)}: ({e.parameter_number}, {_index(e.parameter_shape_index)}, "
        f"{'must' if e.kind == _MUST_ALIAS else 'may'}-alias)"
        for e in module.input_output_alias.entries
    ]
    donors = [f"({e.parameter_number}, {_index(e.parameter_shape_index)})" for e in module.buffer_donor.entries]
    parts += [f"input_output_alias={{ {', '.join(aliases)} }}"] if aliases else []
    parts += [f"buffer_donor={{ {', '.join(donors)} }}"] if donors else []
    program = module.host_program_shape
    shown = ", ".join(_indexed([_shape(printer, p) for p in program.parameters]))
    parts.append(f"entry_computation_layout={{({shown})->{_shape(printer, program.result)}}}")
    if module.frontend_attributes.map:
        parts.append(f"frontend_attributes={_strings(module.frontend_attributes)}")
    return ", ".join(parts)


def _index(path: Any) -> str:
    return "{" + ", ".join(map(str, path)) + "}"


def _tables(index: Any) -> Iterator[str]:
    """The tables of the user's lines, in the form of the text: a root's parent there is itself."""
    if not index.stack_frames:
        return
    for title, names in (("FileNames", index.file_names), ("FunctionNames", index.function_names)):
        yield "\n".join([title, *(f"{n} {quote(name)}" for n, name in enumerate(names, 1))])
    fields = ("file_name_id", "function_name_id", "line", "end_line", "column", "end_column")
    rows = (" ".join(f"{f}={getattr(place, f)}" for f in fields if getattr(place, f)) for place in index.file_locations)
    yield "\n".join(["FileLocations", *(f"{n} {{{row}}}" for n, row in enumerate(rows, 1))])
    frames = (
        f"file_location_id={f.file_location_id} parent_frame_id={f.parent_frame_id + 1}" for f in index.stack_frames
    )
    yield "\n".join(["StackFrames", *(f"{n} {{{row}}}" for n, row in enumerate(frames, 1))])


def _computation(printer: _Printer, comp: Any) -> Iterator[str]:
    names = {i.id & LOCAL: i.name for i in comp.instructions}
    shape_of = {i.id & LOCAL: i.shape for i in comp.instructions}
    parameters = sorted((i for i in comp.instructions if i.opcode == "parameter"), key=lambda i: i.parameter_number)
    listed = (f"{p.name}: {_shape(printer, p.shape, False)}" for p in parameters)
    root = comp.root_id & LOCAL
    result = _shape(printer, shape_of[root], False) if root in shape_of else "?"
    entry = "ENTRY " if comp.id == printer.module.entry_computation_id else ""
    kinds = {number: _kind(shape) for number, shape in shape_of.items()}
    yield f"{entry}%{comp.name} ({', '.join(listed)}) -> {result} {{"
    for instr in _ordered(printer, comp):
        mark = "ROOT " if instr.id & LOCAL == root else ""
        yield f"  {mark}{_instruction(printer, instr, names, kinds)}"
    thread = comp.execution_thread
    yield f'}}, execution_thread="{thread}"' if thread and thread != "main" else "}"


def _ordered(printer: _Printer, comp: Any) -> list[Any]:
    sequence = printer.sequences.get(comp.id)
    if sequence is None:
        return list(comp.instructions)
    by_id = {i.id & LOCAL: i for i in comp.instructions}
    scheduled = [by_id[i & LOCAL] for i in sequence if i & LOCAL in by_id]
    return scheduled if len(scheduled) == len(by_id) else list(comp.instructions)


def _kind(shape: Any) -> str:
    dtype = BY_NUMBER.get(shape.element_type)
    return dtype.kind if dtype else ""


def _instruction(printer: _Printer, p: Any, names: dict[int, str], kinds: dict[int, str]) -> str:
    operands = [i & LOCAL for i in p.operand_ids]
    control = [f"%{names.get(i & LOCAL, '?')}" for i in p.control_predecessor_ids]
    called = [printer.names.get(i, _Named("?")) for i in p.called_computation_ids]
    name, opcode, metadata, shape = p.name, p.opcode, _metadata(p.metadata), _shape(printer, p.shape)
    inside = _inside(p, [f"%{names.get(i, '?')}" for i in operands])
    for each in _EACH:
        p.ClearField(each)
    kind = kinds.get(operands[0], "") if operands else ""
    own, common = _attributes(printer, p, kind)
    parts = [*own, *_called(opcode, called, kind), *common]
    parts += [f"control-predecessors={{{', '.join(control)}}}"] if control else []
    parts += [f"metadata={{{metadata}}}"] if metadata else []
    if config := p.backend_config.decode("utf-8", "replace"):
        parts.append(f"backend_config={config if config[:1] == '{' and config[-1:] == '}' else quote(config)}")
    return f"%{name} = {shape} {opcode}({inside})" + "".join(f", {part}" for part in parts)


def _inside(p: Any, operands: list[str]) -> str:
    if p.opcode == "parameter":
        return str(p.parameter_number)
    if p.opcode == "constant":
        return _literal(p)
    return ", ".join(_indexed(operands))


def _indexed(parts: list[str]) -> list[str]:
    return [f"/*index={n}*/{part}" if n and n % 5 == 0 else part for n, part in enumerate(parts)]


def _literal(p: Any) -> str:
    if not p.HasField("literal"):
        return ELIDED
    size = 1
    for dim in p.literal.shape.dimensions:
        size *= dim
    if size > _MOST_ELEMENTS and p.literal.shape.element_type != _TUPLE:
        return ELIDED
    try:
        return render_literal(read_literal(p.literal), read_shape(p.literal.shape), elide=True)
    except (ValueError, AttributeError):  # ParseError too: of a type that the IR does not have
        return ELIDED


def _attributes(printer: _Printer, p: Any, kind: str) -> tuple[list[str], list[str]]:
    """Those of the opcode, and those that any instruction may have."""
    p.ClearField("shape")
    key = p.SerializeToString(), kind
    found = printer.attributes.get(key)
    if found is None:
        found = printer.attributes[key] = (_own(p, kind), _common(p))
    return found


def _own(p: Any, kind: str) -> list[str]:
    found: list[str] = []
    if p.opcode in OPCODES and p.opcode != "constant":
        try:
            known = attributes_of(p, kind)
        except (ValueError, IndexError, AttributeError):
            known = {}
        for name in ("backend_config", "frontend_attributes", "parameter_number"):
            known.pop(name, None)
        found = render_attributes(p.opcode, known, kind)
    if p.HasField("iota_collective_device_list"):
        found.append(f"replica_groups={_iota(p.iota_collective_device_list)}")
    if p.output_operand_aliasing:
        pairs = (
            f"{_index(a.output_shape_index)}: ({a.operand_index}, {_index(a.operand_shape_index)})"
            for a in p.output_operand_aliasing
        )
        found.append(f"output_to_operand_aliasing={{{', '.join(pairs)}}}")
    return found


def _common(p: Any) -> list[str]:
    found = []
    if p.HasField("parameter_replication"):
        leaves = ("true" if leaf else "false" for leaf in p.parameter_replication.replicated_at_leaf_buffers)
        found.append(f"parameter_replication={{{','.join(leaves)}}}")
    if p.HasField("sharding"):
        found.append(f"sharding={sharding(p.sharding)}")
    if p.frontend_attributes.map:
        found.append(f"frontend_attributes={_strings(p.frontend_attributes)}")
    return found


def _strings(attributes: Any) -> str:
    return "{" + ",".join(f"{e.key}={quote(e.value)}" for e in sorted(attributes.map, key=lambda e: e.key)) + "}"


def _iota(groups: Any) -> str:
    dims = ",".join(map(str, groups.iota_reshape_dims))
    text = f"[{groups.num_replica_groups},{groups.num_devices_per_group}]<=[{dims}]"
    order = list(groups.iota_transpose_perm)
    return text if order == sorted(order) else f"{text}T({','.join(map(str, order))})"


def _called(opcode: str, called: list[_Named], kind: str) -> list[str]:
    if not called:
        return []
    if opcode == "conditional":
        keys = ("true_computation", "false_computation") if kind == "pred" else ()
        attrs: dict[str, Any] = dict(zip(keys, called)) or {"branch_computations": tuple(called)}
    elif opcode in ("while", "select-and-scatter") and len(called) != 2:
        attrs = {"called_computations": tuple(called)}
    else:
        attrs = called_attributes(opcode, called, ())  # type: ignore[arg-type]
    return render_attributes(opcode, attrs, "")


def _metadata(m: Any) -> str:
    parts = ((f.name, value) for f, value in m.ListFields() if f.name in _SOURCE)
    return " ".join(f"{name}={quote(value) if isinstance(value, str) else value}" for name, value in parts)


def _shape(printer: _Printer, proto: Any, layout: bool = True) -> str:
    key = proto.SerializeToString(), layout
    found = printer.shapes.get(key)
    if found is None:
        found = printer.shapes[key] = shape_text(proto, layout)
    return found


def shape_text(proto: Any, layout: bool = True) -> str:
    """A ShapeProto as XLA prints it; types without a name by their number."""
    number = proto.element_type
    if number == _TUPLE:
        return f"({', '.join(_indexed([shape_text(e, layout) for e in proto.tuple_shapes]))})"
    if number == _BUFFER:
        return f"b({', '.join(shape_text(e, layout) for e in proto.tuple_shapes)})"
    if number in _OTHER_TYPES:
        return _OTHER_TYPES[number]
    dynamic = list(proto.is_dynamic_dimension) or [False] * len(proto.dimensions)
    dims = ",".join(("?" if d < 0 else f"<={d}" if free else str(d)) for d, free in zip(proto.dimensions, dynamic))
    name = BY_NUMBER[number].name if number in BY_NUMBER else f"type{number}"
    return f"{name}[{dims}]{_layout(proto) if layout else ''}"


def _layout(proto: Any) -> str:
    made = proto.layout
    props = "".join(f"({','.join('*' if d < 0 else str(d) for d in t.dimensions)})" for t in made.tiles)
    props = (f"T{props}" if props else "") + (f"E({made.element_size_in_bits})" if made.element_size_in_bits else "")
    props += f"S({made.memory_space})" if made.memory_space else ""
    order = ",".join(map(str, made.minor_to_major))
    return f"{{{order}{':' if props else ''}{props}}}" if order or props else ""
