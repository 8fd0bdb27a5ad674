"""What a file is by its content, where its name says nothing: renamed, attached to an issue, a log."""

from __future__ import annotations

import gzip
import re
from typing import IO, cast

from .places import BROKEN, Found

_HEAD = 64 * 1024
_CHUNK = 2**20
# Kind -> what its text begins with, or has near its beginning. The first match wins.
_SIGNS: tuple[tuple[str, re.Pattern[bytes]], ...] = (
    ("after", re.compile(rb"^\s*HloModule [^\n]{0,4000}?is_scheduled=true", re.MULTILINE)),
    ("before", re.compile(rb"^\s*HloModule \S", re.MULTILINE)),
    ("buffers", re.compile(rb"\ABufferAssignment:|^allocation \d+: size \d+, ", re.MULTILINE)),
    ("ptx", re.compile(rb"^\.version \d.*\n(?:.*\n){0,3}\.target sm_", re.MULTILINE)),
    ("llvm", re.compile(rb"\A; ModuleID = |^target (?:datalayout|triple) = ", re.MULTILINE)),
    ("frontend_mlir", re.compile(rb"^\s*module (?:@|attributes |\{)", re.MULTILINE)),
    ("autotune_all", re.compile(rb"\Aversion: \d+\s+results \{")),
    ("graph_other", re.compile(rb"\Anode \{\s+name: ")),
)
_BEGIN = b"*** Begin "


# Endings of files that are worth opening: whoever names a folder of anything gets an answer at once.
_ENDINGS = frozenset(
    [
        "txt",
        "log",
        "out",
        "err",
        "stdout",
        "stderr",
        "hlo",
        "ll",
        "ptx",
        "mlir",
        "stablehlo",
        "pb",
        "bin",
        "pbtxt",
        "textproto",
        "buffers",
        "gz",
    ]
)


def sniff(found: Found) -> str:
    """The name of its kind; 'log' for one with marks of dumped files, 'unknown'."""
    ending = found.name.rpartition("/")[2].rpartition(".")[2]
    if "." in found.name and ending not in _ENDINGS:
        return "unknown"
    try:
        with found.place.open() as raw:
            stream = expanded(raw)
            head = stream.read(_HEAD)
            if b"\0" in head[:4096]:
                return _proto(found)
            if _BEGIN in head or _has_marks(stream, head[-len(_BEGIN) :]):
                return "log"
    except BROKEN:
        return "unknown"
    return next((kind for kind, sign in _SIGNS if sign.search(head)), "unknown")


def expanded(raw: IO[bytes]) -> IO[bytes]:
    """A stream of what is in a file, whether it is compressed by gzip or not (its name may not say so)."""
    compressed = raw.read(2) == b"\x1f\x8b"
    raw.seek(0)
    return cast("IO[bytes]", gzip.GzipFile(fileobj=raw)) if compressed else raw


def _has_marks(stream: IO[bytes], last: bytes) -> bool:
    """Whether a log's marks stand in the rest of a text."""
    while chunk := stream.read(_CHUNK):
        if _BEGIN in last + chunk:
            return True
        last = chunk[-len(_BEGIN) :]
    return False


def _proto(found: Found) -> str:
    if not found.name.endswith((".pb", ".pb.gz", ".bin", ".hlo")) or found.bytes > 256 * 2**20:
        return "unknown"
    from .decoders import scheduled  # needs protobuf

    with found.place.open() as raw:
        known = scheduled(expanded(raw).read(256 * 2**20))
    return "unknown" if known is None else "after_proto" if known else "before_proto"
