"""Complex values as pairs of real ones: a kernel for targets that have none.

A buffer of complex numbers is one of twice as many real numbers, real and imaginary parts in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from ...decision import YES, Decision, no
from ...errors import UnsupportedError
from ...ir.dtype import DTYPES, S64, DType
from .complex_ops import COMPLEX_FUNCTIONS, absolute
from .ir import Across, Buffer, Const, For, If, Kernel, Load, Op, Reduce, Region, Scan, Stmt, Store, Tile, Var, While
from .op_reals import OpReals
from .walk import walk

Parts = tuple[Var, ...]


def part_of(dtype: DType) -> DType:
    """The type of a complex number's parts; any other type as it is."""
    return DTYPES[f"f{dtype.bits // 2}"] if dtype.kind == "complex" else dtype


def split_support(opcode: str, operands: Sequence[DType], out: DType) -> Decision:
    """Whether an op on complex operands, or with a complex result, becomes ops on parts."""
    known = opcode in COMPLEX_FUNCTIONS or opcode in _MOVES or opcode in ("abs", "compare")
    if opcode == "complex":
        known = operands[0] == part_of(out)
    return YES if known else no("opcode", f"{opcode} of {operands[0]} has no form on parts")


def split_complex(kernel: Kernel) -> Kernel:
    """The same kernel on real values; the kernel itself where it has no complex ones.

    UnsupportedError names an op or statement that has no form on parts.
    """
    buffers = (*kernel.inputs, *kernel.outputs, *kernel.scratch)
    ops = (s for s in walk(kernel.body) if isinstance(s, Op))
    if not any(b.dtype.kind == "complex" for b in buffers) and not any(o.out.dtype.kind == "complex" for o in ops):
        return kernel
    splitter = _Splitter(kernel.name)
    return replace(
        kernel,
        inputs=tuple(map(_plane_buffer, kernel.inputs)),
        outputs=tuple(map(_plane_buffer, kernel.outputs)),
        scratch=tuple(map(_plane_buffer, kernel.scratch)),
        body=splitter.body(kernel.body),
    )


def _plane_buffer(buffer: Buffer) -> Buffer:
    if buffer.dtype.kind != "complex":
        return buffer
    return Buffer(buffer.role, buffer.index, part_of(buffer.dtype), 2 * buffer.elements)


