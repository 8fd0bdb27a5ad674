"""The HLO instruction that each line of generated code was made for, as comments in listings."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .ir import Stmt, Store

_DEFINED = re.compile(r"\s*(%?v\d+) = ")
_NAMED = re.compile(r"%?\bv\d+\b")


def maker(stmt: Stmt) -> str:
    """The instruction that a statement was made for: of the value that it defines or stores; '' where there is none."""
    if isinstance(stmt, Store):
        return stmt.value.hint
    out = getattr(stmt, "out", None)
    outs = getattr(stmt, "outs", ())
    return out.hint if out is not None else outs[0].hint if outs else ""


def with_makers(text: str, makers: Mapping[str, str], comment: str) -> str:
    """`text` with ` ; %multiply.3` (`comment` is the sign of its language) behind each line that defines a name of
    `makers`, or stores it."""
    return "\n".join(_marked(line, makers, comment) for line in text.split("\n")) if makers else text


def _marked(line: str, makers: Mapping[str, str], comment: str) -> str:
    defined = _DEFINED.match(line)
    name = makers.get(defined[1], "") if defined is not None else makers.get(_stored(line), "")
    return f"{line}  {comment} %{name}" if name else line


def _stored(line: str) -> str:
    """The name of the value that a line stores, in LLVM IR the first, in Triton the second; '' where it stores none."""
    if "store" not in line:
        return ""
    found = _NAMED.search(line.partition(", ")[2] if "tl.store(" in line else line)
    return found[0] if found else ""
