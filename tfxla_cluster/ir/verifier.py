"""The verifier: a module keeps the labelled rules of `rules.RULES`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..errors import VerifierError
from . import attributes
from . import dim as dims_
from .dim import DimExpr
from .infer import infer
from .infer.common import same_shape
from .node import Computation, Instr, Module
from .opcode import OPCODES
from .rules import broken, check
from .shape import Shape
from .size_proofs import at_most
from .size_values import has_sizes, sizes_of

_TEXT_ONLY = attributes.COMMON


def verify(module: Module) -> None:
    """Raise VerifierError, naming the rule and the instruction, when `module` breaks a rule."""
    Verifier().verify(module)


class Verifier:
    """Verifies the stages of one module: what it found right (nodes are immutable) it does not check again."""

    def __init__(self) -> None:
        self._right: set[Instr] = set()
        self._right_computations: dict[Computation, tuple[DimExpr, ...]] = {}  # with their sizes

    def verify(self, module: Module) -> None:
        """Raise VerifierError, naming the rule and the instruction, when `module` breaks a rule."""
        names: set[str] = set()
        sizes: dict[str, DimExpr] = {}
        for comp in module.computations():
            check(comp.name not in names, "S5", f"two computations are called {comp.name}")
            names.add(comp.name)
            if comp not in self._right_computations:
                self._right_computations[comp] = self._computation(comp)
            _join_sizes(sizes, self._right_computations[comp])
        _verify_sources(module, sizes)
        _verify_aliases(module)

    def _computation(self, comp: Computation) -> tuple[DimExpr, ...]:
        """The sizes of a computation that is right."""
        for instr in comp.instrs:
            if instr not in self._right:
                verify_instruction(instr)
                self._right.add(instr)
        _verify_structure(comp)
        sizes: dict[str, DimExpr] = {}
        for instr in filter(has_sizes, comp.instrs):
            _join_sizes(sizes, sizes_of(instr))
        return tuple(sizes.values())


def verify_computation(comp: Computation) -> None:
    """The rules of one computation, not of those it calls."""
    _verify_structure(comp)
    for instr in comp.instrs:
        verify_instruction(instr)


def _join_sizes(known: dict[str, DimExpr], sizes: Iterable[DimExpr]) -> None:
    for size in sizes:
        first = known.setdefault(size.name, size)
        if (size.op, size.args) != (first.op, first.args):
            broken("S10", f"the size {size.name} is {size.op} {size.args[1:]} and {first.op} {first.args[1:]}")


def _verify_sources(module: Module, sizes: Mapping[str, DimExpr]) -> None:
    read = {d.name for p in module.entry.params for d in p.shape.dims if isinstance(d, DimExpr) and d.is_size}
    for name, size in sizes.items():
        check(dims_.is_produced(size) or name in read, "S11", f"the size {name} of {module.name}")


def _verify_structure(comp: Computation) -> None:
    """Order, names and numbers in one computation."""
    seen: set[Instr] = set()
    names: set[str] = set()
    for instr in comp.instrs:
        _verify_place(instr, seen, names, comp)
        seen.add(instr)
        names.add(instr.name)
    check(comp.root in seen, "S2", f"root %{comp.root.name} of {comp.name}")
    numbers = [int(p.attrs["parameter_number"]) for p in comp.params]
    check(numbers == list(range(len(numbers))), "S3", f"parameters of {comp.name} are numbered {numbers}")


def _verify_place(instr: Instr, seen: set[Instr], names: set[str], comp: Computation) -> None:
    for operand in instr.operands:
        if operand not in seen:
            broken("S1", f"operand %{operand.name} of %{instr.name} in {comp.name}")
    for before in instr.control:
        if before not in seen:
            broken("S6", f"control predecessor %{before.name} of %{instr.name} in {comp.name}")
    if instr.name in names:
        broken("S4", f"%{instr.name} in {comp.name}")


def verify_instruction(instr: Instr) -> None:
    """Opcode, arity, attributes and shape of one instruction."""
    row = OPCODES.get(instr.opcode)
    if row is None:
        broken("S7", f"%{instr.name} has the opcode '{instr.opcode}'")
    if row.arity is not None and len(instr.operands) != row.arity:
        broken("S8", f"%{instr.name}: {instr.opcode} takes {row.arity} operands, has {len(instr.operands)}")
    _verify_attributes(instr)
    try:
        implied = infer(instr.opcode, [o.shape for o in instr.operands], instr.attrs, instr.shape)
    except VerifierError as error:
        raise VerifierError(error.rule, f"%{instr.name}: {error.message.split(') ', 1)[1]}") from None
    _verify_sizes(instr, instr.shape)
    if implied is not instr.shape and not same_shape(implied, instr.shape):
        broken("A3", f"%{instr.name} says {instr.shape}, {instr.opcode} gives {implied}")


def _verify_sizes(instr: Instr, shape: Shape) -> None:
    """Rule A5."""
    for dim in shape.dims:
        if dim < 0 if isinstance(dim, int) else not at_most(0, dim):
            broken("A5", f"%{instr.name}: {shape}")
    for element in shape.elements:
        _verify_sizes(instr, element)


def _verify_attributes(instr: Instr) -> None:
    table = attributes.defaults(instr.opcode)
    for name in instr.attrs:
        if name not in table and name not in _TEXT_ONLY:
            broken("A1", f"%{instr.name}: {instr.opcode} has no attribute '{name}'")
    for name, default in table.items():
        if default is not None and name not in instr.attrs:
            broken("A2", f"%{instr.name}: {instr.opcode} lacks '{name}'")


def _verify_aliases(module: Module) -> None:
    params = module.entry.params
    for alias in module.aliases:
        exists = 0 <= alias.parameter < len(params)
        out = _at(module.entry.root.shape, alias.output_index)
        param = _at(params[alias.parameter].shape, alias.parameter_index) if exists else None
        agree = out is not None and param is not None and same_shape(out, param)
        check(agree, "S9", f"output {alias.output_index} with parameter {alias.parameter} {alias.parameter_index}")


def _at(shape: Shape, path: tuple[int, ...]) -> Shape | None:
    for step in path:
        if not shape.is_tuple or not 0 <= step < len(shape.elements):
            return None
        shape = shape.elements[step]
    return shape