class _Splitter:
    """`parts`: the real variables that stand for each variable met so far."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.parts: dict[Var, Parts] = {}
        self.out: list[Stmt] = []
        self.reals = OpReals(self._append)

    def _append(self, stmt: Stmt) -> None:
        self.out.append(stmt)  # `out` is another list in each body

    def body(self, body: Iterable[Stmt]) -> tuple[Stmt, ...]:
        around, self.out = self.out, []
        for stmt in body:
            rule = _RULES.get(type(stmt))
            if rule is not None:
                rule(self, stmt)
            else:
                self.out.append(stmt)
        made, self.out = tuple(self.out), around
        return made

    def of(self, var: Var) -> Parts:
        """The parts of a variable; new ones where it is met first."""
        if var not in self.parts:
            if var.dtype.kind == "complex":
                part = part_of(var.dtype)
                self.parts[var] = Var(part, var.hint), Var(part, var.hint)
            else:
                self.parts[var] = (var,)
        return self.parts[var]

    def flat(self, variables: Iterable[Var]) -> Parts:
        return tuple(part for var in variables for part in self.of(var))

    def region(self, region: Region) -> Region:
        args, body = self.flat(region.args), self.body(region.body)
        return Region(args, body, self.flat(region.results))

    # --- statements ---
    def const(self, stmt: Const) -> None:
        if stmt.out.dtype.kind != "complex":
            self.out.append(stmt)
            return
        whole = complex(stmt.value)
        for part, value in zip(self.of(stmt.out), (whole.real, whole.imag)):
            self.out.append(Const(part, value))

    def op(self, stmt: Op) -> None:
        if all(v.dtype.kind != "complex" for v in (stmt.out, *stmt.operands)):
            self.out.append(stmt)
            return
        decision = split_support(stmt.opcode, [v.dtype for v in stmt.operands], stmt.out.dtype)
        if not decision:
            raise UnsupportedError(f"kernel {self.name}: {decision.reason}")
        m, values = self.reals, [tuple(map(self.reals.value, self.of(v))) for v in stmt.operands]
        if stmt.opcode in _MOVES:
            found = _MOVES[stmt.opcode](m, values, stmt.out.dtype)
        elif stmt.opcode == "abs":
            real, imag = values[0]
            found = (absolute(m, (real, imag)),)
        elif stmt.opcode == "compare":
            (a, b), (c, d) = values
            same = m.equal(a, c) & m.equal(b, d)
            found = (same if stmt.attrs["direction"] == "EQ" else ~same,)
        else:
            found = COMPLEX_FUNCTIONS[stmt.opcode](m, *values)
        if stmt.out.dtype.kind == "complex":
            self.parts[stmt.out] = tuple(v.var for v in found)
        else:
            self.out.append(Op(stmt.out, "copy", (found[0].var,)))

    def load(self, stmt: Load) -> None:
        if stmt.buffer.dtype.kind != "complex":
            self.out.append(stmt)
            return
        others = (None, None) if stmt.other is None else self.of(stmt.other)
        for part, offset, other in zip(self.of(stmt.out), self.offsets(stmt.offset), others):
            self.out.append(Load(part, _plane_buffer(stmt.buffer), offset, stmt.mask, other))

    def store(self, stmt: Store) -> None:
        if stmt.buffer.dtype.kind != "complex":
            self.out.append(stmt)
            return
        for part, offset in zip(self.of(stmt.value), self.offsets(stmt.offset)):
            self.out.append(replace(stmt, buffer=_plane_buffer(stmt.buffer), offset=offset, value=part))

    def offsets(self, offset: Var) -> tuple[Var, Var]:
        two, one = self.reals.constant(2, S64), self.reals.constant(1, S64)
        real = self.reals.value(offset) * two
        return real.var, (real + one).var

    def loop(self, stmt: For) -> None:
        self.out.append(
            replace(
                stmt,
                init=self.flat(stmt.init),
                args=self.flat(stmt.args),
                body=self.body(stmt.body),
                yields=self.flat(stmt.yields),
                outs=self.flat(stmt.outs),
            )
        )

    def fold(self, stmt: Reduce | Across) -> None:
        changes: dict[str, Any] = {"body": self.body(stmt.body)} if isinstance(stmt, Reduce) else {}
        identity = [part for var, value in zip(stmt.init, stmt.identity) for part in _identity(var.dtype, value)]
        self.out.append(
            replace(
                stmt,
                values=self.flat(stmt.values),
                init=self.flat(stmt.init),
                identity=tuple(identity),
                combine=self.region(stmt.combine),
                outs=self.flat(stmt.outs),
                **changes,
            )
        )

    def scan(self, stmt: Scan) -> None:
        combine = self.region(stmt.combine)
        self.out.append(replace(stmt, values=self.flat(stmt.values), combine=combine, outs=self.flat(stmt.outs)))

    def tile(self, stmt: Tile) -> None:
        self.out.append(replace(stmt, body=self.body(stmt.body)))

    def branch(self, stmt: If) -> None:
        then, orelse = self.region(stmt.then), self.region(stmt.orelse)
        self.out.append(replace(stmt, then=then, orelse=orelse, outs=self.flat(stmt.outs)))

    def while_loop(self, stmt: While) -> None:
        cond, body = self.region(stmt.cond), self.region(stmt.body)
        self.out.append(While(self.flat(stmt.init), cond, body, self.flat(stmt.outs)))


def _identity(dtype: DType, value: Any) -> tuple[Any, ...]:
    if dtype.kind != "complex":
        return (value,)
    return (None, None) if value is None else (complex(value).real, complex(value).imag)


def _convert(m: OpReals, values: Sequence[Any], out: DType) -> tuple[Any, ...]:
    """Of parts each; a real number has no imaginary part."""
    part = part_of(out)
    found = [v if v.var.dtype == part else m.op("convert", v, dtype=part) for v in values[0]]
    if out.kind != "complex":
        return (found[0],)
    return found[0], found[1] if len(found) > 1 else m.constant(0.0, part)


def _select(m: OpReals, values: Sequence[Any], out: DType) -> tuple[Any, ...]:
    return tuple(m.select(values[0][0], one, other) for one, other in zip(values[1], values[2]))


_MOVES: dict[str, Callable[[OpReals, Sequence[Any], DType], tuple[Any, ...]]] = {
    "convert": _convert,
    "select": _select,
    "copy": lambda m, values, out: values[0],
    "complex": lambda m, values, out: (values[0][0], values[1][0]),
    "real": lambda m, values, out: values[0][:1],
    "imag": lambda m, values, out: values[0][1:],
}
_RULES: dict[type, Callable[[_Splitter, Any], None]] = {
    Const: _Splitter.const,
    Op: _Splitter.op,
    Load: _Splitter.load,
    Store: _Splitter.store,
    For: _Splitter.loop,
    Reduce: _Splitter.fold,
    Across: _Splitter.fold,
    Scan: _Splitter.scan,
    Tile: _Splitter.tile,
    If: _Splitter.branch,
    While: _Splitter.while_loop,
}
