"""Reading files of a dump in bounded memory, with a reason instead of an exception."""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import dataclass, field
from typing import Any

from .scan import File

TEXT_LIMIT = 256 * 1024 * 1024


@dataclass(slots=True)
class Reader:
    """Reads files; what could not be read, or only in part, is in `problems` as (file, reason)."""

    problems: list[tuple[str, str]] = field(default_factory=list)
    limit: int = TEXT_LIMIT

    def text(self, file: File | None) -> str:
        """The file's text ('' where it cannot be read); gzip is opened, bytes over `limit` are left out."""
        if file is None:
            return ""
        try:
            data = self._bytes(file)
        except (OSError, EOFError, zlib.error) as error:
            self.problems.append((file.name, f"cannot be read: {error}"))
            return ""
        if not data:
            self.problems.append((file.name, "empty"))
        if b"\0" in data[:4096]:
            self.problems.append((file.name, "binary data where text was expected"))
            return ""
        return data.decode("utf-8", "replace")

    def _bytes(self, file: File) -> bytes:
        opened = gzip.open if file.name.endswith(".gz") else open
        with opened(file.path, "rb") as stream:
            data = stream.read(self.limit + 1)
        if len(data) > self.limit:
            self.problems.append((file.name, f"only its first {self.limit:,} bytes are shown"))
            return bytes(data[: self.limit])
        return bytes(data)

    def json(self, file: File | None, wanted: type) -> Any:
        """The file's JSON value where it is a `wanted` (list or dict), else an empty one."""
        text = self.text(file)
        if file is None or not text:
            return wanted()
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            self.problems.append((file.name, f"no JSON: {error}"))
            return wanted()
        if not isinstance(value, wanted):
            self.problems.append((file.name, f"JSON, but no {wanted.__name__}"))
            return wanted()
        return value

    def json_lines(self, file: File) -> list[dict[str, Any]]:
        """The objects of a JSON-lines file; lines that are none are counted in one problem."""
        records, bad = [], 0
        for line in self.text(file).splitlines():
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                value = None
            if isinstance(value, dict):
                records.append(value)
            elif line.strip():
                bad += 1
        if bad:
            self.problems.append((file.name, f"{bad} lines that are no record (cut off by a kill?)"))
        return records


def rows(value: list[Any]) -> list[dict[str, Any]]:
    """The objects of a JSON list; anything else in it is dropped."""
    return [item for item in value if isinstance(item, dict)]
