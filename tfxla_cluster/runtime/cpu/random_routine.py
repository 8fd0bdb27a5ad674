"""The library routine that draws from the random state, in machine code."""

from __future__ import annotations

from llvmlite import ir

from ..launcher.words import Function, Word, global_words
from ..random_state import ROUTINE


def emit(module: ir.Module) -> None:
    """A library routine, called as a kernel is: puts (key, counter) into outputs[0] and moves the counter on by
    sizes[0]. And `random_words`: the address of the two words."""
    words = global_words(module, "tfxla_random_words", 2)
    f = Function(module, ROUTINE, 4)
    _, _, outputs, sizes = f.args
    state = Word(f, words)
    f.store(f.load(outputs), 0, f.load(state))
    f.store(f.load(outputs), 1, f.atomic_add(state + 8, f.load(sizes)))
    f.return_()
    f = Function(module, "random_words", 0)
    f.return_(Word(f, words))
