"""Walking the words of a launch plan in machine code: what the launchers of all machines share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from llvmlite import ir

from ...ir.size_operators import OPERATORS
from .record_layout import RECORD, STATUS_CLOSED, STATUS_OK
from .words import Function, Word


def emit_evaluate(module: ir.Module) -> Function:
    """evaluate(quadruples, count, values): values[target] = operation(values[a], values[b]) in order."""
    f = Function(module, "evaluate_sizes", 3)
    quadruples, count, values = f.args
    with f.count(0, count) as i:
        at = quadruples + i * 32
        a = f.load(values, f.load(at, 2))
        b = f.load(values, f.load(at, 3))
        result = f.local(0)
        f.switch(
            f.load(at),
            [lambda row=row: result.set(Word(f, row.emit(f.b, a.value, b.value))) for row in OPERATORS.values()],
        )
        f.store(values, f.load(at, 1), result.get())
    f.return_()
    return f


def emit_retire(module: ir.Module) -> None:
    """record_retire(record): no execution begins any more; how many still run."""
    f = Function(module, "record_retire", 1)
    f.exchange(f.args[0] + 8 * RECORD["closed"], 1)
    f.return_(f.atomic_load(f.args[0] + 8 * RECORD["active"]))


def enter(f: Function, record: Word) -> Word:
    """Count an execution in, or return where the record is retired; the address of the count to take it from."""
    active = record + 8 * RECORD["active"]
    f.atomic_add(active, 1)
    with f.if_(f.atomic_load(record + 8 * RECORD["closed"]).compare("!=", 0)):
        f.atomic_add(active, -1)
        f.return_(STATUS_CLOSED)
    return active


def fill_values(f: Function, evaluate: Function, record: Word, sizes: Word, values: Word) -> None:
    """The values of one execution, apart from those that need a produced size."""
    count = f.load(record, RECORD["size_count"])
    f.call("memcpy", values, f.load(record, RECORD["values"]), f.load(record, RECORD["value_count"]) * 8)
    with f.if_(count.compare(">", 0)):
        f.call("memcpy", values, sizes, count * 8)
        f.call(evaluate, f.load(record, RECORD["expressions"]), f.load(record, RECORD["expression_count"]), values)


def write_sizes(f: Function, record: Word, sizes: Word, values: Word) -> None:
    """Give the caller the sizes that instructions produced."""
    with f.if_(f.load(record, RECORD["writes_sizes"]).compare("!=", 0)):
        f.call("memcpy", sizes, values, f.load(record, RECORD["size_count"]) * 8)


class StepWalk(ABC):
    """Where the program is, and the memory of this execution: `front` holds its values and argument arrays, `memory`
    is the arena's address, then the tables of inputs and outputs."""

    def __init__(self, f: Function, record: Word, front: Word, memory: tuple[Word, Word, Word]) -> None:
        self.f, self.record, self.values = f, record, front
        self.arguments = front + f.load(record, RECORD["arguments_word"]) * 8
        arena, inputs, outputs = memory
        self._kinds, holder = f.stack(4), f.stack(1)
        f.store(holder, 0, arena)
        for kind, value in enumerate((holder, inputs, outputs, f.load(record, RECORD["constants"]))):
            f.store(self._kinds, kind, value)
        self._program = f.load(record, RECORD["program"])
        self._pc = f.local(self._program)

    @abstractmethod
    def read(self, index: int, bits: int) -> Word:
        """The number of so many bits at the place at `index`, on the host."""

    def at(self, index: Word | int) -> Word:
        """The address of a word of the current step."""
        return self._pc.get() + index * 8

    def word(self, index: int) -> Word:
        return self.f.load(self._pc.get(), index)

    def place(self, index: Word | int) -> Word:
        """The address that the two words of a place at `index` stand for."""
        f, at = self.f, self.at(index)
        packed = f.load(at)
        table = f.load(self._kinds, packed & 3)
        return f.load(table, packed >> 2) + f.load(self.values, f.load(at, 1))

    def skip(self, words: Word | int) -> None:
        self._pc.set(self._pc.get() + words * 8)

    def jump(self, target: Word) -> None:
        self._pc.set(self._program + target * 8)

    # --- steps that are the same on every machine ---
    def control(self, evaluate: Function) -> dict[str, Callable[[], None]]:
        """What emits the steps that run nothing, by their names."""
        return {
            "end": lambda: self.f.return_(STATUS_OK),
            "branch": self._branch,
            "jump": lambda: self.jump(self.word(1)),
            "unless": self._unless,
            "set": self._set,
            "countdown": self._countdown,
            "size": lambda: self._size(evaluate),
        }

    def _branch(self) -> None:
        """A pred: true is branch 0; an s32 out of range runs the last."""
        f, count = self.f, self.word(4)
        chosen = f.local(0)
        pred = self.word(3).compare("!=", 0)
        with f.if_(pred):
            chosen.set(f.select(self.read(1, 8).compare("!=", 0), 0, 1))
        with f.if_(f.b.not_(pred)):
            number = self.read(1, 32)
            inside = f.both(number.compare(">=", 0), number.compare("<", count))
            chosen.set(f.select(inside, number, count - 1))
        self.jump(f.load(self.at(chosen.get() + 5)))

    def _unless(self) -> None:
        f = self.f
        held = self.read(1, 8).compare("!=", 0)
        with f.if_(held):
            self.skip(4)
        with f.if_(f.b.not_(held)):
            self.jump(self.word(3))

    def _set(self) -> None:
        self.f.store(self.values, self.word(1), self.word(2))
        self.skip(3)

    def _countdown(self) -> None:
        f, left = self.f, self.f.load(self.values, self.word(1))
        done = left.compare("==", 0)
        with f.if_(done):
            self.jump(self.word(2))
        with f.if_(f.b.not_(done)):
            f.store(self.values, self.word(1), left - 1)
            self.skip(3)

    def _size(self, evaluate: Function) -> None:
        """Between 0 and the bound whatever the program computes, for memory is reserved by the bound."""
        f = self.f
        f.store(self.values, self.word(3), self.read(1, 32).max(0).min(f.load(self.values, self.word(6))))
        first = self.word(4)
        expressions = f.load(self.record, RECORD["expressions"]) + first * 32
        f.call(evaluate, expressions, self.word(5) - first, self.values)
        self.skip(7)
