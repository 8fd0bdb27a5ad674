"""Reading files of a dump in bounded memory, with a reason instead of an exception."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .places import BROKEN, check_expansion
from .scan import File
from .sniff import expanded

TEXT_LIMIT = 96 * 2**20
JSON_LIMIT = 64 * 2**20
# All that a report expands of compressed files, so that many small ones together are no bomb either.
_ALL_EXPANDED = 16 * 2**30
_CHUNK = 2**20
# A constant's line is cut to its beginning and its end (the metadata): literals in full are hundreds of megabytes.
_LONGEST_LITERAL = 64 * 1024
_KEPT_HEAD, _KEPT_TAIL = 20_000, 4_000


@dataclass(slots=True)
class Reader:
    """Reads files; what could not be read, or only in part, is in `problems` as (file, reason)."""

    problems: list[tuple[str, str]] = field(default_factory=list)
    limit: int = TEXT_LIMIT
    _expanded: int = 0

    def text(self, file: File | None) -> str:
        """The file's text ('' where it cannot be read): gzip is opened, protos are printed as XLA prints them, bytes
        over `limit` are left out, literals of over 64 KiB are cut."""
        if file is None:
            return ""
        if file.form:
            return self._decoded(file)
        text = b"".join(self._lines(file))
        if b"\0" in text[:4096]:
            self.problems.append((file.name, "binary data where text was expected"))
            return ""
        return text.decode("utf-8", "replace")

    def data(self, file: File) -> bytes:
        """The file's bytes, gzip opened, as far as they can be read."""
        return b"".join(self._chunks(file, self.limit))

    def _decoded(self, file: File) -> str:
        from .decoders import DECODERS  # needs protobuf, which dumps of text do without

        decode = DECODERS.get(file.form)
        if decode is None:
            self.problems.append((file.name, "is not text"))
            return ""
        data = b"".join(self._chunks(file, self.limit))
        try:
            return decode(data) if data else ""
        except ValueError as error:  # ParseError too
            self.problems.append((file.name, f"cannot be read: {error}"))
            return ""

    def _chunks(self, file: File, limit: int) -> Iterator[bytes]:
        """What is in the file, as far as it can be read and up to `limit` bytes; it says what is missing."""
        total = 0
        try:
            with file.place.open() as raw:
                stream = expanded(raw)
                is_plain = stream is raw and file.place.stored >= file.bytes
                while chunk := stream.read(_CHUNK):
                    total += len(chunk)
                    if not is_plain:
                        self._check_budget(total, len(chunk), file.place.stored)
                    if total > limit:
                        yield chunk[: limit - total]
                        self.problems.append((file.name, f"only its first {limit:,} bytes are shown"))
                        return
                    yield chunk
        except BROKEN as error:
            self.problems.append((file.name, f"cannot be read{' to its end' if total else ''}: {error}"))
        else:
            if not total:
                self.problems.append((file.name, "empty"))

    def _check_budget(self, total: int, more: int, stored: int) -> None:
        check_expansion(total, stored)
        self._expanded += more
        if self._expanded > _ALL_EXPANDED:
            raise OSError(f"the compressed files expand to more than {_ALL_EXPANDED:,} bytes in all: not read further")

    def _lines(self, file: File) -> Iterator[bytes]:
        """The lines of a text with overlong literals cut; up to `limit` bytes of what is left."""
        kept, rest = 0, bytearray()
        for chunk in self._chunks(file, max(self.limit, 64 * self.limit)):
            rest += chunk
            end = rest.rfind(b"\n") + 1
            if not end:
                if len(rest) > 4 * _LONGEST_LITERAL:
                    rest = bytearray(_shortened(bytes(rest)))
                if kept + len(rest) <= self.limit:
                    continue
                end = len(rest)
            part = _cut(bytes(rest[:end]))
            del rest[:end]
            if kept + len(part) > self.limit:
                yield part[: self.limit - kept]
                self.problems.append((file.name, f"only its first {self.limit:,} bytes are shown"))
                return
            kept += len(part)
            yield part
        yield _cut(bytes(rest))[: max(self.limit - kept, 0)]

    def json(self, file: File | None, wanted: type) -> Any:
        """The file's JSON value where it is a `wanted` (list or dict), else an empty one."""
        if file is None:
            return wanted()
        text = b"".join(self._chunks(file, JSON_LIMIT)).decode("utf-8", "replace")
        if not text:
            return wanted()
        try:
            value = _LENIENT.decode(text)
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
                value = _LENIENT.decode(line)
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


def _integer(text: str) -> int | None:
    """None for one that no number of the report's scripts holds."""
    return int(text) if len(text) < 300 else None


def _float(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


# NaN and infinities are no JSON, and what the report's scripts are told must be: they become null, 'unknown'.
_LENIENT = json.JSONDecoder(parse_constant=lambda name: None, parse_float=_float, parse_int=_integer)


def _cut(text: bytes) -> bytes:
    """Lines with overlong literals cut."""
    if len(text) <= _LONGEST_LITERAL:
        return text
    lines = text.split(b"\n")
    if max(map(len, lines)) <= _LONGEST_LITERAL:
        return text
    return b"\n".join(map(_shortened, lines))


def _shortened(line: bytes) -> bytes:
    if len(line) <= _LONGEST_LITERAL or b" constant(" not in line[:_KEPT_TAIL]:
        return line
    return line[:_KEPT_HEAD] + b" ...}), ... " + line[-_KEPT_TAIL:]
