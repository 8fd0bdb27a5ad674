"""Shapes in HLO text: `f32[2,<=8]{1,0:T(8,128)}`, `(f32[], s32[2])`, `token[]`."""

from __future__ import annotations

import re

from .. import dim as dims_
from ..dim import Dim
from ..dtype import DTYPES
from ..shape import TOKEN, Shape, array, tuple_of
from .scanner import Scanner
from .sizes import read, written

_ARRAY = re.compile(r"([a-z][a-z0-9]*)\[([0-9, <=?]*)\](?:\{([0-9,]*)(:[^{}]*)?\})?")
_ARRAY_LOOSE = re.compile(r"([a-z][a-z0-9]*)\[([^\]]*)\](?:\{([0-9,]*)(:[^{}]*)?\})?")
_COMMENT = re.compile(r"/\*(.*?)\*/", re.S)
_PART = re.compile(r"(?:/\*.*?\*/|[^,/])+", re.S)  # between the commas outside comments


def is_shape_next(scan: Scanner) -> bool:
    """True when a shape, not a name, comes next."""
    return scan.peek("(") or bool(_ARRAY_LOOSE.match(scan.text, scan.pos))


def parse_shape(scan: Scanner) -> Shape:
    """The shape that comes next; dims with `<=` become bounded dims."""
    if scan.accept("("):
        elements = []
        while not scan.accept(")"):
            elements.append(parse_shape(scan))
            scan.accept(",")
        return tuple_of(*elements)
    start = scan.pos
    found = scan.match(_ARRAY) or scan.match(_ARRAY_LOOSE)
    if not found:
        scan.fail("expected a shape")
    kind, dims, layout, _ = found.groups()
    if kind in ("token", "opaque"):
        return TOKEN if kind == "token" else Shape("opaque")
    if kind not in DTYPES:
        scan.fail(f"unknown element type '{kind}'", start)
    return array(DTYPES[kind], _dims(scan, dims, start), _layout(scan, layout, dims, start))


def _dims(scan: Scanner, text: str, start: int) -> tuple[Dim, ...]:
    if not text:
        return ()
    if "/*" not in text:
        return tuple(_dim(scan, part.strip(), None, start) for part in text.split(","))
    parts = [(_COMMENT.sub("", part).strip(), _COMMENT.search(part)) for part in _PART.findall(text)]
    return tuple(_dim(scan, number, found and found[1], start) for number, found in parts)


def _dim(scan: Scanner, text: str, comment: str | None, start: int) -> Dim:
    number = text.removeprefix("<=")
    if number.isdigit() and ((comment is not None and scan.sizes) or number == text):
        return read(scan, number, comment)
    if number.isdigit():
        return dims_.bounded_only(int(number))
    return scan.fail(f"a dimension must be a number or <=number, found '{text}'", start)


def _layout(scan: Scanner, text: str | None, dims: str, start: int) -> tuple[int, ...] | None:
    """None for row-major."""
    if not text:
        return None
    order = tuple(int(part) for part in text.split(","))
    rank = _COMMENT.sub("", dims).count(",") + 1 if dims.strip() else 0
    if sorted(order) != list(range(rank)):
        scan.fail(f"layout {{{text}}} does not fit {rank} dimensions", start)
    return None if order == tuple(range(rank - 1, -1, -1)) else order


def render_dim(dim: Dim) -> str:
    """`8`, `<=8`, or its sample with its name or the expression in a comment: `101/*n*/`, `<=8/*found*/`."""
    if isinstance(dim, int):
        return str(dim)
    if dims_.is_produced(dim) and dims_.is_bounded_only(dim) and isinstance(dim.bound, int):
        return f"<={dim.bound}"
    return f"<={written(dim)}" if dims_.has_produced(dim) else written(dim)


def render_shape(shape: Shape, layout: bool = True) -> str:
    """The shape as XLA prints it; `layout` adds `{1,0}` to arrays of rank 1 and more."""
    if shape.is_tuple:
        parts = [
            f"/*index={i}*/{render_shape(e, layout)}" if i and i % 5 == 0 else render_shape(e, layout)
            for i, e in enumerate(shape.elements)
        ]
        return "(" + ", ".join(parts) + ")"
    if not shape.is_array:
        return f"{shape.kind}[]"
    text = f"{shape.dtype}[{','.join(map(render_dim, shape.dims))}]"
    if not layout or not shape.dims:
        return text
    order = shape.layout or range(shape.rank - 1, -1, -1)
    return f"{text}{{{','.join(map(str, order))}}}"
