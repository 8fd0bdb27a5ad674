"""while-simplifier: take out of a loop's state what does not change and what nobody needs.

An element that the body hands on unchanged is its initial value after the loop, and, where that is a
literal, a literal inside. An element that neither the condition, nor a result that is used, depends on goes.
"""

from __future__ import annotations

from ..ir.literal import freeze
from ..ir.node import Computation, Instr, Module
from ..ir.rewrite import keeps, map_computations, rebuild, with_unique_names
from ..ir.shape import Shape, tuple_of
from .base import Pass
from .match import make

_SINK_LIMIT = 1024


def run(comp: Computation) -> Computation:
    """Loops that carry only what changes and is used."""
    replaced: dict[Instr, Instr] = {}
    users = None
    for instr in comp.instrs:
        if instr.opcode == "while" and instr.operands[0].opcode == "tuple":
            users = users or comp.users()
            if instr is not comp.root and all(u.opcode == "get-tuple-element" for u in users[instr]):
                replaced.update(_simplified(instr, users[instr]))
    return rebuild(comp, replaced, drop_dead=True) if replaced else comp


def _simplified(loop: Instr, results: list[Instr]) -> dict[Instr, Instr]:
    """What replaces the loop's results; empty when the loop stays as it is."""
    body, condition = loop.attrs["body"], loop.attrs["condition"]
    if body.root.opcode != "tuple" or not (_elements_only(body) and _elements_only(condition)):
        return {}
    initial = loop.operands[0].operands
    invariant = {n for n, x in enumerate(body.root.operands) if _is_element(x, body, n)}
    sunk = {n for n in invariant if initial[n].opcode == "constant" and _is_small(initial[n])}
    wanted = {r.attrs["index"] for r in results} - invariant
    kept = sorted(_needed(body, condition, wanted) - sunk)
    if len(kept) == len(initial) and not any(r.attrs["index"] in invariant for r in results):
        return {}
    return _rebuilt(loop, results, kept, invariant, {n: initial[n] for n in sunk})


def _is_small(x: Instr) -> bool:
    literal = x.attrs["literal"]
    return not isinstance(literal, tuple) and literal.size <= _SINK_LIMIT


def _is_element(x: Instr, comp: Computation, number: int) -> bool:
    return x.opcode == "get-tuple-element" and x.operands[0] is comp.params[0] and x.attrs["index"] == number


def _elements_only(comp: Computation) -> bool:
    """The state is only taken apart, never used whole."""
    state = comp.params[0]
    return comp.root is not state and all(i.opcode == "get-tuple-element" for i in comp.instrs if state in i.operands)


def _needed(body: Computation, condition: Computation, wanted: set[int]) -> set[int]:
    """Elements that the condition or the wanted results depend on, through any number of rounds."""
    needed: set[int] = set()
    fresh = set(wanted) | _reads(condition, [condition.root]) | _reads(body, _effects(body))
    while fresh - needed:
        needed |= fresh
        fresh = _reads(body, [body.root.operands[n] for n in needed])
    return needed


def _effects(comp: Computation) -> list[Instr]:
    return [i for i in comp.instrs if keeps(i)]


def _reads(comp: Computation, roots: list[Instr]) -> set[int]:
    """The state elements that `roots` depend on within one round."""
    seen: set[Instr] = set()
    stack, found = list(roots), set()
    while stack:
        instr = stack.pop()
        if instr in seen:
            continue
        seen.add(instr)
        if instr.opcode == "get-tuple-element" and instr.operands[0] is comp.params[0]:
            found.add(int(instr.attrs["index"]))
        stack.extend((*instr.operands, *instr.control))
    return found


def _rebuilt(
    loop: Instr, results: list[Instr], kept: list[int], invariant: set[int], sunk: dict[int, Instr]
) -> dict[Instr, Instr]:
    initial = loop.operands[0]
    parts = [initial.operands[n] for n in kept]
    state = tuple_of(*(p.shape for p in parts))
    body = _narrowed(loop.attrs["body"], state, kept, sunk, is_body=True)
    condition = _narrowed(loop.attrs["condition"], state, kept, sunk, is_body=False)
    start = make(initial, "tuple", state, parts)
    new = loop.replace(shape=state, operands=(start,), attrs={**loop.attrs, "body": body, "condition": condition})
    replaced: dict[Instr, Instr] = {}
    for result in results:
        number = result.attrs["index"]
        if number in invariant:
            replaced[result] = initial.operands[number]
        else:
            replaced[result] = result.replace(operands=(new,), attrs={"index": kept.index(number)})
    return replaced


def _narrowed(
    comp: Computation, state: Shape, kept: list[int], sunk: dict[int, Instr], *, is_body: bool
) -> Computation:
    """`comp` on the state that is left; elements that went are literals, or nobody reads them."""
    old = comp.params[0]
    param = old.replace(shape=state)
    root = make(comp.root, "tuple", state, [comp.root.operands[n] for n in kept]) if is_body else comp.root
    replaced: dict[Instr, Instr] = {}
    for instr in comp.instrs:
        if instr.opcode != "get-tuple-element" or instr.operands[0] is not old:
            continue
        number = instr.attrs["index"]
        if number in sunk:
            literal = freeze(sunk[number].attrs["literal"])
            replaced[instr] = make(instr, "constant", instr.shape, (), literal=literal)
        elif number in kept:
            replaced[instr] = instr.replace(operands=(param,), attrs={"index": kept.index(number)})
    replaced[old] = param
    if is_body:
        replaced[comp.root] = root
    return rebuild(comp, replaced, drop_dead=True)


def run_module(module: Module) -> Module:
    """A body that several loops share may become another one of each."""
    return with_unique_names(map_computations(module, run))


PASS = Pass("while-simplifier", run_module)
