"""Sizes in HLO text: the number they had in the trace, with the expression in a comment, which XLA skips.

    HloModule m, frontend_attributes={tfxla_sizes="n=101>=1, k<=(n*4)"}
    ... f32[101/*n*/,<=404/*k*/] ... slice={[0:100/*(n+-1)*/]} ... padding=0_101/*0;n;0*/ ... window={size=101}/*n;0;0*/

The module's attribute says each size's sample, range and residue class (`n=101>=1<=4096%2=1`: odd ones); `k<=8` and
`k<=(n*4)` are such as an instruction produces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ...errors import InternalError
from .. import dim as dims_
from ..dim import Dim, DimExpr
from ..node import Module
from ..size_operators import OPERATORS
from ..size_values import named_sizes
from .scanner import Scanner

SIZES_KEY = "tfxla_sizes"
_NAME = r"[A-Za-z_][\w.\-]*"
_DECLARED = re.compile(rf"({_NAME})=(\d+)(?:>=(\d+))?(?:<=(\d+))?(?:%(\d+)=(\d+))?")
_PRODUCED = re.compile(rf"({_NAME})<=(.+)")
_TOKEN = re.compile(rf"\s*(<=|-?\d+|{_NAME}|//|[()+*%,])")
_INFIX = {row.infix: name for name, row in OPERATORS.items() if row.infix}
_COMMENT = re.compile(r"/\*(.*?)\*/", re.S)


def declare(module: Module) -> str:
    """What `SIZES_KEY` says of a module; '' where it has no named size."""
    return ", ".join(map(_declared, named_sizes(module).values()))


def _declared(size: DimExpr) -> str:
    if not re.fullmatch(_NAME, size.name) or size.name in OPERATORS:
        raise InternalError(f"a size cannot be called '{size.name}'")
    if dims_.is_produced(size):
        return f"{size.name}<={size.bound}"
    low, high = f">={size.low}" if size.low else "", "" if size.high is None else f"<={size.high}"
    residue = f"%{size.every}={size.rest}" if size.every > 1 else ""
    return f"{size.name}={size.number}{low}{high}{residue}"


def read_declared(text: str) -> dict[str, DimExpr]:
    """The sizes by name; ValueError where the text is not what `declare` writes."""
    found: dict[str, DimExpr] = {}
    for part in filter(None, map(str.strip, re.split(r",\s", text))):
        size = _input_size(part) or _produced_size(part, found)
        if size is None:
            raise ValueError(f"'{part}' declares no size")
        found[size.name] = size
    return found


def _input_size(part: str) -> DimExpr | None:
    row = _DECLARED.fullmatch(part)
    if row is None:
        return None
    low, high = int(row[3] or 0), None if row[4] is None else int(row[4])
    every, rest = int(row[5] or 1), int(row[6] or 0)
    if every == 0 or int(row[2]) % every != rest:
        raise ValueError(f"'{part}' declares no size: its sample is of another residue class")
    return dims_.sym(row[1], int(row[2]), low, high, every, rest)


def _produced_size(part: str, sizes: Mapping[str, DimExpr]) -> DimExpr | None:
    row = _PRODUCED.fullmatch(part)
    return row and dims_.bounded(row[1], parse_size(row[2], sizes))


def parse_size(text: str, sizes: Mapping[str, DimExpr]) -> Dim:
    """The size that `str` of a Dim wrote; ValueError where it is none, or names a size that is not declared."""
    tokens = _tokens(text)
    dim = _expression(tokens, sizes)
    if next(tokens) != "":
        raise ValueError(f"'{text}' is not a size")
    return dim


def _tokens(text: str) -> Iterator[str]:
    """The words of an expression, then '' for ever."""
    at = 0
    while at < len(text.rstrip()):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"'{text}' is not a size")
        at = found.end()
        yield found[1]
    while True:
        yield ""


def _expression(tokens: Iterator[str], sizes: Mapping[str, DimExpr]) -> Dim:
    token = next(tokens)
    if token == "<=":
        return dims_.bounded_only(_expression(tokens, sizes))
    if token == "(":
        left = _expression(tokens, sizes)
        op = _INFIX.get(next(tokens))
        right = _expression(tokens, sizes)
    elif token in OPERATORS:
        op = token if next(tokens) == "(" else None
        left = _expression(tokens, sizes)
        op = op if next(tokens) == "," else None
        right = _expression(tokens, sizes)
    else:
        return _leaf(token, sizes)
    if op is None or next(tokens) != ")":
        raise ValueError("an expression of sizes has no operator, or is not closed")
    return dims_.make(op, left, right)


def _leaf(token: str, sizes: Mapping[str, DimExpr]) -> Dim:
    if token in sizes:
        return sizes[token]
    if token.lstrip("-").isdigit():
        return int(token)
    raise ValueError(f"no size '{token}' is declared" if token else "an expression of sizes ends too soon")


def written(dim: Dim) -> str:
    """A number; an expression as its sample with the expression in a comment."""
    return str(dim) if isinstance(dim, int) else f"{dims_.sample(dim)}/*{dim}*/"


def beside(dims: Sequence[Dim]) -> str:
    """The comment behind numbers that cannot have one each; '' where all are numbers."""
    return "" if all(isinstance(d, int) for d in dims) else f"/*{';'.join(map(str, dims))}*/"


def read(scan: Scanner, number: str, comment: str | None) -> Dim:
    """The number, or the expression that the comment behind it says."""
    if comment is None or not scan.sizes:
        return int(number)
    try:
        dim = parse_size(comment, scan.sizes)
    except ValueError as error:
        scan.fail(str(error))
    if dims_.sample(dim) != int(number):
        scan.fail(f"{number} stands beside {dim}, which is {dims_.sample(dim)} by its sizes' samples")
    return dim


def read_beside(scan: Scanner, numbers: Sequence[int]) -> Sequence[Dim]:
    """The numbers just read, or what the comment that follows says of them."""
    found = _COMMENT.match(scan.text, scan.pos) if scan.sizes else None
    if found is None:
        return numbers
    parts = found[1].split(";")
    if len(parts) != len(numbers):
        scan.fail(f"a comment says {len(parts)} sizes of {len(numbers)}")
    scan.pos = found.end()
    return [read(scan, str(n), part) for n, part in zip(numbers, parts)]
