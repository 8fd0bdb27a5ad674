"""A small structured writer of LLVM IR in which every value is a 64-bit word.

Addresses, counts and numbers are all i64 (a pointer and an i64 travel alike in every ABI used
here), so the pool and the interpreter read like the C they stand for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Union

from llvmlite import ir

I1, I32, I64, PTR = ir.IntType(1), ir.IntType(32), ir.IntType(64), ir.PointerType()
Value = Union["Word", int]


class Word:
    """An i64 in `fn`; arithmetic appends instructions, comparisons give an i1 for `if_` and `break_if`."""

    __slots__ = ("fn", "value")

    def __init__(self, fn: Function, value: Any) -> None:
        self.fn, self.value = fn, value

    def _binary(self, name: str, other: Value) -> Word:
        return Word(self.fn, getattr(self.fn.b, name)(self.value, self.fn.raw(other)))

    def __add__(self, other: Value) -> Word:
        return self._binary("add", other)

    def __sub__(self, other: Value) -> Word:
        return self._binary("sub", other)

    def __mul__(self, other: Value) -> Word:
        return self._binary("mul", other)

    def __and__(self, other: Value) -> Word:
        return self._binary("and_", other)

    def __or__(self, other: Value) -> Word:
        return self._binary("or_", other)

    def __lshift__(self, other: Value) -> Word:
        return self._binary("shl", other)

    def __rshift__(self, other: Value) -> Word:
        return self._binary("lshr", other)

    def udiv(self, other: Value) -> Word:
        return self._binary("udiv", other)

    def compare(self, operator: str, other: Value) -> Any:
        """An i1; `operator` is '==', '!=', '<', '<=', '>' or '>=' (signed)."""
        return self.fn.b.icmp_signed(operator, self.value, self.fn.raw(other))

    def min(self, other: Value) -> Word:
        return self.fn.select(self.compare("<", other), self, other)

    def max(self, other: Value) -> Word:
        return self.fn.select(self.compare(">", other), self, other)


class Local:
    """A variable of the function (a stack slot until mem2reg)."""

    def __init__(self, fn: Function, slot: Any) -> None:
        self._fn, self._slot = fn, slot

    def get(self) -> Word:
        return Word(self._fn, self._fn.b.load(self._slot, typ=I64))

    def set(self, value: Value) -> None:
        self._fn.b.store(self._fn.raw(value), self._slot)


class Function:
    """One LLVM function of words to a word; `args` are its parameters."""

    def __init__(self, module: ir.Module, name: str, arity: int) -> None:
        self.module = module
        self.ir = ir.Function(module, ir.FunctionType(I64, [I64] * arity), name)
        self.b = ir.IRBuilder(self.ir.append_basic_block("entry"))
        self.args = [Word(self, a) for a in self.ir.args]
        self._exits: list[Any] = []

    # --- values ---
    def raw(self, value: Value) -> Any:
        return value.value if isinstance(value, Word) else I64(value)

    def word(self, value: int) -> Word:
        return Word(self, I64(value))

    def local(self, value: Value) -> Local:
        """A new variable, set here to `value`."""
        with self.b.goto_entry_block():
            slot = self.b.alloca(I64)
        local = Local(self, slot)
        local.set(value)
        return local

    def stack(self, words: int) -> Word:
        """The address of `words` words of stack."""
        with self.b.goto_entry_block():
            slot = self.b.alloca(ir.ArrayType(I64, words))
            return Word(self, self.b.ptrtoint(slot, I64))

    def select(self, condition: Any, yes: Value, no: Value) -> Word:
        return Word(self, self.b.select(condition, self.raw(yes), self.raw(no)))

    def both(self, a: Any, b: Any) -> Any:
        return self.b.and_(a, b)

    # --- memory; `index` counts words ---
    def _address(self, base: Value, index: Value) -> Any:
        return self.b.inttoptr(self.raw(self._offset(base, index)), PTR)

    def _offset(self, base: Value, index: Value) -> Word:
        start = base if isinstance(base, Word) else self.word(base)
        if isinstance(index, int):
            return start + 8 * index if index else start
        return start + index * 8

    def load(self, base: Value, index: Value = 0) -> Word:
        return Word(self, self.b.load(self._address(base, index), typ=I64))

    def store(self, base: Value, index: Value, value: Value) -> None:
        self.b.store(self.raw(value), self._address(base, index))

    def load_narrow(self, address: Value, bits: int) -> Word:
        """Sign-extended load of 8 or 32 bits at a byte address."""
        narrow = self.b.load(self._address(address, 0), typ=ir.IntType(bits))
        return Word(self, self.b.sext(narrow, I64))

    # --- atomics, all sequentially consistent ---
    def atomic_load(self, address: Word) -> Word:
        return Word(self, self.b.load_atomic(self._address(address, 0), "seq_cst", 8, typ=I64))

    def atomic_store(self, address: Word, value: Value) -> None:
        self.exchange(address, value)  # what a sequentially consistent store is on x86-64

    def atomic_add(self, address: Word, value: Value) -> Word:
        """The value before the addition."""
        old = self.b.atomic_rmw("add", self._address(address, 0), self.raw(value), "seq_cst")
        return Word(self, old)

    def atomic_min(self, address: Word, value: Value) -> None:
        """Signed."""
        self.b.atomic_rmw("min", self._address(address, 0), self.raw(value), "seq_cst")

    def exchange(self, address: Word, value: Value) -> Word:
        old = self.b.atomic_rmw("xchg", self._address(address, 0), self.raw(value), "seq_cst")
        return Word(self, old)

    def compare_swap(self, address: Word, old: Value, new: Value) -> Any:
        """An i1: whether `old` was there and is replaced."""
        pair = self.b.cmpxchg(self._address(address, 0), self.raw(old), self.raw(new), "seq_cst", "seq_cst")
        return self.b.extract_value(pair, 1)

    # --- calls ---
    def call(self, callee: Function | str | Word, *args: Value) -> Word:
        """Call a function of this module, one of the process by name, or one at an address."""
        values = [self.raw(a) for a in args]
        if isinstance(callee, Function):
            return Word(self, self.b.call(callee.ir, values))
        kind = ir.FunctionType(I64, [I64] * len(values))
        if isinstance(callee, Word):
            return Word(self, self.b.call(_Callee(self.b.inttoptr(callee.value, PTR), kind), values))
        return Word(self, self.b.call(external(self.module, callee, kind), values))

    def intrinsic(self, name: str, *addresses: Value) -> None:
        """Call a void LLVM intrinsic of pointers."""
        kind = ir.FunctionType(ir.VoidType(), [PTR] * len(addresses))
        self.b.call(external(self.module, name, kind), [self._address(a, 0) for a in addresses])

    # --- control ---
    @contextmanager
    def if_(self, condition: Any) -> Iterator[None]:
        with self.b.if_then(condition):
            yield

    @contextmanager
    def loop(self) -> Iterator[None]:
        """Repeat until `break_if` or `break_`."""
        body, end = self.b.append_basic_block("loop"), self.b.append_basic_block("end")
        self.b.branch(body)
        self.b.position_at_end(body)
        self._exits.append(end)
        yield
        self._exits.pop()
        if not self.b.block.is_terminated:
            self.b.branch(body)
        self.b.position_at_end(end)

    @contextmanager
    def count(self, start: Value, stop: Value) -> Iterator[Word]:
        """`for i in range(start, stop)`."""
        i = self.local(start)
        with self.loop():
            now = i.get()
            self.break_if(now.compare(">=", stop))
            i.set(now + 1)
            yield now

    def break_if(self, condition: Any) -> None:
        """Leave the innermost loop where `condition` holds."""
        rest = self.b.append_basic_block("rest")
        self.b.cbranch(condition, self._exits[-1], rest)
        self.b.position_at_end(rest)

    def break_(self) -> None:
        self.b.branch(self._exits[-1])

    def switch(self, selector: Word, cases: Sequence[Any]) -> None:
        """Run `cases[selector]` (functions that emit code); out of range is not possible."""
        end, unreachable = self.b.append_basic_block("join"), self.b.append_basic_block("never")
        blocks = [self.b.append_basic_block("case") for _ in cases]
        node = self.b.switch(selector.value, unreachable)
        for number, (block, emit) in enumerate(zip(blocks, cases)):
            node.add_case(I64(number), block)
            self.b.position_at_end(block)
            emit()
            if not self.b.block.is_terminated:
                self.b.branch(end)
        self.b.position_at_end(unreachable)
        self.b.unreachable()
        self.b.position_at_end(end)

    def return_(self, value: Value = 0) -> None:
        self.b.ret(self.raw(value))


class _Callee:
    """An address to call as `function_type`: an opaque pointer has no type where llvmlite looks."""

    def __init__(self, pointer: Any, function_type: ir.FunctionType) -> None:
        self.function_type, self.type, self.calling_convention = function_type, PTR, ""
        self.get_reference = pointer.get_reference


def external(module: ir.Module, name: str, kind: ir.FunctionType) -> ir.Function:
    """The declaration of a process symbol (made once a module)."""
    found = module.globals.get(name)
    return found if found is not None else ir.Function(module, kind, name)


def global_words(module: ir.Module, name: str, words: int) -> Any:
    """A zeroed global of `words` words on its own cache lines; its address as an i64 constant."""
    kind = ir.ArrayType(I64, words)
    glob = ir.GlobalVariable(module, kind, name)
    glob.initializer, glob.align = ir.Constant(kind, None), 128
    return glob.ptrtoint(I64)
