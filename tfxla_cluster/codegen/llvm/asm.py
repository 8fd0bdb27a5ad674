"""LLVM IR as text: typed operands, equal instructions shared, each placed as far out as its operands allow.

No optimisation pass runs afterwards, so this is where common subexpressions and loop invariants go: a pure
instruction is looked up by its text, and written into the outermost open scope that sees all its operands.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from .operand import BITS, FLOATS, Number, Operand, Reg, literal_text, mangle, type_text


@dataclass
class Scope:
    """Straight-line code under construction: `label` names the basic block being written."""

    level: int
    entry: str
    label: str
    barrier: bool
    lines: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)


@dataclass
class Loop:
    """An open loop: `index` and `args` are its phis."""

    index: Reg
    start: Reg
    args: tuple[Reg, ...]
    init: tuple[Reg, ...]


class Asm:
    """Writes the body of one function."""

    def __init__(self) -> None:
        self.declares: dict[str, str] = {}
        self._memo: dict[str, Reg] = {}
        self._names = 0
        self.maker = ""  # the HLO instruction that lines are made for
        self.makers: dict[str, str] = {}  # name -> that instruction
        self._scopes = [Scope(0, "entry", "entry", True)]
        self._barrier = 0

    # --- operands ---
    def literal(self, type: str, value: Number) -> Reg:
        return Reg(self, literal_text(type, value), type, 1, 0, value)

    def coerce(self, operand: Operand, like: Reg) -> Reg:
        return operand if isinstance(operand, Reg) else self.literal(like.type, operand)

    def poison(self, type: str, lanes: int) -> Reg:
        return Reg(self, "poison", type, lanes, 0)

    def lane_numbers(self, type: str, lanes: int, step: int = 1) -> Reg:
        """The constant <0, step, 2*step, ...>."""
        items = ", ".join(f"{type} {literal_text(type, i * step)}" for i in range(lanes))
        return Reg(self, f"<{items}>", type, lanes, 0)

    def splat(self, reg: Reg, lanes: int) -> Reg:
        """The value in each of `lanes` lanes."""
        if reg.lanes == lanes:
            return reg
        if reg.value is not None:
            return Reg(self, f"splat ({reg.type} {reg.text})", reg.type, lanes, 0, reg.value)
        first = self._pure(
            f"insertelement {type_text(reg.type, lanes)} poison, {reg.type} {reg.text}, i64 0",
            reg.type,
            lanes,
            reg.level,
        )
        return self.shuffle(first, (0,) * lanes)

    def match(self, *operands: Operand) -> list[Reg]:
        """The operands as Regs of equal lanes (numbers take the type of the first Reg)."""
        like = next(o for o in operands if isinstance(o, Reg))
        regs = [self.coerce(o, like) for o in operands]
        lanes = max(r.lanes for r in regs)
        return regs if lanes == 1 else [self.splat(r, lanes) for r in regs]

    def pair(self, a: Operand, b: Operand) -> tuple[Reg, Reg]:
        """`match` for two operands."""
        if isinstance(a, Reg):
            x, y = a, self.coerce(b, a)
        else:
            assert isinstance(b, Reg)
            x, y = self.literal(b.type, a), b
        if x.lanes == y.lanes:
            return x, y
        return (self.splat(x, y.lanes), y) if x.lanes == 1 else (x, self.splat(y, x.lanes))

    # --- pure instructions ---
    def op(self, name: str, a: Operand, b: Operand) -> Reg:
        """A binary instruction; 64-bit numbers are folded, and what adds 0 or multiplies by 1 is left out."""
        x, y = self.pair(a, b)
        if x.value is not None and y.value is not None and x.type == "i64" and name in _FOLD:
            return self.literal("i64", _FOLD[name](int(x.value), int(y.value)))
        if x.type == "i64" and ((name in ("add", "sub") and y.value == 0) or (name == "mul" and y.value == 1)):
            return x
        if x.type == "i64" and ((name == "add" and x.value == 0) or (name == "mul" and x.value == 1)):
            return y
        return self._pure(
            f"{name} {type_text(x.type, x.lanes)} {x.text}, {y.text}", x.type, x.lanes, max(x.level, y.level)
        )

    def unary(self, name: str, x: Reg) -> Reg:
        return self._pure(f"{name} {type_text(x.type, x.lanes)} {x.text}", x.type, x.lanes, x.level)

    def cmp(self, predicate: str, a: Operand, b: Operand) -> Reg:
        """`predicate` as LLVM's, 'slt' or 'olt' ...; the operands' type says icmp or fcmp."""
        x, y = self.pair(a, b)
        name = "fcmp" if x.type in FLOATS else "icmp"
        return self._pure(
            f"{name} {predicate} {type_text(x.type, x.lanes)} {x.text}, {y.text}", "i1", x.lanes, max(x.level, y.level)
        )

    def is_nan(self, x: Reg) -> Reg:
        return self.cmp("uno", x, x)

    def select(self, cond: Reg, a: Operand, b: Operand) -> Reg:
        """`a` in the lanes where `cond` holds, else `b`."""
        x, y = self.pair(a, b)
        if cond.lanes > x.lanes:
            x, y = self.splat(x, cond.lanes), self.splat(y, cond.lanes)
        kind = type_text(x.type, x.lanes)
        return self._pure(
            f"select {type_text('i1', cond.lanes)} {cond.text}, {kind} {x.text}, {kind} {y.text}",
            x.type,
            x.lanes,
            max(cond.level, x.level, y.level),
        )

    def cast(self, name: str, x: Reg, type: str) -> Reg:
        """The conversion `name` of `x` to `type`; `x` itself where it has that type."""
        if x.type == type:
            return x
        return self._pure(
            f"{name} {type_text(x.type, x.lanes)} {x.text} to {type_text(type, x.lanes)}", type, x.lanes, x.level
        )

    def bits(self, x: Reg) -> Reg:
        """A float's bits as an integer."""
        if x.value is not None:
            code, integer = ("<f", "<i") if x.type == "float" else ("<d", "<q")
            (number,) = struct.unpack(integer, struct.pack(code, x.value))
            return self.splat(self.literal(f"i{BITS[x.type]}", number), x.lanes)
        return self.cast("bitcast", x, f"i{BITS[x.type]}")

    def intrinsic(self, name: str, *operands: Operand, tail: str = "") -> Reg:
        """A pure intrinsic whose result has its operands' type, e.g. 'llvm.fma'."""
        regs = self.match(*operands)
        first = regs[0]
        full = f"{name}.{mangle(first.type, first.lanes)}"
        return self.call(full, first.type, first.lanes, regs, tail)

    def fma(self, a: Operand, b: Operand, c: Operand) -> Reg:
        return self.intrinsic("llvm.fma", a, b, c)

    def call(self, name: str, type: str, lanes: int, args: Sequence[Reg], tail: str = "") -> Reg:
        """A pure call; `tail` are further arguments of type i1, as text ('false')."""
        kind = type_text(type, lanes)
        kinds = [type_text(r.type, r.lanes) for r in args]
        texts = [f"{k} {r.text}" for k, r in zip(kinds, args)]
        if tail:
            texts.append(f"i1 {tail}")
        self.declare(name, kind, [*kinds, "i1"] if tail else kinds)
        return self._pure(f"call {kind} @{name}({', '.join(texts)})", type, lanes, max(r.level for r in args))

    def declare(self, name: str, result: str, args: Sequence[str]) -> None:
        self.declares[name] = f"declare {result} @{name}({', '.join(args)})"

    def shuffle(self, x: Reg, lanes: Sequence[int], y: Reg | None = None) -> Reg:
        """Lanes of `x`, then of `y`, by number."""
        kind = type_text(x.type, x.lanes)
        mask = ", ".join(f"i32 {lane}" for lane in lanes)
        other = y.text if y is not None else "poison"
        return self._pure(
            f"shufflevector {kind} {x.text}, {kind} {other}, <{len(lanes)} x i32> <{mask}>",
            x.type,
            len(lanes),
            max(x.level, y.level if y is not None else 0),
        )

    def extract(self, x: Reg, lane: int) -> Reg:
        """One lane as a scalar."""
        if x.lanes == 1 or x.value is not None:
            return x if x.value is None else self.literal(x.type, x.value)
        return self._pure(f"extractelement {type_text(x.type, x.lanes)} {x.text}, i64 {lane}", x.type, 1, x.level)

    def insert(self, x: Reg, item: Reg, lane: int) -> Reg:
        return self._pure(
            f"insertelement {type_text(x.type, x.lanes)} {x.text}, {item.type} {item.text}, i64 {lane}",
            x.type,
            x.lanes,
            max(x.level, item.level),
        )

    def gep(self, pointer: Reg, type: str, offset: Reg) -> Reg:
        """The address of element `offset` (of `type`); a vector of offsets gives a vector of pointers."""
        if offset.value == 0:
            return pointer
        return self._pure(
            f"getelementptr {type}, ptr {pointer.text}, {type_text('i64', offset.lanes)} {offset.text}",
            "ptr",
            offset.lanes,
            max(pointer.level, offset.level),
        )

    # --- effects: in the current scope, never shared ---
    def load(self, type: str, lanes: int, pointer: Reg, align: int) -> Reg:
        return self._here(f"load {type_text(type, lanes)}, ptr {pointer.text}, align {align}", type, lanes)

    def load_call(self, text: str, type: str, lanes: int) -> Reg:
        """A call, given as text, that reads memory."""
        return self._here(text, type, lanes)

    def store(self, value: Reg, pointer: Reg, align: int, tail: str = "") -> None:
        """`tail`: metadata, as text."""
        kind = type_text(value.type, value.lanes)
        self.line(f"store {kind} {value.text}, ptr {pointer.text}, align {align}{tail}")

    def alloca(self, bytes: int) -> Reg:
        """A 64-byte aligned stack slot, allocated once in the entry block."""
        name = self._name()
        self._scopes[0].lines.insert(0, f"  {name} = alloca [{bytes} x i8], align 64")
        return Reg(self, name, "ptr", 1, 0)

    def line(self, text: str) -> None:
        self._scopes[-1].lines.append("  " + text)

    # --- control flow ---
    @property
    def level(self) -> int:
        return len(self._scopes) - 1

    def here(self, reg: Reg) -> Reg:
        """`reg` as seen in the current scope: what follows from it is not moved further out."""
        return Reg(self, reg.text, reg.type, reg.lanes, self.level, reg.value)

    def begin_loop(self, start: Reg, init: Sequence[Reg] = ()) -> Loop:
        """Opens a loop that `end_loop` closes; `init`: the carried values at its first iteration."""
        self._open("body", barrier=False)
        index = Reg(self, self._name(), "i64", 1, self.level)
        args = tuple(Reg(self, self._name(), r.type, r.lanes, self.level) for r in init)
        return Loop(index, start, args, tuple(init))

    def end_loop(self, loop: Loop, stop: Reg, step: Operand, yields: Sequence[Reg] = ()) -> tuple[Reg, ...]:
        """Closes `for index in range(start, stop, step)`; the carried values after it."""
        after = self.op("add nsw", loop.index, step)
        again = self.cmp("slt", after, stop)
        body = self._close()
        outer, leave = self._scopes[-1], self._label("exit")
        guard = self.cmp("slt", loop.start, stop)
        outer.lines += [
            f"  br i1 {guard.text}, label %{body.entry}, label %{leave}",
            f"{body.entry}:",
            _phi(loop.index, (loop.start, outer.label), (after, body.label)),
            *(_phi(a, (i, outer.label), (y, body.label)) for a, i, y in zip(loop.args, loop.init, yields)),
            *body.lines,
            f"  br i1 {again.text}, label %{body.entry}, label %{leave}",
            f"{leave}:",
        ]
        before, outer.label = outer.label, leave
        return tuple(self._join((i, before), (y, body.label)) for i, y in zip(loop.init, yields))

    def begin_branch(self) -> None:
        """Opens a block that runs under a condition; nothing in it moves out."""
        self._open("then", barrier=True)

    def end_branch(self) -> Scope:
        return self._close()

    def branch(
        self, cond: Reg, then: Scope, first: Sequence[Reg], orelse: Scope | None = None, second: Sequence[Reg] = ()
    ) -> tuple[Reg, ...]:
        """`then` where `cond`, else `orelse` (nothing when None); the chosen one of each pair of values."""
        outer, leave = self._scopes[-1], self._label("endif")
        other = orelse.entry if orelse else leave
        outer.lines.append(f"  br i1 {cond.text}, label %{then.entry}, label %{other}")
        for scope in (then, orelse) if orelse else (then,):
            outer.lines += [f"{scope.entry}:", *scope.lines, f"  br label %{leave}"]
        outer.lines.append(f"{leave}:")
        before = orelse.label if orelse else outer.label
        outer.label = leave
        return tuple(self._join((a, then.label), (b, before)) for a, b in zip(first, second))

    def begin_while(self, init: Sequence[Reg]) -> Loop:
        return self.begin_loop(self.literal("i64", 0), init)

    def while_test(self, cond: Reg) -> str:
        """Between the condition and the body of a while: leave unless `cond`. Gives the exit's label."""
        scope, body, leave = self._scopes[-1], self._label("do"), self._label("exit")
        scope.lines += [f"  br i1 {cond.text}, label %{body}, label %{leave}", f"{body}:"]
        scope.label = body
        return leave

    def end_while(self, loop: Loop, leave: str, yields: Sequence[Reg]) -> tuple[Reg, ...]:
        """Closes the loop; the values that it carried when the condition failed."""
        body = self._close()
        outer = self._scopes[-1]
        outer.lines += [
            f"  br label %{body.entry}",
            f"{body.entry}:",
            *(_phi(a, (i, outer.label), (y, body.label)) for a, i, y in zip(loop.args, loop.init, yields)),
            *body.lines,
            f"  br label %{body.entry}",
            f"{leave}:",
        ]
        outer.label = leave
        return tuple(self.here(a) for a in loop.args)

    def finish(self) -> list[str]:
        """All lines of the function's body."""
        return self._scopes[0].lines

    # --- internals ---
    def _open(self, kind: str, barrier: bool) -> None:
        label = self._label(kind)
        self._scopes.append(Scope(len(self._scopes), label, label, barrier))
        if barrier:
            self._barrier = self.level

    def _close(self) -> Scope:
        scope = self._scopes.pop()
        for key in scope.keys:
            del self._memo[key]
        self._barrier = max(s.level for s in self._scopes if s.barrier)
        return scope

    def _name(self) -> str:
        self._names += 1
        name = f"%v{self._names}"
        if self.maker:
            self.makers[name] = self.maker
        return name

    def _label(self, kind: str) -> str:
        self._names += 1
        return f"{kind}{self._names}"

    def _pure(self, text: str, type: str, lanes: int, level: int) -> Reg:
        known = self._memo.get(text)
        if known is not None:
            return known
        scope = self._scopes[max(level, self._barrier)]
        reg = Reg(self, self._name(), type, lanes, scope.level)
        scope.lines.append(f"  {reg.text} = {text}")
        scope.keys.append(text)
        self._memo[text] = reg
        return reg

    def _here(self, text: str, type: str, lanes: int) -> Reg:
        reg = Reg(self, self._name(), type, lanes, self.level)
        self.line(f"{reg.text} = {text}")
        return reg

    def _join(self, a: tuple[Reg, str], b: tuple[Reg, str]) -> Reg:
        reg = Reg(self, self._name(), a[0].type, a[0].lanes, self.level)
        self._scopes[-1].lines.append(_phi(reg, a, b))
        return reg


def _phi(out: Reg, a: tuple[Reg, str], b: tuple[Reg, str]) -> str:
    edges = ", ".join(f"[ {reg.text}, %{label} ]" for reg, label in (a, b))
    return f"  {out.text} = phi {type_text(out.type, out.lanes)} {edges}"


_FOLD = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b}
