"""Literals in HLO text: `{ { 1, nan }, { -inf, -0.0 } }`, `(1.5, {1, 2})`, `{...}`."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ..dtype import DType
from ..literal import Literal, nan_text, parse_nan
from ..shape import Shape
from .scanner import Scanner

ELIDED = "{...}"
ELIDE_ABOVE = 10
_COMMENT = re.compile(r"/\*.*?\*/", re.S)
_BRACE = re.compile(r"[{}]")
_COMPLEX = re.compile(r"\(([^(),]*),([^(),]*)\)")
_WORDS = {"true": "1", "false": "0"}


def parse_literal(scan: Scanner, shape: Shape) -> Literal:
    """The literal of `shape` that comes next in `scan`, up to what follows it."""
    if shape.is_tuple:
        scan.expect("(", "of a tuple literal")
        parts = []
        for i, element in enumerate(shape.elements):
            if i:
                scan.expect(",")
            parts.append(parse_literal(scan, element))
        scan.expect(")")
        return tuple(parts)
    if not shape.is_array or shape.dtype is None:
        scan.fail(f"a {shape.kind} has no literal")
    start = scan.pos
    raw = scan.balanced() if scan.peek("{") or scan.peek("(") else _scalar_text(scan)
    if "..." in raw and scan.allow_elided:
        scan.elided.append(scan.where(start))
        return np.zeros(shape.sample_dims, shape.dtype.numpy)
    if "..." in raw:
        scan.fail("the literal was elided ({...}): its values are not in the text; dump with all literals", start)
    values = _values(scan, raw, shape.dtype, start)
    if _depth(raw) > shape.rank:
        scan.fail(f"the braces of the literal nest {_depth(raw)} deep, {shape} has rank {shape.rank}", start)
    count = int(np.prod(shape.sample_dims))
    if values.size != count:
        scan.fail(f"the literal has {values.size} elements, {shape} has {count}", start)
    return values.reshape(shape.sample_dims)


def _scalar_text(scan: Scanner) -> str:
    found = scan.match(re.compile(r"[^,){}\s][^,){}\s(]*(?:\(0x[0-9a-fA-F]+\))?"))
    return found.group() if found else scan.fail("expected a literal")


def _depth(raw: str) -> int:
    """How deep braces nest."""
    depth = most = 0
    for found in _BRACE.finditer(_COMMENT.sub("", raw)):
        depth += 1 if found.group() == "{" else -1
        most = max(most, depth)
    return most


def _values(scan: Scanner, raw: str, dtype: DType, start: int) -> np.ndarray[Any, Any]:
    flat = _COMMENT.sub("", raw)
    try:
        if dtype.kind == "complex":
            pairs = _COMPLEX.findall(flat)
            part = np.float32 if dtype.bits == 64 else np.float64
            return np.array([float(x) for pair in pairs for x in pair], part).view(dtype.numpy)
        words = flat.replace("{", " ").replace("}", " ").replace(",", " ").split()
        return _convert(words, dtype)
    except (ValueError, OverflowError) as error:
        scan.fail(f"bad {dtype} literal: {error}", start)


def _convert(words: list[str], dtype: DType) -> np.ndarray[Any, Any]:
    if dtype.kind == "pred":
        return np.array([bool(int(_WORDS.get(w, w))) for w in words], np.bool_)
    if dtype.is_integer:
        wide = np.array([int(w) for w in words], np.uint64 if dtype.name == "u64" else np.int64)
        narrow = wide.astype(dtype.numpy)
        if dtype.bits < 64 and not np.array_equal(narrow.astype(np.int64), wide):
            raise ValueError("a value is out of range")
        return narrow
    if any("(" in w for w in words):
        return np.array([parse_nan(w, dtype) if "(" in w else dtype.numpy.type(float(w)) for w in words], dtype.numpy)
    with np.errstate(over="ignore"):
        return _narrow(np.array(words, dtype=np.float64), words, dtype)


def _narrow(wide: np.ndarray[Any, Any], words: list[str], dtype: DType) -> np.ndarray[Any, Any]:
    out = wide.astype(dtype.numpy)
    for i in np.flatnonzero(np.isnan(wide)):
        if words[i].startswith("-"):
            out[i] = np.copysign(out[i], dtype.numpy.type(-1)) if dtype.bits >= 16 else out[i]
    return out


def render_literal(value: Literal, shape: Shape, elide: bool = False) -> str:
    """The literal as XLA's parser reads it back, bit for bit. `elide`: `{...}` above 10 elements."""
    if isinstance(value, tuple):
        return "(" + ", ".join(render_literal(v, s, elide) for v, s in zip(value, shape.elements)) + ")"
    if elide and value.size > ELIDE_ABOVE:
        return ELIDED
    words = _words(value, shape.element_type)
    if value.ndim == 0:
        return words[0]
    return _nested(np.array(words, object).reshape(value.shape))


def _nested(words: np.ndarray[Any, Any]) -> str:
    if words.ndim == 1:
        return "{" + ", ".join(words) + "}"
    return "{ " + ", ".join(map(_nested, words)) + " }"


def _words(value: np.ndarray[Any, Any], dtype: DType) -> list[str]:
    flat = value.reshape(-1)
    if dtype.kind == "pred":
        return ["1" if v else "0" for v in flat]
    if dtype.is_integer:
        return [str(int(v)) for v in flat]
    if dtype.kind == "complex":
        return [f"({_float(v.real, dtype)}, {_float(v.imag, dtype)})" for v in flat]
    return [_float(v, dtype) for v in flat]


def _float(value: Any, dtype: DType) -> str:
    """Shortest text that reads back to the same bits; `-0.0`, because XLA reads `-0` as an integer."""
    if value != value:
        return nan_text(value, dtype)
    if dtype.name in ("f64", "c128"):
        text = repr(float(value))
    elif dtype.name in ("f32", "c64"):
        text = str(np.float32(value))
    else:
        text = repr(float(value))
    return text.removesuffix(".0") if text.endswith(".0") and text != "-0.0" else text
