"""The printer of HLO text, in XLA's form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import attributes
from ..node import Alias, Computation, Instr, Metadata, Module
from .attributes import WRITERS, quote
from .instruction import sources_attributes
from .literals import render_literal
from .shapes import render_shape
from .sizes import SIZES_KEY, declare

_ORDER = {name: i for i, name in enumerate(attributes.KINDS)}


def render(module: Module, *, elide_literals: bool = False, metadata: bool = True) -> str:
    """The module as HLO text.

    With all literals it replays; `elide_literals` writes `{...}` for those of more than 10 elements;
    `metadata` False leaves that out.
    """
    comps = [
        render_computation(c, entry=c is module.entry, elide_literals=elide_literals, metadata=metadata)
        for c in module.computations()
    ]
    return _header(module) + "\n\n" + "\n\n".join(comps) + "\n"


def _header(module: Module) -> str:
    parts = [f"HloModule {module.name}"]
    if module.is_scheduled:
        parts.append("is_scheduled=true")
    if module.aliases:
        parts.append("input_output_alias={ " + ", ".join(map(_alias, module.aliases)) + " }")
    params = ", ".join(render_shape(p.shape) for p in module.entry.params)
    parts.append(f"entry_computation_layout={{({params})->{render_shape(module.entry.root.shape)}}}")
    sizes = declare(module)
    if sizes:
        parts.append(f"frontend_attributes={{{SIZES_KEY}={quote(sizes)}}}")
    return ", ".join(parts)


def _index(path: tuple[int, ...]) -> str:
    return "{" + ", ".join(map(str, path)) + "}"


def _alias(alias: Alias) -> str:
    kind = "must-alias" if alias.must else "may-alias"
    return f"{_index(alias.output_index)}: ({alias.parameter}, {_index(alias.parameter_index)}, {kind})"


def render_computation(
    comp: Computation, *, entry: bool = False, elide_literals: bool = False, metadata: bool = True
) -> str:
    """One computation: signature, then a line an instruction."""
    params = ", ".join(f"{p.name}: {render_shape(p.shape, layout=False)}" for p in comp.params)
    head = f"{'ENTRY ' if entry else ''}%{comp.name} ({params}) -> {render_shape(comp.root.shape, layout=False)} {{"
    bodies = [render_instruction(i, elide_literals=elide_literals, metadata=metadata) for i in comp.instrs]
    lines = [f"  {'ROOT ' if i is comp.root else ''}{body}" for i, body in zip(comp.instrs, bodies)]
    return "\n".join([head, *lines, "}"])


def render_instruction(instr: Instr, *, elide_literals: bool = False, metadata: bool = True) -> str:
    """One instruction, without ROOT and indentation."""
    text = f"%{instr.name} = {render_shape(instr.shape)} {instr.opcode}({_inside(instr, elide_literals)})"
    text += "".join(f", {part}" for part in _attributes(instr))
    if instr.control:
        text += ", control-predecessors={" + ", ".join(f"%{c.name}" for c in instr.control) + "}"
    origin = _metadata(instr.metadata) if metadata else ""
    return f"{text}, metadata={{{origin}}}" if origin else text


def _inside(instr: Instr, elide: bool) -> str:
    if instr.opcode == "parameter":
        return str(instr.attrs["parameter_number"])
    if instr.opcode == "constant":
        return render_literal(instr.attrs["literal"], instr.shape, elide)
    names = [f"%{o.name}" for o in instr.operands]
    return ", ".join(f"/*index={i}*/{n}" if i and i % 5 == 0 else n for i, n in enumerate(names))


def _operand_kind(instr: Instr) -> str:
    dtype = instr.operands[0].shape.dtype if instr.operands else None
    return dtype.kind if dtype else ""


def _attributes(instr: Instr) -> list[str]:
    """`name=value` for each attribute that is not the default, in the table's order."""
    return render_attributes(instr.opcode, sources_attributes(instr), _operand_kind(instr))


def render_attributes(opcode: str, values: Mapping[str, Any], kind: str) -> list[str]:
    """`name=value` for each of the attributes of an opcode that is not the default, in the table's order. `kind`: of
    the first operand's dtype."""
    shown = [n for n in values if n in attributes.KINDS and not attributes.is_default(opcode, n, values[n], kind)]
    shown.sort(key=_ORDER.__getitem__)
    return [f"{name}={WRITERS[attributes.KINDS[name]](values[name])}" for name in shown]


def _metadata(metadata: Metadata) -> str:
    parts = [
        f"{key}={quote(value)}"
        for key, value in (
            ("op_type", metadata.op_type),
            ("op_name", metadata.op_name),
            ("source_file", metadata.source_file),
        )
        if value
    ]
    if metadata.source_line:
        parts.append(f"source_line={metadata.source_line}")
    return " ".join(parts)
