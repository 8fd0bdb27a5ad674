"""Reading the module that a command names."""

from __future__ import annotations

import gzip
import sys
import zlib
from pathlib import Path

from ..errors import InputFileError, ParseError
from ..ir import proto, text
from ..ir.node import Module

_GZIP = b"\x1f\x8b"


def read_module(name: str) -> Module:
    """The module in file `name`: a proto where it ends in .pb (or .pb.gz), else HLO text; '-' is HLO text on
    standard input. What is gzipped, is opened. InputFileError, with the file's name, where it is none of these."""
    data = _bytes(name)
    if name.removesuffix(".gz").endswith(".pb"):
        try:
            return proto.read(data)
        except ParseError as error:
            raise ParseError(error.message, error.remedy, error.where or name) from None
    try:
        return text.parse(data.decode(), "<stdin>" if name == "-" else name)
    except UnicodeDecodeError:
        raise InputFileError(f"{name} is neither HLO text nor named .pb", "Protos need a name ending in .pb") from None


def _bytes(name: str) -> bytes:
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise InputFileError(f"cannot read {name}: {getattr(error, 'strerror', error)}") from None
    if not data.startswith(_GZIP):
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise InputFileError(f"{name} is not whole: {error}") from None
