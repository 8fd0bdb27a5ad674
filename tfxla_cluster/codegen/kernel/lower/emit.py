"""Kernel IR for one element of a fused computation: follows the index maps, each access once a block."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ....errors import UnsupportedError
from ....fusion.index import Access, Computed, Cond, Digit, Seq, Splitter, flatten
from ....fusion.moves import concat_conds, pad_source, sources, update_source
from ....fusion.program import Program
from ....ir.dim import Dim, product
from ....ir.dtype import DTYPES, S64, DType
from ....ir.node import Instr
from ..builder import KernelBuilder
from ..ir import Buffer, Var
from .inline import elementwise
from .space import all_of

_SPLITTER = Splitter()


class Emitter:
    """Emits the value of accesses with the loop variables bound at the moment.

    `bind` gives a group of digits its value; to bind it anew in the same block, first change `version`
    (values are remembered by access and version until their block ends). `results` holds what a reduce
    gave for the current row, `replaced` accesses that are read from scratch instead of computed, `facts`
    says of a condition whether it holds (None: not known) for all that is emitted until it changes.
    `streamed`: the numbers of the outputs that are written past the caches.
    """

    def __init__(self, b: KernelBuilder, program: Program, buffers: Mapping[Instr, Buffer]) -> None:
        self.b = b
        self.program = program
        self.buffers = buffers
        self.results: dict[Instr, Callable[[], tuple[Var, ...]]] = {}
        self.replaced: dict[Access, Callable[[], Var]] = {}
        self.streamed: frozenset[int] = frozenset()
        self.facts: Callable[[Cond], bool | None] | None = None
        self.version = 0
        self._bound: dict[Digit, tuple[tuple[Digit, ...], Var]] = {}
        self._run: tuple[Seq, Var] | None = None

    def bind(self, group: tuple[Digit, ...], value: Var) -> None:
        self._bound[group[0]] = (group, value)

    def bound(self, group: tuple[Digit, ...]) -> Var:
        return self._bound[group[0]][1]

    def bind_run(self, seq: Seq, value: Var) -> None:
        """Says what number the groups of `seq`, which are bound too, make together: it need not be put together."""
        self._run = (seq, value)

    # --- values ---
    def value(self, access: Access) -> Var:
        """The element, computed without recursion over the depth of the graph."""
        stack = [access]
        while stack:
            top = stack[-1]
            if self._known(top) is not None:
                stack.pop()
                continue
            missing = [s for s in self._sources(top) if self._known(s) is None]
            if missing:
                stack.extend(missing)
                continue
            with self.b.made_for(top.instr.name):
                self.b.remember(self._key(top), self._compute(top))
            stack.pop()
        found = self._known(access)
        assert found is not None
        return found

    def _key(self, access: Access) -> object:
        return ("element", self.version, access)

    def _known(self, access: Access) -> Var | None:
        return self.b.recall(self._key(access))

    def _sources(self, access: Access) -> tuple[Access, ...]:
        if access in self.replaced or access.instr.opcode in ("reduce", "get-tuple-element"):
            return ()
        found = sources(access, _SPLITTER)
        return found if self.facts is None else tuple(s for s in found if not self._excluded(s.mask))

    def _excluded(self, mask: Sequence[Cond]) -> bool:
        """Known to hold nowhere at the moment."""
        return self.facts is not None and any(self.facts(cond) is False for cond in mask)

    def _compute(self, access: Access) -> Var:
        if access in self.replaced:
            return self.replaced[access]()
        instr = access.instr
        special = _SPECIAL.get(instr.opcode)
        if special is not None:
            return special(self, access)
        values = [self.value(s) for s in self._sources(access)]
        return elementwise(self.b, instr, values)

    # --- numbers ---
    def number(self, seq: Seq) -> Var:
        """The value (s64) of a mixed-radix number."""
        if self._run is not None and seq == self._run[0]:
            return self._run[1]
        total = self.b.index(0)
        for value, extent in self._digits(seq):
            total = self.b.add(self.b.mul(total, self.b.size(extent)), value)
        return total

    def _digits(self, seq: Seq) -> list[tuple[Var, Dim]]:
        """Value and extent of each bound group, or computed digit, of `seq`."""
        found: list[tuple[Var, Dim]] = []
        position = 0
        while position < len(seq):
            atom = seq[position]
            if isinstance(atom, Computed):
                found.append((self._computed(atom), atom.extent))
                position += 1
                continue
            group, value = self._bound[atom]
            if seq[position : position + len(group)] != group:
                raise UnsupportedError("part of a loop is needed alone")
            found.append((value, product(d.extent for d in group)))
            position += len(group)
        return found

    def _computed(self, atom: Computed) -> Var:
        b, value = self.b, self.number(atom.seq)
        if atom.kind == "quotient":
            return b.quotient(value, b.size(atom.offset))
        if atom.kind == "remainder":
            return b.remainder(value, b.size(atom.offset))
        if atom.kind == "affine":
            return b.add(b.mul(value, b.index(atom.scale)), self._dim(atom.offset))
        assert atom.start is not None
        start = self._clamped(atom.start, atom.limit)
        return b.add(value, start) if atom.sign > 0 else b.op("subtract", value, start)

    def _clamped(self, access: Access, limit: Dim) -> Var:
        b, start = self.b, self.value(access)
        if start.dtype != S64:
            start = b.op("convert", start, dtype=S64)
        return b.op("clamp", b.index(0), start, b.size(limit))

    def _dim(self, dim: Dim) -> Var:
        """A number that may be negative: small constants inline."""
        return self.b.index(dim) if isinstance(dim, int) else self.b.size(dim)

    def condition(self, mask: Sequence[Cond]) -> Var | None:
        """The conjunction of `mask`; None where it always holds."""
        b = self.b
        tests: list[Var] = []
        for cond in mask:
            if self.facts is not None and self.facts(cond):
                continue
            value = self.number(cond.seq)
            low = None if cond.low is None else self._dim(cond.low)
            if low is not None:
                tests.append(b.compare(value, low, "GE"))
            if cond.high is not None:
                tests.append(b.compare(value, self._dim(cond.high), "LT"))
            if cond.step != 1:
                shifted = value if low is None else b.op("subtract", value, low)
                rest = b.remainder(shifted, b.index(cond.step))
                tests.append(b.compare(rest, b.index(0), "EQ"))
        return all_of(b, tests)

    # --- opcodes that are more than an op ---
    def _parameter(self, access: Access) -> Var:
        offset = self.number(flatten(access.index))
        return self.b.load_once(self.buffers[access.instr], offset, self.condition(access.mask))

    def _constant(self, access: Access) -> Var:
        literal = np.asarray(access.instr.attrs["literal"])
        dtype = access.instr.shape.element_type
        if literal.size != 1 and not _splat(literal):
            raise UnsupportedError(f"an array constant inside a fusion ({access.instr.name})")
        return self.b.const(literal.reshape(-1)[0].item(), dtype)

    def _iota(self, access: Access) -> Var:
        number = self.number(access.index[access.instr.attrs["iota_dimension"]])
        dtype = access.instr.shape.element_type
        return number if dtype == S64 else self.b.op("convert", number, dtype=dtype)

    def _first(self, access: Access) -> Var:
        return self.value(self._sources(access)[0])

    def _pad(self, access: Access) -> Var:
        inside, outside = sources(access, _SPLITTER)
        conds = pad_source(access.instr, access.index)[1]
        if self._excluded(conds):
            return self.value(outside)
        mask, value = self.condition(conds), self.value(inside)
        return value if mask is None else self.b.op("select", mask, value, self.value(outside), dtype=value.dtype)

    def _concatenate(self, access: Access) -> Var:
        conds = concat_conds(access.instr, access.index)
        parts = [(s, m) for s, m in zip(sources(access, _SPLITTER), conds) if not self._excluded(m)]
        result = self.value(parts[-1][0])
        for part, mask in parts[-2::-1]:
            test = self.condition([Cond(c.seq, None, c.high) for c in mask])
            assert test is not None
            result = self.b.op("select", test, self.value(part), result, dtype=result.dtype)
        return result

    def _update(self, access: Access) -> Var:
        old, new = self._sources(access)
        mask = self.condition(update_source(access.instr, access.index)[1])
        value = self.value(new)
        return value if mask is None else self.b.op("select", mask, value, self.value(old), dtype=value.dtype)

    def _result(self, access: Access) -> Var:
        instr, number = access.instr, 0
        if instr.opcode == "get-tuple-element":
            number, instr = int(instr.attrs["index"]), instr.operands[0]
        return self.results[instr]()[number]

    def _bitcast_convert(self, access: Access) -> Var:
        """Equal widths: one op. Otherwise parts of unsigned integers, the first in the low bits."""
        instr, b = access.instr, self.b
        values = [self.value(s) for s in self._sources(access)]
        to, source = instr.shape.element_type, values[0].dtype
        if to == source:
            return values[0]
        if to.bits == source.bits:
            return b.op("bitcast-convert", values[0], dtype=to)
        wide, narrow = _unsigned(max(to.bits, source.bits)), _unsigned(min(to.bits, source.bits))
        bits = [self._as(v, _unsigned(source.bits)) for v in values]
        if to.bits > source.bits:
            total = b.const(0, wide)
            for part, value in enumerate(bits):
                shift = b.const(part * source.bits, wide)
                total = b.op("or", total, b.op("shift-left", b.op("convert", value, dtype=wide), shift))
            return self._as(total, to)
        place = b.op("convert", self.number(access.index[-1]), dtype=wide)
        shift = b.op("multiply", place, b.const(to.bits, wide))
        low = b.op("convert", b.op("shift-right-logical", bits[0], shift), dtype=narrow)
        return self._as(low, to)

    def _as(self, value: Var, dtype: DType) -> Var:
        return value if value.dtype == dtype else self.b.op("bitcast-convert", value, dtype=dtype)


def _unsigned(bits: int) -> DType:
    return DTYPES[f"u{bits}"]


def _splat(literal: np.ndarray) -> bool:
    """Every element has the bits of the first."""
    raw = np.ascontiguousarray(literal).reshape(-1).view(np.uint8).reshape(literal.size, -1)
    return literal.size > 0 and bool((raw == raw[0]).all())


_SPECIAL: dict[str, Callable[[Emitter, Access], Var]] = {
    "parameter": Emitter._parameter,
    "constant": Emitter._constant,
    "iota": Emitter._iota,
    "pad": Emitter._pad,
    "concatenate": Emitter._concatenate,
    "dynamic-update-slice": Emitter._update,
    "reduce": Emitter._result,
    "get-tuple-element": Emitter._result,
    "bitcast-convert": Emitter._bitcast_convert,
    **dict.fromkeys(
        ["broadcast", "reshape", "bitcast", "transpose", "reverse", "slice", "dynamic-slice", "gather", "copy"],
        Emitter._first,
    ),
}
