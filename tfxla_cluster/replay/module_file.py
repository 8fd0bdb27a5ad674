"""The module in a file: HLO text, a proto or a snapshot, as any frontend's XLA writes them, also gzipped."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import InputFileError, ParseError
from ..ir import proto, text
from ..ir.literal import Literal
from ..ir.node import Computation, Instr, Module
from ..ir.rewrite import map_computations, rebuild
from .arrays import drawn

_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class ModuleFile:
    """`arguments`, `results`: of the execution that a snapshot holds, a root tuple flattened one level; () where there
    are none. `elided`: file:line:column and name of each constant whose values the text does not have."""

    module: Module
    arguments: tuple[Literal, ...] = ()
    results: tuple[Literal, ...] = ()
    elided: tuple[str, ...] = ()


def read_module(name: str) -> Module:
    """The module in file `name`: a proto or snapshot where it ends in .pb (or .pb.gz), else HLO text; '-' is HLO text
    on standard input. What is gzipped, is opened. InputFileError, with the file's name, where it is none of these."""
    data = _bytes(name)
    return _of_proto(name, data).module if _is_proto(name) else text.parse(_text(name, data), _shown(name))


def load(name: str, seed: int = 0) -> ModuleFile:
    """As `read_module`, with all that the file holds. Elided literals get values drawn by `seed`."""
    data = _bytes(name)
    if _is_proto(name):
        return _of_proto(name, data)
    module, elided = text.parse_elided(_text(name, data), _shown(name))
    where = tuple(f"{place} %{instr.name}" for instr, place in elided.items())
    return ModuleFile(_filled(module, elided, seed) if elided else module, elided=where)


def _is_proto(name: str) -> bool:
    return name.removesuffix(".gz").endswith(".pb")


def _shown(name: str) -> str:
    return "<stdin>" if name == "-" else name


def _of_proto(name: str, data: bytes) -> ModuleFile:
    try:
        snapshot = proto.read_snapshot(data)
        if snapshot is None:
            return ModuleFile(proto.read(data))
    except ParseError as error:
        raise ParseError(error.message, error.remedy, error.where or name) from None
    return ModuleFile(snapshot.module, snapshot.arguments, snapshot.results)


def _text(name: str, data: bytes) -> str:
    try:
        return data.decode()
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


def _filled(module: Module, elided: Mapping[Instr, str], seed: int) -> Module:
    rng = np.random.default_rng(seed)
    values = {instr: instr.with_attrs(literal=drawn(instr.shape, rng)) for instr in elided}

    def fill(comp: Computation) -> Computation:
        return rebuild(comp, {i: values[i] for i in comp.instrs if i in values})

    return map_computations(module, fill)
