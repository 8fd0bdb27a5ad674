"""Attribute values in HLO text: a reader and a writer for each kind of `attributes.KINDS`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from .. import dim as dims_
from ..dim import Dim
from ..node import Computation, ConvDims, WindowDim
from ..size_values import sampled, window_sizes, with_window_sizes
from .scanner import Scanner
from .sizes import beside, read, read_beside, written

_PAIR = re.compile(r"(-?\d+)_(-?\d+)(?:_(-?\d+))?")
_WINDOW_WORD = re.compile(r"-?\d+(?:_-?\d+)?(?:x-?\d+(?:_-?\d+)?)*")
_LABELS = re.compile(r"([0-9bf?]+)_([0-9io?]+)->([0-9bf?]+)")
_BESIDE = r"\s*(?:/\*(.*?)\*/)?\s*"
_NUMBER = re.compile(rf"\s*(-?\d+){_BESIDE}", re.S)
_PART = re.compile(r"(?:/\*.*?\*/|[^,/])+", re.S)  # between the commas outside comments
_SLICE = re.compile(rf"\[(-?\d+){_BESIDE}:(-?\d+){_BESIDE}(?::(-?\d+))?\]", re.S)
_VALUE = re.compile(r'[^\s,{}()"]+')
_COMMENT = re.compile(r"/\*.*?\*/", re.S)
_GROUPS = re.compile(r"\{([^{}]*)\}")
_IOTA = re.compile(r"\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")


# --- readers: (scan, computations by name) -> value -------------------------------------------


def _ints(scan: Scanner, _: Mapping[str, Computation]) -> tuple[Dim, ...]:
    start = scan.pos
    if not scan.peek("{"):
        return (scan.integer(),)
    raw = scan.balanced()[1:-1]
    found = [_NUMBER.fullmatch(part) for part in _PART.findall(raw)] if raw.strip() else []
    return tuple(
        read(scan, *row.groups()) if row else scan.fail("expected a list of integers in braces", start) for row in found
    )


def _slice(scan: Scanner, _: Mapping[str, Computation]) -> tuple[tuple[Dim, Dim, int], ...]:
    rows = _SLICE.findall(scan.balanced())
    return tuple((read(scan, a, x or None), read(scan, b, y or None), int(c or 1)) for a, x, b, y, c in rows)


def _padding(scan: Scanner, _: Mapping[str, Computation]) -> tuple[tuple[Dim, Dim, int], ...]:
    rows = [_pad(scan)]
    while scan.text.startswith("x", scan.pos):
        scan.pos += 1
        rows.append(_pad(scan))
    ends = iter(read_beside(scan, [end for low, high, _ in rows for end in (low, high)]))
    return tuple((next(ends), next(ends), interior) for _, _, interior in rows)


def _pad(scan: Scanner) -> tuple[int, int, int]:
    found = scan.match(_PAIR) or scan.fail("expected padding such as 0_1 or 0_1_2")
    return int(found[1]), int(found[2]), int(found[3] or 0)


def _window(scan: Scanner, _: Mapping[str, Computation]) -> tuple[WindowDim, ...]:
    scan.expect("{", "before a window")
    fields: dict[str, list[str]] = {}
    while not scan.accept("}"):
        key = scan.key() or scan.fail("expected a field of a window")
        word = scan.match(_WINDOW_WORD) or scan.fail(f"bad value of window field '{key}'")
        fields[key] = word.group().split("x")
    known = {"size", "stride", "pad", "lhs_dilate", "rhs_dilate", "rhs_reversal"}
    if set(fields) - known:
        scan.fail(f"unknown window field '{min(set(fields) - known)}'")
    sizes = fields.get("size", [])
    if any(len(column) != len(sizes) for column in fields.values()):
        scan.fail("the fields of a window differ in length")
    dims = [_window_dim({k: v[i] for k, v in fields.items()}) for i in range(len(sizes))]
    numbers = iter(read_beside(scan, [cast("int", n) for w in dims for n in window_sizes(w)]))
    return tuple(with_window_sizes(w, (next(numbers), next(numbers), next(numbers))) for w in dims)


def _window_dim(row: dict[str, str]) -> WindowDim:
    low, _, high = row.get("pad", "0_0").partition("_")
    return WindowDim(
        int(row["size"]),
        int(row.get("stride", 1)),
        int(low),
        int(high or low),
        int(row.get("lhs_dilate", 1)),
        int(row.get("rhs_dilate", 1)),
        row.get("rhs_reversal", "0") != "0",
    )


def _dim_labels(scan: Scanner, _: Mapping[str, Computation]) -> ConvDims:
    found = scan.match(_LABELS) or scan.fail("expected dim_labels such as b01f_01io->b01f")
    lhs, rhs, out = found.groups()
    spatial = [str(i) for i in range(len(lhs) - 2)]
    try:
        return ConvDims(
            lhs.index("b"),
            lhs.index("f"),
            tuple(map(lhs.index, spatial)),
            rhs.index("i"),
            rhs.index("o"),
            tuple(map(rhs.index, spatial)),
            out.index("b"),
            out.index("f"),
            tuple(map(out.index, spatial)),
        )
    except ValueError:
        scan.fail(f"dim_labels {found.group()} lack a dimension", found.start())


def _words(scan: Scanner, _: Mapping[str, Computation]) -> tuple[str, ...]:
    return tuple(part.strip() for part in scan.balanced()[1:-1].split(",") if part.strip())


def _groups(scan: Scanner, _: Mapping[str, Computation]) -> Any:
    """`{{0,1},{2,3}}` as tuples; the iota form `[2,2]<=[4]T(1,0)` as its text."""
    if not scan.peek("{"):
        found = scan.match(_IOTA) or scan.fail("expected replica groups")
        return found.group()
    raw = scan.balanced()[1:-1]
    return tuple(tuple(int(x) for x in g.split(",")) if g.strip() else () for g in _GROUPS.findall(raw))


def _computation(scan: Scanner, known: Mapping[str, Computation]) -> Computation:
    scan.skip()
    start = scan.pos
    name = scan.name("the name of a computation")
    return known.get(name) or scan.fail(f"computation '{name}' is not defined before its use", start)


def _computations(scan: Scanner, known: Mapping[str, Computation]) -> tuple[Computation, ...]:
    scan.expect("{")
    found = []
    while not scan.accept("}"):
        found.append(_computation(scan, known))
        scan.accept(",")
    return tuple(found)


def _strings(scan: Scanner, _: Mapping[str, Computation]) -> tuple[tuple[str, str], ...]:
    """`{key="value", ...}` as pairs in the order of keys."""
    scan.expect("{")
    found: dict[str, str] = {}
    while not scan.accept("}"):
        key = scan.key() or scan.fail("expected key=")
        found[key] = scan.string() if scan.peek('"') else scan.balanced()
        scan.accept(",")
    return tuple(sorted(found.items()))


def raw_value(scan: Scanner) -> str:
    """The raw text of any value: a bracketed group, a quoted string, or one word."""
    if scan.peek("{") or scan.peek("("):
        return scan.balanced()
    if scan.peek('"'):
        start = scan.pos
        scan.string()
        return scan.text[start : scan.pos]
    found = scan.match(_VALUE) or scan.fail("expected a value")
    return found.group()


def _config(scan: Scanner, _: Mapping[str, Computation]) -> str:
    """A backend_config: what its quotes hold, or its braces with them."""
    return scan.string() if scan.peek('"') else raw_value(scan)


READERS: dict[str, Callable[[Scanner, Mapping[str, Computation]], Any]] = {
    "int": lambda scan, _: scan.integer(),
    "bool": lambda scan, _: scan.boolean(),
    "float": lambda scan, _: scan.number(),
    "word": lambda scan, _: scan.word(),
    "string": lambda scan, _: scan.string(),
    "raw": lambda scan, _: raw_value(scan),
    "config": _config,
    "ints": _ints,
    "slice": _slice,
    "padding": _padding,
    "window": _window,
    "dim_labels": _dim_labels,
    "words": _words,
    "groups": _groups,
    "strings": _strings,
    "computation": _computation,
    "computations": _computations,
}


# --- writers: value -> text --------------------------------------------------------------------


def _braces(values: Any) -> str:
    return "{" + ",".join(map(written, values)) + "}"


def quote(text: str) -> str:
    """`text` in quotes, escaped as C does."""
    plain = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return '"' + plain.replace("\r", "\\r") + '"'


def _write_slice(value: Any) -> str:
    parts = [f"[{written(a)}:{written(b)}{'' if c == 1 else f':{c}'}]" for a, b, c in value]
    return "{" + ", ".join(parts) + "}"


def _write_padding(value: Any) -> str:
    text = "x".join(f"{dims_.sample(a)}_{dims_.sample(b)}{f'_{c}' if c else ''}" for a, b, c in value)
    return text + beside([end for row in value for end in row[:2]])


def _write_window(value: tuple[WindowDim, ...]) -> str:
    def column(key: str, cells: list[str], default: str) -> str:
        return "" if all(c == default for c in cells) else f" {key}={'x'.join(cells)}"

    named, value = value, sampled(value)
    text = "size=" + "x".join(str(w.size) for w in value) if value else ""
    text += column("stride", [str(w.stride) for w in value], "1")
    text += column("pad", [f"{w.pad_low}_{w.pad_high}" for w in value], "0_0")
    text += column("lhs_dilate", [str(w.base_dilation) for w in value], "1")
    text += column("rhs_dilate", [str(w.window_dilation) for w in value], "1")
    text += column("rhs_reversal", [str(int(w.reversal)) for w in value], "0")
    return "{" + text + "}" + beside([dim for w in named for dim in window_sizes(w)])


def _labels(rank: int, marks: dict[int, str]) -> str:
    return "".join(marks[i] for i in range(rank))


def _write_dim_labels(value: ConvDims) -> str:
    rank = len(value.lhs_spatial) + 2
    lhs = {value.lhs_batch: "b", value.lhs_feature: "f", **{d: str(i) for i, d in enumerate(value.lhs_spatial)}}
    rhs = {value.rhs_input: "i", value.rhs_output: "o", **{d: str(i) for i, d in enumerate(value.rhs_spatial)}}
    out = {value.out_batch: "b", value.out_feature: "f", **{d: str(i) for i, d in enumerate(value.out_spatial)}}
    return f"{_labels(rank, lhs)}_{_labels(rank, rhs)}->{_labels(rank, out)}"


def _write_groups(value: Any) -> str:
    return value if isinstance(value, str) else "{" + ",".join(map(_braces, value)) + "}"


def _write_config(value: str) -> str:
    return value if value[:1] == "{" and value[-1:] == "}" else quote(value)


WRITERS: dict[str, Callable[[Any], str]] = {
    "int": written,
    "bool": lambda value: "true" if value else "false",
    "float": lambda value: repr(float(value)),
    "word": str,
    "string": quote,
    "raw": str,
    "config": _write_config,
    "ints": _braces,
    "slice": _write_slice,
    "padding": _write_padding,
    "window": _write_window,
    "dim_labels": _write_dim_labels,
    "words": lambda value: "{" + ",".join(value) + "}",
    "groups": _write_groups,
    "strings": lambda value: "{" + ",".join(f"{k}={quote(v)}" for k, v in value) + "}",
    "computation": lambda value: f"%{value.name}",
    "computations": lambda value: "{" + ", ".join(f"%{c.name}" for c in value) + "}",
}
