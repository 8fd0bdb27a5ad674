"""call-inliner: `call(args), to_apply=f` --> the instructions of f on args, and of what f calls.

A computation keeps its calls where writing them out would make it many times as large as the module: thirty functions,
each of which calls the next one twice, make a thousand million instructions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..ir.node import Computation, Instr, Module
from ..ir.rewrite import rebuild
from .base import Pass

GROWTH = 5  # how many times as large as the module a computation may become
FEW = 2_000  # instructions that are never too many


def run(module: Module) -> Module:
    """The module without calls, but for those in computations that would become too large."""
    comps = list(module.computations())
    if not any(i.opcode == "call" for comp in comps for i in comp.instrs):
        return module
    flat = _flat(comps)
    kept = {module.entry} | {c for comp in comps for i in comp.instrs if i.opcode != "call" for c in i.called}
    kept |= {c for comp in comps if comp not in flat for i in comp.instrs for c in i.called}
    changed: dict[Computation, Computation] = {}
    for comp in comps:
        new = rebuild(comp, {}, called=changed) if changed else comp
        if comp in kept and comp in flat:
            new = rebuild(new, {i: _written_out(i) for i in new.instrs if i.opcode == "call"})
        if new is not comp:
            changed[comp] = new
    return module.replace(entry=changed[module.entry]) if module.entry in changed else module


def _flat(comps: list[Computation]) -> set[Computation]:
    """The computations that are small enough once their calls are written out."""
    limit = max(FEW, GROWTH * sum(len(comp.instrs) for comp in comps))
    size: dict[Computation, int] = {}
    for comp in comps:
        size[comp] = len(comp.instrs) + sum(size[i.attrs["to_apply"]] for i in comp.instrs if i.opcode == "call")
    return {comp for comp in comps if size[comp] <= limit}


@dataclass
class _Frame:
    """A call being written out: copies of the instructions done so far, and the rest."""

    call: Instr
    copies: dict[Instr, Instr]
    rest: Iterator[Instr]
    sources: frozenset[str]

    @classmethod
    def of(cls, call: Instr, args: tuple[Instr, ...], sources: frozenset[str]) -> _Frame:
        comp = call.attrs["to_apply"]
        return cls(call, dict(zip(comp.params, args)), iter(comp.instrs), sources | call.sources)


def _written_out(call: Instr) -> Instr:
    """The value of the call from copies of what it runs; no recursion, for calls nest deeper than Python's stack."""
    stack = [_Frame.of(call, call.operands, frozenset())]
    while True:
        frame = stack[-1]
        opened = _advance(frame)
        if opened is not None:
            stack.append(opened)
            continue
        stack.pop()
        value = frame.copies[frame.call.attrs["to_apply"].root]
        if not stack:
            return value
        stack[-1].copies[frame.call] = value


def _advance(frame: _Frame) -> _Frame | None:
    """Copies instructions up to the next call, whose frame it gives; None at the end."""
    copies = frame.copies
    for instr in frame.rest:
        if instr in copies:
            continue
        operands = tuple([copies[o] for o in instr.operands])
        if instr.opcode == "call":
            return _Frame.of(instr, operands, frame.sources)
        control = tuple([copies[c] for c in instr.control])
        copies[instr] = instr.replace(operands=operands, control=control, sources=instr.sources | frame.sources)
    return None


PASS = Pass("call-inliner", run)
