"""The records that the native ops' machine code reads, packed from Python descriptions.

Layouts are stated in `native_builder`. A packed record keeps what it points at alive.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...errors import UnsupportedError
from ...held import Held
from ...ir.dim import Dim, DimExpr
from ...ir.guard import Guard
from .builder import (
    DIM_OPERATORS,
    ENTRY_WORDS,
    GUARD_KINDS,
    HOST_DEVICE,
    MAX_RANK,
    PROGRAM_WORDS,
    STACK_SLOTS,
    entry_word,
    program_word,
)

UNREAD = -1


@dataclass(frozen=True, slots=True)
class Output:
    """Where one op output comes from: the executable's result `result` (allocated with TF `dtype` number,
    `itemsize` bytes an element and `dims`), or, when `passes` >= 0, op input `passes` itself. `produced`: `dims`
    are known only after the run."""

    dtype: int
    itemsize: int = 0
    dims: tuple[Dim, ...] = ()
    result: int = -1
    passes: int = -1
    produced: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """One executable and when it applies.

    guards: about the op inputs, in the order they are checked. record, execute: the runtime's record and its
    entry point `int32 execute(record, inputs, outputs, sizes, launch)`; record 0 says "not compilable for such inputs".
    parameters: which op input is the executable's k-th parameter (UNREAD: one it never reads); handed: its last ones,
    the same at each call. outputs: one per op output. results: how many results the executable writes. sizes: (symbol,
    op input, axis) of each size the executable takes, or (symbol, UNREAD, bound) of one it produces. device: the GPU
    that it is for, by CUDA's number, HOST_DEVICE for the CPU. keep: what must stay alive while the entry is in use.
    """

    guards: tuple[Guard, ...]
    record: int = 0
    execute: int = 0
    parameters: tuple[int, ...] = ()
    outputs: tuple[Output, ...] = ()
    results: int = 0
    sizes: tuple[tuple[str, int, Dim], ...] = ()
    device: int = HOST_DEVICE
    handed: tuple[Held, ...] = field(default=(), compare=False)
    keep: Any = field(default=None, compare=False)


class Words:
    """An array of 8-byte words at a fixed `address`; `keep` lives as long as it does."""

    def __init__(self, values: Sequence[int], keep: Any = None) -> None:
        self.array = (ctypes.c_int64 * max(len(values), 1))(*values)
        self.address = ctypes.addressof(self.array)
        self.keep = keep

    def __getitem__(self, index: int) -> int:
        return int(self.array[index])

    def __setitem__(self, index: int, value: int) -> None:
        self.array[index] = value


def program_record(serial: int, inputs: int, outputs: int) -> Words:
    """A program without entries."""
    words = Words([0] * len(PROGRAM_WORDS))
    words[program_word("serial")] = serial
    words[program_word("inputs")] = inputs
    words[program_word("outputs")] = outputs
    publish(words, [])
    return words


def publish(program: Words, entries: Sequence[Words]) -> None:
    """Make `entries` what the program looks through, first to last; the old list stays readable until
    the caller drops it (`Words.keep` of the program holds the new one)."""
    fresh = Words([len(entries), *(e.address for e in entries)], keep=list(entries))
    program.keep, program[program_word("list")] = (fresh, program.keep), fresh.address
    program.keep = fresh


def pack(entry: Entry) -> Words:
    """The entry's record; UnsupportedError where it would not hold the entry."""
    symbols = {name: k for k, (name, _, _) in enumerate(entry.sizes)}
    outputs: list[int] = []
    for out in entry.outputs:
        if len(out.dims) > MAX_RANK:
            raise UnsupportedError(f"a result of rank {len(out.dims)}, where at most {MAX_RANK} dimensions are written")
        outputs += (out.passes, out.result, out.dtype, out.itemsize, int(out.produced), len(out.dims))
        for dim in out.dims:
            outputs += _program(dim, symbols)
    sources = [*((source, 0) for source in entry.parameters), *((UNREAD, held.address) for held in entry.handed)]
    parts = {
        "guards": guard_rows(entry.guards),
        "parameters": Words([word for source in sources for word in source]),
        "outputs": Words(outputs),
        "sizes": _size_rows(entry.sizes, symbols),
    }
    words = Words([0] * len(ENTRY_WORDS), keep=(entry, parts))
    for name, part in parts.items():
        words[entry_word(name)] = part.address
    words[entry_word("record")], words[entry_word("execute")] = entry.record, entry.execute
    words[entry_word("guard_count")] = len(entry.guards)
    words[entry_word("parameter_count")] = len(sources)
    words[entry_word("result_count")] = entry.results
    words[entry_word("size_count")] = len(entry.sizes)
    words[entry_word("device")] = entry.device
    return words


