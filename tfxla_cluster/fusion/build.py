"""Turns planned groups into `fusion` instructions with their fused computations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..ir.node import Computation, Instr
from ..ir.rewrite import Names
from ..ir.shape import tuple_of
from .graph import Graph
from .group_order import Group, Order
from .legality import HEROES


def fused(graph: Graph, order: Order, names: Names) -> Computation:
    """The computation with a fusion for each group that holds more than an instruction by itself.

    `names` gives each fusion a name of its own in the module.
    """
    outputs = _needed_outputs(graph, order)
    if not any(_is_fusion(graph, group, outputs[group]) for group in outputs):
        return graph.comp
    return _Builder(graph, outputs, names).build(order)


def _needed_outputs(graph: Graph, order: Order) -> dict[Group, list[Instr]]:
    """For each group, users first, the members that leave it; groups that nothing needs have none."""
    needed = {graph.comp.root}
    found: dict[Group, list[Instr]] = {}
    for group in reversed(order.groups()):
        if group.kind == "single":
            found[group] = list(group.members)
            for member in group.members:
                if member in graph.virtual:
                    needed.update(_leaves(graph, group, [member]))
                else:
                    needed.update(member.operands)
            for member in group.members:
                needed.update(member.control)
            continue
        found[group] = [m for m in group.members if m in needed]
        needed.update(_leaves(graph, group, found[group]))
    return found


def _leaves(graph: Graph, group: Group, outputs: Sequence[Instr]) -> list[Instr]:
    if len(group.members) == 1 and outputs and outputs[0].opcode in ("reshape", "bitcast"):
        return list(outputs[0].operands)
    return graph.closure(outputs, {**group.members, **group.recomputed})[1]


def _is_fusion(graph: Graph, group: Group, outputs: Sequence[Instr]) -> bool:
    """More than one instruction, scalar constants and the elements of a variadic reduce apart."""
    if not outputs or (group.kind == "single" and next(iter(group.members)) not in graph.virtual):
        return False
    if len(outputs) == 1 and outputs[0].opcode in ("reshape", "bitcast") and len(group.members) == 1:
        return False
    inside, _ = graph.closure(outputs, {**group.members, **group.recomputed})
    return len([i for i in inside if i.opcode not in ("constant", "get-tuple-element")]) > 1


class _Builder:
    """Emits groups in order; `done` maps each old value to the new one."""

    def __init__(self, graph: Graph, outputs: Mapping[Group, list[Instr]], names: Names) -> None:
        self.graph, self.outputs, self.names = graph, outputs, names
        self.done: dict[Instr, Instr] = {}
        self.instrs: list[Instr] = []

    def build(self, order: Order) -> Computation:
        for group in order.groups():
            outputs = self.outputs[group]
            if _is_fusion(self.graph, group, outputs):
                self._fusion(group, outputs)
            elif outputs:
                needed = set(self.graph.closure(outputs, group.members)[0])  # less than all where others compute some
                for member in group.members:
                    if member in needed:
                        self._plain(member)
        self._parameters_first()
        return Computation(self.graph.comp.name, tuple(self.instrs), self.done[self.graph.comp.root])

    def _parameters_first(self) -> None:
        """Parameters and constants keep their place at the head: they depend on nothing."""
        leaves = [i for i in self.instrs if i.opcode in ("parameter", "constant")]
        self.instrs = leaves + [i for i in self.instrs if i.opcode not in ("parameter", "constant")]

    def _value(self, old: Instr) -> Instr:
        """The new value; a scalar constant is copied in on its first use."""
        if old not in self.done:
            self._plain(old)
        return self.done[old]

    def _plain(self, old: Instr) -> None:
        operands = tuple(self._value(o) for o in old.operands)
        control = tuple(self._value(c) for c in old.control)
        changed = operands != old.operands or control != old.control
        self.done[old] = old.replace(operands=operands, control=control) if changed else old
        self.instrs.append(self.done[old])

    def _fusion(self, group: Group, outputs: Sequence[Instr]) -> None:
        inside, leaves = self.graph.closure(outputs, {**group.members, **group.recomputed})
        values = [self._value(x) for x in leaves]
        made = fusion_values(self.names.unique("fusion"), kind_of(inside), inside, leaves, values, outputs)
        elements = list(made.values())
        self.instrs += elements if len(elements) == 1 else [elements[0].operands[0], *elements]
        self.done.update(made)


def fusion_values(
    name: str,
    kind: str,
    inside: Sequence[Instr],
    leaves: Sequence[Instr],
    values: Sequence[Instr],
    outputs: Sequence[Instr],
) -> dict[Instr, Instr]:
    """What stands for each of `outputs` once a fusion `name` computes `inside` from `values`, which stand for
    `leaves`: the fusion, or elements of it."""
    comp = fused_computation(name.replace("fusion", "fused_computation"), inside, leaves, outputs)
    main = outputs[-1]
    sources = frozenset().union(*(i.sources for i in inside))
    attrs = {"kind": kind, "calls": comp}
    fusion = Instr(name, "fusion", comp.root.shape, tuple(values), attrs, sources, main.metadata)
    if len(outputs) == 1:
        return {main: fusion}
    return {
        output: Instr(
            output.name,
            "get-tuple-element",
            output.shape,
            (fusion,),
            {"index": number},
            output.sources,
            output.metadata,
        )
        for number, output in enumerate(outputs)
    }


def kind_of(inside: Sequence[Instr]) -> str:
    """XLA's word for the sort of fusion: by what shapes the kernel."""
    opcodes = {i.opcode for i in inside}
    if opcodes & set(HEROES):
        return "kOutput"
    return "kInput" if "reduce" in opcodes else "kLoop"


def fused_computation(
    name: str, inside: Sequence[Instr], leaves: Sequence[Instr], outputs: Sequence[Instr]
) -> Computation:
    """`inside` with a parameter for each of `leaves`; the root is the output, or a tuple of them."""
    copies: dict[Instr, Instr] = {
        leaf: Instr(f"param_{n}.{leaf.name}", "parameter", leaf.shape, (), {"parameter_number": n})
        for n, leaf in enumerate(leaves)
    }
    order = list(copies.values())
    for instr in inside:
        copies[instr] = instr.replace(operands=tuple(copies[o] for o in instr.operands), control=())
        order.append(copies[instr])
    root = copies[outputs[0]]
    if len(outputs) > 1:
        parts = tuple(copies[o] for o in outputs)
        root = Instr(f"{name}.tuple", "tuple", tuple_of(*(p.shape for p in parts)), parts)
        order.append(root)
    return Computation(name, tuple(order), root)
