"""The stack frame tables of newer HLO text: which file and line a `stack_frame_id` means."""

from __future__ import annotations

import re

from .scanner import Scanner

TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")
_ID = re.compile(r"\d+")
_FIELD = re.compile(r"(\w+)=(\d+)")


class Frames:
    """Filled by `read`, table by table; `where` answers."""

    def __init__(self) -> None:
        self._files: dict[int, str] = {}
        self._rows: dict[str, dict[int, dict[str, int]]] = {table: {} for table in TABLES}

    def read(self, scan: Scanner, table: str) -> None:
        """Read the rows of `table`, whose heading was just consumed."""
        while found := scan.match(_ID):
            number = int(found.group())
            if scan.peek('"'):
                name = scan.string()
                if table == "FileNames":
                    self._files[number] = name
            else:
                self._rows[table][number] = {k: int(v) for k, v in _FIELD.findall(scan.balanced())}

    def where(self, frame: int) -> tuple[str, int]:
        """File and line of a stack frame; ('', 0) when it is not in the tables."""
        location = self._rows["StackFrames"].get(frame, {}).get("file_location_id", 0)
        row = self._rows["FileLocations"].get(location, {})
        return self._files.get(row.get("file_name_id", 0), ""), row.get("line", 0)