def guard_rows(guards: Sequence[Guard]) -> Words:
    """A row of GUARD_WORDS for each guard. ValueError for one about a dim of an input whose rank is not known."""
    rows: list[int] = []
    values: list[Any] = []
    ranked: set[int] = set()
    for guard in guards:
        number, axis = guard.place
        if guard.kind == "rank":
            ranked.add(number)
        first, second = _operands(guard, values)
        inputs = (number, first) if guard.kind == "same" else (number,)
        if axis >= 0 and not ranked.issuperset(inputs):
            raise ValueError(f"guard {guard} comes before the rank is known")
        rows += (GUARD_KINDS.index(guard.kind), number, axis, first, second)
    return Words(rows, values)


def _operands(guard: Guard, values: list[Any]) -> tuple[int, int]:
    """The last two words of a guard's row; what they point at goes to `values`."""
    wanted = guard.wanted
    if isinstance(wanted, bytes):
        values.append(ctypes.create_string_buffer(wanted, max(len(wanted), 1)))
        return len(wanted), ctypes.addressof(values[-1])
    if isinstance(wanted, tuple):
        return wanted
    assert isinstance(wanted, int), guard
    return wanted, 0


def _size_rows(sizes: Sequence[tuple[str, int, Dim]], symbols: dict[str, int]) -> Words:
    rows: list[int] = []
    programs: list[Words] = []
    for _, source, axis in sizes:
        if source != UNREAD and isinstance(axis, int):
            rows += (source, axis)
        else:
            programs.append(Words(_program(axis, symbols)))
            rows += (UNREAD, programs[-1].address)
    return Words(rows, programs)


def _program(dim: Dim, symbols: dict[str, int]) -> list[int]:
    """The words of a dim's program."""
    code = postfix(dim, symbols)
    return [len(code), *(word for pair in code for word in pair)]


def postfix(dim: Dim, symbols: dict[str, int]) -> list[tuple[int, int]]:
    """(operator, operand) pairs that compute `dim` from the sizes numbered by `symbols`.

    Raises KeyError for a size that no input gives, UnsupportedError where the machine code's stack is too small.
    """
    code: list[tuple[int, int]] = []
    if _append(dim, symbols, code) > STACK_SLOTS:
        problem = f"a size of a result keeps more than {STACK_SLOTS} others waiting while it is computed"
        raise UnsupportedError(problem, "Split the function where that size comes to be")
    return code


def _append(dim: Dim, symbols: dict[str, int], code: list[tuple[int, int]]) -> int:
    """Writes the pairs behind `code`; how many values stand on the stack at most."""
    if not isinstance(dim, DimExpr):
        code.append((DIM_OPERATORS.index("const"), dim))
        return 1
    if dim.is_size:
        code.append((DIM_OPERATORS.index("size"), symbols[dim.name]))
        return 1
    left, right = dim.operands
    deepest = max(_append(left, symbols, code), 1 + _append(right, symbols, code))
    code.append((DIM_OPERATORS.index(dim.op), 0))
    return deepest
