"""Dimensions: integers, expressions over sizes of the inputs, or sizes that an instruction produces.

A `Dim` is a plain `int` or a `DimExpr`. No stage after lowering may assume the former: use
`evaluate(dim, env)` for a number at run time, `sample(dim)` where text or an estimate needs one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeGuard, Union, cast

from ..errors import UsageError
from .size_operators import OPERATORS

Dim = Union[int, "DimExpr"]
LEAST_GENERIC = 2
"""Of sizes that modules for many sizes are for: at 0 and 1 broadcasting and elided instructions make other modules."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DimExpr:
    """An integer expression.

    op 'sym': args (name, sample, low, high, every, rest): a size read from an input's shape, from low to high (None:
    any), of those that leave `rest` when divided by `every` (1: of all).
    op 'bounded': args (name, bound): a size that an instruction produces, at most `bound`, a Dim over sizes of inputs.
    op one of `size_operators.OPERATORS`: args are two Dims.

    A size is its name: two of one name are equal, whatever their samples. Equal expressions may be written in
    different ways: `polynomial.same` compares what they stand for.
    """

    op: str
    args: tuple[Dim | str | None, ...]

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
        """The sample of a size; of one that an instruction produces, that of its bound."""
        return cast("int", self.args[1]) if self.op == "sym" else sample(self.bound)

    @property
    def bound(self) -> Dim:
        """The most that a size may be which an instruction produces."""
        return cast("Dim", self.args[1])

    @property
    def low(self) -> int:
        """The least a size may be."""
        return cast("int", self.args[2]) if self.op == "sym" else 0

    @property
    def high(self) -> int | None:
        """The most a size may be as a number, None where there is none."""
        if self.op == "sym":
            return cast("int | None", self.args[3])
        return self.bound if isinstance(self.bound, int) else None

    @property
    def every(self) -> int:
        """What a size is divided by to tell its residue class; 1 where it is in none."""
        return cast("int", self.args[4]) if self.op == "sym" else 1

    @property
    def rest(self) -> int:
        """What a size leaves when divided by `every`."""
        return cast("int", self.args[5]) if self.op == "sym" else 0

    @property
    def values(self) -> str:
        """What a size may be, in words."""
        most = "" if self.high is None else f" and at most {self.high}"
        return f"at least {self.low}{most}{f' and {multiple_text(self.every, self.rest)}' if self.every > 1 else ''}"

    def admits(self, value: int) -> bool:
        """A size may be this number."""
        return self.low <= value <= (value if self.high is None else self.high) and value % self.every == self.rest

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

    __repr__ = __str__


def sym(name: str, sample: int, low: int = 0, high: int | None = None, every: int = 1, rest: int = 0) -> DimExpr:
    """The size called `name`; `sample` is the value it had in the trace that was lowered. What holds it is proven
    for `low` <= size <= `high` where size % every == rest, and must be guarded by that."""
    return DimExpr("sym", (name, sample, low, high, every, rest))


def multiple_text(every: int, rest: int) -> str:
    """What numbers that leave `rest` when divided by `every` are, in words."""
    return f"a multiple of {every}" if rest == 0 else f"{rest} more than a multiple of {every}"


def bounded(name: str, bound: Dim) -> DimExpr:
    """A size known only after its instruction ran, at most `bound` (HLO's `<=bound`), which no such size is in."""
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


def bounded_only(bound: Dim) -> DimExpr:
    """A size of which XLA's text and protos tell no more than its bound (`<=8`): to inference it is that bound, as to
    XLA, until the pass size-namer says which sizes are one."""
    return bounded(f"<={bound}", bound)


def is_produced(dim: Dim) -> TypeGuard[DimExpr]:
    """A size that an instruction produces."""
    return isinstance(dim, DimExpr) and dim.op == "bounded"


def has_produced(dim: Dim) -> bool:
    """A size that an instruction produces, or an expression with one."""
    return isinstance(dim, DimExpr) and (is_produced(dim) or (not dim.is_size and any(map(has_produced, dim.operands))))


def is_bounded_only(dim: Dim) -> bool:
    """A size of `bounded_only`."""
    return is_produced(dim) and dim.name == f"<={dim.bound}"


def capacity(dim: Dim) -> Dim:
    """`dim` with every produced size at its bound: what to reserve."""
    return substituted(dim, lambda size: size.bound if is_produced(size) else size)


def from_bounds(dim: Dim) -> Dim:
    """`dim` with the sizes of `bounded_only` at their bounds."""
    return substituted(dim, lambda size: size.bound if is_bounded_only(size) else size)


def instantiate(dim: Dim, env: Mapping[str, int]) -> Dim:
    """`dim` with the sizes of inputs that `env` names at those numbers; UsageError where one is out of its range."""

    def number(size: DimExpr) -> Dim:
        if is_produced(size):
            return with_bound(size, substituted(size.bound, number))
        if size.name not in env:
            return size
        check_range(size, env[size.name])
        return env[size.name]

    return substituted(dim, number)


def with_bound(size: DimExpr, bound: Dim) -> DimExpr:
    """A size that an instruction produces, with another bound."""
    if bound is size.bound:
        return size
    return bounded_only(bound) if is_bounded_only(size) else bounded(size.name, bound)


def check_range(size: DimExpr, value: int) -> None:
    """UsageError where a size has a value that nothing was proven for."""
    if not size.admits(value):
        raise UsageError(f"the size {size.name} is {value}, but must be {size.values}")


def substituted(dim: Dim, size: Callable[[DimExpr], Dim]) -> Dim:
    """`dim` with every size replaced; itself where nothing changes."""
    if isinstance(dim, int):
        return dim
    if dim.is_size:
        return size(dim)
    old = dim.operands
    new = tuple(substituted(d, size) for d in old)
    return dim if new[0] is old[0] and new[1] is old[1] else make(dim.op, *new)


def product(dims: Iterable[Dim]) -> Dim:
    """The product of all dims (1 for none)."""
    total: Dim = 1
    for dim in dims:
        total = make("mul", total, dim)
    return total


def leaves(dim: Dim) -> Iterator[DimExpr]:
    """The sizes in `dim`, from left to right."""
    if isinstance(dim, int):
        return
    if dim.is_size:
        yield dim
        return
    for operand in dim.operands:
        yield from leaves(operand)


def symbols(dim: Dim) -> frozenset[str]:
    """Names of the sizes that `dim` depends on."""
    return frozenset(size.name for size in leaves(dim))
