"""The assembly of an object file: made first and then assembled, so that a listing is the code that runs.

LLVM's assembler takes some tenth of the time that its code generator takes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_FUNCTION = re.compile(
    r".*?\n\t\.size\t(\S+), [^\n]*\n"
    r"(?:\t\.section\t\.rodata,[^\n]*\n\t\.p2align\t[^\n]*\n(?:\.LJTI\w+:\n(?:\t\.(?:long|quad)\t[^\n]*\n)+)+)?",
    re.DOTALL,
)
"""A function with the constants printed before it and the jump tables after it."""
_NAME = re.compile(r"[\w.$]+")
_QUOTED = str.maketrans({"\\": r"\5C", '"': r"\22", "\t": r"\09"})


def module_of(assembly: str) -> str:
    """An LLVM IR module that holds nothing but `assembly`."""
    return "".join(f'module asm "{line.translate(_QUOTED)}"\n' for line in assembly.splitlines())


def functions(assembly: str) -> dict[str, str]:
    """Symbol -> its part of LLVM's assembly output, with its constants."""
    return {found[1]: found[0] for found in _FUNCTION.finditer(assembly)}


def listing(symbol: str, parts: Mapping[str, str]) -> str:
    """The text of `symbol` and of the functions among `parts` that it calls, directly or not."""
    names, stack = {symbol: None}, [symbol]
    while stack:
        called = [name for name in _NAME.findall(parts[stack.pop()]) if name in parts and name not in names]
        names.update(dict.fromkeys(called))
        stack.extend(called)
    return "".join(parts[name] for name in names)
