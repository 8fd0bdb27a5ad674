"""The user's lines in HLO text of newer printers: tables of files, functions, places and frames before the module."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

_ROW = re.compile(r"(\d+) (?:\"((?:[^\"\\]|\\.)*)\"|\{(.*)\})\s*$")
_FIELD = re.compile(r"(\w+)=(\d+)")
_ESCAPE = re.compile(r"\\(.)")
_DEEPEST = 200
# Files that are a framework's wherever it is installed; XLA names them where the user's line is not known.
_PACKAGES = "tensorflow/python|tensorflow/compiler|keras/src|jax/_src|jaxlib|torch_xla"
_FRAMEWORKS = re.compile(rf"(?:^|/)(?:{_PACKAGES})/|^dummy_file_name$")


class StackTables:
    """Filled by `add` line by line; `frames` answers."""

    def __init__(self) -> None:
        self._names: defaultdict[str, dict[int, str]] = defaultdict(dict)
        self._rows: defaultdict[str, dict[int, dict[str, int]]] = defaultdict(dict)
        self._table = ""
        self._known: dict[int, tuple[dict[str, Any], ...]] = {}

    def add(self, line: str) -> None:
        """A line before the first computation: the heading of a table, a row of it, or anything else."""
        if match := _ROW.match(line):
            if match[2] is not None:
                self._names[self._table][int(match[1])] = unescaped(match[2])
            else:
                self._rows[self._table][int(match[1])] = {key: int(value) for key, value in _FIELD.findall(match[3])}
        elif line.strip().isidentifier():
            self._table = line.strip()

    def frames(self, number: int) -> tuple[dict[str, Any], ...]:
        """The stack of a `stack_frame_id`, innermost frame first, in the form of the dump's own frames: file, line,
        function, user. Empty where the tables do not have it."""
        if number not in self._known:
            self._known[number] = tuple(self._stack(number))
        return self._known[number]

    def _stack(self, number: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        seen: set[int] = set()
        while number not in seen and len(found) < _DEEPEST and number in self._rows["StackFrames"]:
            seen.add(number)
            row = self._rows["StackFrames"][number]
            place = self._rows["FileLocations"].get(row.get("file_location_id", 0), {})
            if file := self._names["FileNames"].get(place.get("file_name_id", 0), ""):
                function = self._names["FunctionNames"].get(place.get("function_name_id", 0), "")
                found.append(frame(file, place.get("line", 0), function))
            number = row.get("parent_frame_id", 1) - 1  # of the proto plus one; a root has none
        return found


def frame(file: str, line: int, function: str = "") -> dict[str, Any]:
    """A frame in the form of the dump's own."""
    return {"file": file, "line": line, "function": function, "user": not _FRAMEWORKS.search(file)}


def unescaped(text: str) -> str:
    """What a quoted string of HLO text stands for, as far as people need it: quotes and backslashes."""
    return _ESCAPE.sub(r"\1", text) if "\\" in text else text
