"""A fusion around one contraction: its operands computed as they are packed, what follows it on each sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

from ....errors import UnsupportedError
from ....fusion.hero import epilogue, hero_of
from ....fusion.index import Access, Digit, Splitter, flatten
from ....fusion.index import Index as Map
from ....fusion.moves import sources
from ....fusion.program import Program, digits, output_instrs
from ....ir.node import Instr
from ....target import Target
from ..choice import Knobs
from ..contraction import Index
from ..contraction_ports import Ports
from ..ir import Buffer, Var
from ..unit import Unit
from . import convolution, dot
from .contraction_operand import Element, Operand, Store, buffer_operand, convert, lies_in_order
from .emit import Emitter
from .grid import bind_rows
from .wide_emit import NEVER_WIDE, EpilogueEmitter

_NO_LOOPS = Program(*((),) * len(fields(Program)))  # the loops are those of the contraction


class _Buffers(dict[Instr, Buffer]):
    """The buffers of parameters, each made an input of the kernel when first asked for."""

    def __init__(self, ports: Ports) -> None:
        super().__init__()
        self.ports = ports

    def __missing__(self, parameter: Instr) -> Buffer:
        return self.ports.read("operand", int(parameter.attrs["parameter_number"]), parameter.shape.element_type)


def parts_of(instr: Instr) -> tuple[Instr, list[Operand], Store]:
    """The contraction of a fusion that holds one, its operands, and what is done with each of its elements."""
    comp = instr.attrs["calls"]
    hero = hero_of(comp)
    if hero is None:
        raise UnsupportedError(f"{instr.name} does not hold exactly one contraction")
    return hero, [_operand(o) for o in hero.operands], _epilogue(hero, output_instrs(comp), comp.instrs)


def lower_hero(instr: Instr, target: Target, knobs: Knobs) -> Unit:
    """Kernels of a fusion that holds one dot or convolution (the rules of `fusion.hero`)."""
    hero, operands, store = parts_of(instr)
    if hero.opcode == "dot":
        return dot.lower_contraction(dot.describe(hero, operands, store), target, knobs)
    return convolution.lower_phases(convolution.describe(hero, operands, store), target, knobs)


def _operand(source: Instr) -> Operand:
    """An operand as the buffer it is, perhaps in other dims or widened exactly when it is read; or as the expression
    that gives its elements."""
    under = source
    while under.opcode in ("reshape", "bitcast") or widens(under):
        under = under.operands[0]
    if under.opcode == "parameter":
        held = buffer_operand(int(under.attrs["parameter_number"]), source)
        return replace(held, dtype=under.shape.element_type)
    return Operand(-1, source.shape.dims, source.shape.element_type, _contiguous(source), _element(source))


def widens(instr: Instr) -> bool:
    """Whether it converts a float to a wider one, exactly."""
    if instr.opcode != "convert":
        return False
    source, result = instr.operands[0].shape.element_type, instr.shape.element_type
    narrow = source.name in ("f16", "bf16") and result.name == "f32"
    return narrow or (source.name in ("f16", "bf16", "f32") and result.name == "f64")


def _element(source: Instr) -> Element:
    def element(p: Ports, index: Index) -> Var:
        own = digits(source.shape.dims, "e")
        return _bound(p, own, index).value(Access(source, own))

    return element


def _contiguous(source: Instr) -> int:
    """The axis of `source` along which its largest parameter lies contiguously; the last one otherwise."""
    own = digits(source.shape.dims, "e")
    axis_of = {seq[0]: axis for axis, seq in enumerate(own) if seq}
    best, found = -1, max(source.shape.rank - 1, 0)
    todo = [Access(source, own)]
    while todo:
        access = todo.pop()
        if access.instr.opcode == "parameter":
            size, place = _elements(access.instr), flatten(access.index)
            if size > best and place and isinstance(place[-1], Digit) and place[-1] in axis_of:
                best, found = size, axis_of[place[-1]]
        else:
            todo.extend(sources(access, Splitter()))
    return found


def _elements(instr: Instr) -> int:
    total = 1
    for extent in instr.shape.sample_dims:
        total *= extent
    return total


def _epilogue(hero: Instr, outputs: Sequence[Instr], inside: Sequence[Instr]) -> Store:
    """Computes every output's element from the hero's, and stores it."""
    found, in_order = epilogue(hero, outputs, inside), lies_in_order(hero)
    can_widen = not any(i.opcode in NEVER_WIDE for i in inside)

    def store(p: Ports, value: Var, index: Index) -> None:
        own = value if p.wide and can_widen else convert(p.b, value, hero.shape.element_type)
        emitter = (EpilogueEmitter if p.wide and can_widen else Emitter)(p.b, _NO_LOOPS, _Buffers(p))
        for groups, number in zip(found.groups, index):
            bind_rows(emitter, groups, number)
        emitter.replaced[Access(hero, found.own)] = lambda: own
        values = [emitter.value(root) for root in found.roots]
        for position, (root, element) in enumerate(zip(found.roots, values)):
            place, rounded = flatten(root.index), convert(p.b, element, root.instr.shape.element_type)
            p.put(position, emitter.number(place), rounded, in_order and place == flatten(found.own))

    return store


def _bound(p: Ports, own: Map, index: Index) -> Emitter:
    """An emitter with the digits of an array's dims bound to an index."""
    emitter = Emitter(p.b, _NO_LOOPS, _Buffers(p))
    for seq, value in zip(own, index):
        for digit in seq:
            assert isinstance(digit, Digit)
            emitter.bind((digit,), value)
    return emitter
