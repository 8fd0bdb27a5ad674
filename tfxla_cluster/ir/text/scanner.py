"""The scanner of HLO text: a position in a string, regular expressions, errors with file:line:column."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NoReturn

from ...errors import ParseError
from ..dim import DimExpr

_SPACE = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)+", re.S)
_NAME = re.compile(r"%?([A-Za-z_][\w.\-]*)")
_WORD = re.compile(r"[A-Za-z_][\w.\-]*")
_KEY = re.compile(r"([A-Za-z_][\w.\-]*)=")
_INT = re.compile(r"-?\d+")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|inf|nan)")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"', re.S)
_ESCAPE = re.compile(r"\\([0-7]{3}|x[0-9a-fA-F]{2}|.)", re.S)
_OPEN, _CLOSE = "{([", "})]"
_BRACKET = re.compile(r'[{}()\[\]]|"(?:[^"\\]|\\.)*"|/\*.*?\*/', re.S)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def unescape(text: str) -> str:
    """The string that C-style escaped `text` stands for (byte escapes are UTF-8 bytes)."""
    if "\\" not in text:
        return text

    def one(match: re.Match[str]) -> str:
        code = match.group(1)
        if code[0] == "x" and len(code) == 3:
            return chr(int(code[1:], 16))
        if len(code) == 3:
            return chr(int(code, 8))
        return _ESCAPES.get(code, code)

    plain = _ESCAPE.sub(one, text)
    try:
        return plain.encode("latin-1").decode("utf-8")
    except (UnicodeEncodeError, UnicodeDecodeError):
        return plain


class Scanner:
    """Reads tokens of `text` from `pos` on; space and comments before a token are skipped.

    `allow_elided`: an elided literal reads as zeros instead of being an error; `elided`: where such ones stood.
    `sizes`: those that the module declares; where it declares none, comments say nothing.
    """

    def __init__(self, text: str, filename: str = "", allow_elided: bool = False) -> None:
        self.text, self.filename, self.pos, self.allow_elided = text, filename, 0, allow_elided
        self.sizes: Mapping[str, DimExpr] = {}
        self.elided: list[str] = []

    def fail(self, message: str, pos: int | None = None) -> NoReturn:
        """Raise ParseError at `pos` (default: here)."""
        raise ParseError(message, where=self.where(self.pos if pos is None else pos))

    def where(self, at: int) -> str:
        """'file:line:column' of a position."""
        line = self.text.count("\n", 0, at) + 1
        column = at - (self.text.rfind("\n", 0, at) + 1) + 1
        return f"{self.filename or '<text>'}:{line}:{column}"

    def skip(self) -> None:
        match = _SPACE.match(self.text, self.pos)
        if match:
            self.pos = match.end()

    def at_end(self) -> bool:
        self.skip()
        return self.pos >= len(self.text)

    def peek(self, literal: str) -> bool:
        self.skip()
        return self.text.startswith(literal, self.pos)

    def accept(self, literal: str) -> bool:
        """Consume `literal` when it comes next."""
        self.skip()
        if self.text.startswith(literal, self.pos):
            self.pos += len(literal)
            return True
        return False

    def expect(self, literal: str, where: str = "") -> None:
        if not self.accept(literal):
            self.fail(f"expected '{literal}'{' ' + where if where else ''}, found {self._found()}")

    def _found(self) -> str:
        rest = self.text[self.pos : self.pos + 20].split("\n")[0]
        return f"'{rest}'" if self.pos < len(self.text) else "the end of the text"

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Consume what `pattern` matches next."""
        self.skip()
        found = pattern.match(self.text, self.pos)
        if found:
            self.pos = found.end()
        return found

    def _need(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        return self.match(pattern) or self.fail(f"expected {what}, found {self._found()}")

    def name(self, what: str = "a name") -> str:
        """A name with or without %."""
        return self._need(_NAME, what).group(1)

    def word(self, what: str = "a word") -> str:
        return self._need(_WORD, what).group()

    def keyword(self, word: str) -> bool:
        """Consume `word` when it is the next whole word."""
        self.skip()
        found = _WORD.match(self.text, self.pos)
        if not found or found.group() != word:
            return False
        self.pos = found.end()
        return True

    def key(self) -> str | None:
        """The name before `=`, both consumed; None when what comes next is no attribute."""
        found = self.match(_KEY)
        return found.group(1) if found else None

    def integer(self) -> int:
        return int(self._need(_INT, "an integer").group())

    def number(self) -> float:
        return float(self._need(_NUMBER, "a number").group())

    def boolean(self) -> bool:
        word = self.word("true or false")
        if word not in ("true", "false"):
            self.fail(f"expected true or false, found '{word}'")
        return word == "true"

    def string(self) -> str:
        return unescape(self._need(_STRING, "a quoted string").group(1))

    def balanced(self) -> str:
        """The raw text of a bracketed group, brackets included; strings and comments are honoured."""
        self.skip()
        start, stack = self.pos, []
        for found in _BRACKET.finditer(self.text, self.pos):
            token = found.group()
            if token in _OPEN:
                stack.append(_CLOSE[_OPEN.index(token)])
            elif token in _CLOSE:
                if not stack or stack.pop() != token:
                    self.fail(f"unbalanced '{token}'", found.start())
                if not stack:
                    self.pos = found.end()
                    return self.text[start : self.pos]
        return self.fail("a bracket is never closed", start)
