"""The common part of the builder: a growing list of instructions."""

from __future__ import annotations

from typing import Any

from .. import attributes
from ..dtype import DTYPES, DType
from ..infer import infer
from ..literal import freeze, shape_of
from ..node import Computation, Instr, Metadata, Module
from ..opcode import OPCODES
from ..rewrite import Names
from ..rules import broken
from ..shape import Shape, array


def as_shape(shape: Shape | str) -> Shape:
    """A shape, or its HLO text such as 'f32[2,3]'."""
    if isinstance(shape, Shape):
        return shape
    from ..text.scanner import Scanner
    from ..text.shapes import parse_shape

    return parse_shape(Scanner(shape))


class Core:
    """Adds instructions; `build` makes the computation, `module` a module with it as entry."""

    def __init__(self, name: str = "main") -> None:
        self.name = name
        self.instrs: list[Instr] = []
        self._names = Names()
        self._metadata, self._sources = Metadata(), frozenset[str]()

    def at(self, op_name: str, op_type: str = "") -> None:
        """Instructions from now on come from the TF node `op_name`."""
        self._metadata = Metadata(op_type, op_name)
        self._sources = frozenset((op_name,)) if op_name else frozenset()

    def add_op(self, opcode: str, *operands: Instr, shape: Shape | None = None, name: str = "", **attrs: Any) -> Instr:
        """Any instruction; its shape is inferred, `shape` where the opcode leaves it open.

        VerifierError when a rule is broken.
        """
        if opcode not in OPCODES:
            broken("S7", f"'{opcode}'")
        dtype = operands[0].shape.dtype if operands else None
        given = {key: value for key, value in attrs.items() if value is not None}
        try:
            full = attributes.complete(opcode, given, dtype.kind if dtype else "")
        except KeyError as missing:
            broken("A2", f"{opcode} lacks {missing}")
        implied = infer(opcode, [o.shape for o in operands], full, shape)
        unique = self._names.unique(name or opcode)
        instr = Instr(unique, opcode, implied, operands, full, self._sources, self._metadata)
        self.instrs.append(instr)
        return instr

    def parameter(self, shape: Shape | str, name: str = "") -> Instr:
        """The next parameter."""
        number = sum(i.opcode == "parameter" for i in self.instrs)
        return self.add_op("parameter", shape=as_shape(shape), name=name or f"p{number}", parameter_number=number)

    def constant(self, value: Any, dtype: DType | str | None = None) -> Instr:
        """A literal: an array or a scalar; Python floats become f32, ints s32, bools pred."""
        wanted = DTYPES[dtype] if isinstance(dtype, str) else dtype
        if wanted is None and isinstance(value, (bool, int, float)):
            wanted = DTYPES["pred" if isinstance(value, bool) else "s32" if isinstance(value, int) else "f32"]
        literal = freeze(value, wanted)
        return self.add_op("constant", shape=shape_of(literal), literal=literal)

    def iota(self, shape: Shape | str, dimension: int = 0) -> Instr:
        return self.add_op("iota", shape=as_shape(shape), iota_dimension=dimension)

    def build(self, *root: Instr) -> Computation:
        """The computation; several roots make a tuple, none means the last instruction."""
        last = self.add_op("tuple", *root) if len(root) > 1 else root[0] if root else self.instrs[-1]
        return Computation(self.name, tuple(self.instrs), last)

    def module(self, *root: Instr) -> Module:
        """A module called like the builder, with `build(*root)` as its entry."""
        return Module(self.name, self.build(*root))


def scalar_computation(opcode: str, dtype: DType | str, name: str = "") -> Computation:
    """(x, y) -> opcode(x, y) over scalars: the combiner of a reduction. compare opcodes: 'GE', 'LT', ..."""
    kind = DTYPES[dtype] if isinstance(dtype, str) else dtype
    core = Core(name or f"{opcode}_{kind}")
    x, y = core.parameter(array(kind)), core.parameter(array(kind))
    if opcode in ("EQ", "NE", "LT", "LE", "GT", "GE"):
        return core.build(core.add_op("compare", x, y, direction=opcode))
    return core.build(core.add_op(opcode, x, y))
