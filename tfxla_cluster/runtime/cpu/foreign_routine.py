"""The routine that makes the calls of a foreign call (codegen.kernel.foreign_call), in machine code."""

from __future__ import annotations

from llvmlite import ir

from ...codegen.kernel import abi
from ...codegen.kernel.foreign_call import ARGUMENTS, FRAME, HEADER, KINDS
from ..launcher.words import Function, Word

ROUTINE = "tfxla_foreign_call"


def emit(module: ir.Module) -> None:
    """A kernel by the ABI whose sizes are (function, data, calls, words, kind, a, b, c, ..., tasks)."""
    f = Function(module, ROUTINE, 4)
    context, _, _, sizes = f.args
    calls, words = f.load(sizes, HEADER), f.load(sizes, HEADER + 1)
    tasks = f.load(sizes, words * 4 + (HEADER + 2))
    frame = f.stack(FRAME)
    with f.count(f.load(context, abi.TASK_BEGIN), f.load(context, abi.TASK_END)) as task:
        first, last = (task * calls).udiv(tasks), ((task + 1) * calls).udiv(tasks)
        with f.count(first, last) as call:
            with f.count(0, words) as i:
                f.store(frame, i, _word(f, frame, sizes + (HEADER + 2) * 8 + i * 32, (task, call)))
            f.call(f.load(sizes), *(f.load(frame, n) for n in range(ARGUMENTS)))
    f.return_()


def _word(f: Function, frame: Word, row: Word, place: tuple[Word, Word]) -> Word:
    """The word that (kind, a, b, c) at `row` says."""
    _, _, _, sizes = f.args
    task, call = place
    a, b = f.load(row, 1), f.load(row, 2)
    value = f.local(a)

    def buffer(array: Word, step: Word) -> None:
        value.set(f.load(array, a) + step * b + f.load(row, 3))

    def count() -> None:
        value.set(a.min(b - call * a))

    cases = {
        "number": lambda: None,
        "address": lambda: value.set(frame + a * 8),
        "input": lambda: buffer(f.args[1], call),
        "output": lambda: buffer(f.args[2], call),
        "work": lambda: buffer(f.args[2], task),
        "count": count,
        "data": lambda: value.set(f.load(sizes, 1)),
    }
    f.switch(f.load(row), [cases[name] for name in KINDS])
    return value.get()
