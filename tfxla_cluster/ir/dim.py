"""Dimensions: integers, expressions over sizes of the inputs, or sizes that an instruction produces.

A `Dim` is a plain `int` or a `DimExpr`. No stage after lowering may assume the former: use
`evaluate(dim, env)` for a number at run time, `sample(dim)` where text or an estimate needs one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeGuard, Union, cast

from .size_operators import OPERATORS

Dim = Union[int, "DimExpr"]


@dataclass(frozen=True, slots=True, eq=False)
class DimExpr:
    """An integer expression.

    op 'sym': args (name, sample): a size read from an input's shape.
    op 'bounded': args (name, bound): a size that an instruction produces, at most `bound`.
    op one of `size_operators.OPERATORS`: args are two Dims.

    A size is its name: two of one name are equal, whatever their samples. Equal expressions may be written in
    different ways: `polynomial.same` compares what they stand for.
    """

    op: str
    args: tuple[Dim | str, ...]

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, DimExpr) or self.op != other.op:
            return False
        return self.args[0] == other.args[0] if self.is_size else self.args == other.args

    def __hash__(self) -> int:
        return hash((self.op, self.args[0] if self.is_size else self.args))

    @property
    def is_size(self) -> bool:
        """A size with a name; otherwise an operation on two dims."""
        return self.op in ("sym", "bounded")

    @property
    def name(self) -> str:
        """Of a size."""
        return cast("str", self.args[0])

    @property
    def number(self) -> int:
        """The sample or the bound of a size."""
        return cast("int", self.args[1])

    @property
    def operands(self) -> tuple[Dim, Dim]:
        """Of an operation."""
        return cast("tuple[Dim, Dim]", self.args)

    def __add__(self, other: Dim) -> Dim:
        return make("add", self, other)

    __radd__ = __add__

    def __mul__(self, other: Dim) -> Dim:
        return make("mul", self, other)

    __rmul__ = __mul__

    def __sub__(self, other: Dim) -> Dim:
        return make("add", self, make("mul", other, -1))

    def __rsub__(self, other: Dim) -> Dim:
        return make("add", other, make("mul", self, -1))

    def __floordiv__(self, other: Dim) -> Dim:
        return make("floordiv", self, other)

    def __mod__(self, other: Dim) -> Dim:
        return make("mod", self, other)

    def __str__(self) -> str:
        if self.is_size:
            return self.name
        infix = OPERATORS[self.op].infix
        left, right = self.operands
        return f"({left}{infix}{right})" if infix else f"{self.op}({left},{right})"


def sym(name: str, sample: int) -> DimExpr:
    """The size called `name`; `sample` is the value it had in the trace that was lowered."""
    return DimExpr("sym", (name, sample))


def bounded(name: str, bound: int) -> DimExpr:
    """A size known only after its instruction ran, at most `bound` (HLO's `<=bound`)."""
    return DimExpr("bounded", (name, bound))


def make(op: str, a: Dim, b: Dim) -> Dim:
    """The expression `op(a, b)`, folded where it is a number; constants stand right."""
    if isinstance(a, int) and isinstance(b, int):
        return int(OPERATORS[op].fold(a, b))
    if isinstance(a, int) and OPERATORS[op].commutative:
        a, b = b, a
    if (op == "add" and b == 0) or (op in ("mul", "floordiv") and b == 1):
        return a
    if op == "mul" and b == 0:
        return 0
    return DimExpr(op, (a, b))


def ceil_div(a: Dim, b: Dim) -> Dim:
    """ceil(a / b) for b > 0."""
    return make("floordiv", make("add", a, make("add", b, -1)), b)


def evaluate(dim: Dim, env: Mapping[str, int]) -> int:
    """The number `dim` stands for when each symbol has the value `env` gives; KeyError if one lacks."""
    if isinstance(dim, int):
        return dim
    if dim.is_size:
        return env[dim.name]
    a, b = dim.operands
    return int(OPERATORS[dim.op].fold(evaluate(a, env), evaluate(b, env)))


def sample(dim: Dim) -> int:
    """A number for text and estimates: the traced size of a symbol, the bound of a produced size."""
    if isinstance(dim, int):
        return dim
    if dim.is_size:
        return dim.number
    a, b = dim.operands
    return int(OPERATORS[dim.op].fold(sample(a), sample(b)))


def is_produced(dim: Dim) -> TypeGuard[DimExpr]:
    """A size that an instruction produces."""
    return isinstance(dim, DimExpr) and dim.op == "bounded"


def has_produced(dim: Dim) -> bool:
    """A size that an instruction produces, or an expression with one."""
    return isinstance(dim, DimExpr) and (is_produced(dim) or (not dim.is_size and any(map(has_produced, dim.operands))))


def product(dims: Iterable[Dim]) -> Dim:
    """The product of all dims (1 for none)."""
    total: Dim = 1
    for dim in dims:
        total = make("mul", total, dim)
    return total


def symbols(dim: Dim) -> frozenset[str]:
    """Names of the sizes that `dim` depends on."""
    if isinstance(dim, int):
        return frozenset()
    if dim.is_size:
        return frozenset((dim.name,))
    a, b = dim.operands
    return symbols(a) | symbols(b)
