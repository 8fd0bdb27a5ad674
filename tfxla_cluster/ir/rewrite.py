"""Rewriting: new nodes for what changes and for its users, the rest shared.

Sources are kept: what replaces an instruction takes over its sources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ..errors import InternalError
from .node import CALLED_ATTRS, Computation, Instr, Module, holds
from .opcode import has_effect
from .size_makers import size_makers

# Nodes shared by unrelated users: they stand for no TF node of the instructions they replace.
SOURCELESS = ("parameter", "constant")


class Names:
    """Gives each instruction of a computation a name of its own."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def unique(self, name: str) -> str:
        """`name`, or `name.N` with the first free N where it is taken; the answer is taken from now on."""
        if name in self._taken:
            count = self._next.get(name, 1)
            while f"{name}.{count}" in self._taken:
                count += 1
            self._next[name] = count + 1
            name = f"{name}.{count}"
        self._taken.add(name)
        return name


def rebuild(
    comp: Computation,
    replace: Mapping[Instr, Instr],
    *,
    drop_dead: bool = False,
    called: Mapping[Computation, Computation] | None = None,
) -> Computation:
    """`comp` with each instruction in `replace` replaced by its value, users included.

    Replacements may be instructions of `comp` or new ones, whose operands may be new too or belong
    to `comp` (and be replaced themselves); a replacement must not use what it replaces. Order is
    kept; new instructions come where the first user of the replaced one can see them. `called` maps
    called computations to new ones. Returns `comp` itself when nothing changes.
    """
    if not replace and not called and not drop_dead:
        return comp
    emitter = _Emitter(comp, replace, called or {})
    live = live_instructions(comp, emitter.target) if drop_dead else None
    for instr in comp.instrs:
        made = emitter.target(instr)
        if (made is not instr and not keeps(made)) or (live is not None and made not in live):
            continue  # what is replaced comes where its users do; an effect has none
        emitter.emit(instr)
    root = emitter.emit(comp.root)
    if len(emitter.order) == len(comp.instrs) and all(a is b for a, b in zip(emitter.order, comp.instrs)):
        return comp
    return Computation(comp.name, tuple(emitter.order), root)


class _Emitter:
    """Emits nodes, operands and what makes their sizes first, each once."""

    def __init__(
        self, comp: Computation, replace: Mapping[Instr, Instr], called: Mapping[Computation, Computation]
    ) -> None:
        self._replace, self._called = replace, called
        self._own = set(comp.instrs)
        self._makers = size_makers(comp)
        self._kept_names = {i.name for i in comp.instrs if i not in replace}
        self._names = Names(self._kept_names)
        self._extra: dict[Instr, frozenset[str]] = {}
        for old in replace:
            new = self.target(old)
            if old.sources and new.opcode not in SOURCELESS:
                self._extra[new] = self._extra.get(new, frozenset()) | old.sources
        self._done: dict[Instr, Instr] = {}
        self.order: list[Instr] = []

    def target(self, instr: Instr) -> Instr:
        """What finally replaces `instr`, itself if nothing does."""
        while instr in self._replace:
            instr = self._replace[instr]
        return instr

    def emit(self, instr: Instr) -> Instr:
        """The node that now stands for `instr`; it and its operands are in `order`."""
        stack = [self.target(instr)]
        entered: set[Instr] = set()
        while stack:
            node = stack[-1]
            if node in self._done:
                stack.pop()
                continue
            wanted = [t for t in map(self.target, node.operands) if t not in self._done]
            wanted += [t for t in map(self.target, node.control) if t not in self._done]
            if self._makers is not None:
                wanted += [t for t in map(self.target, self._makers(node)) if t not in self._done and t is not node]
            if wanted:
                if node in entered:
                    raise InternalError(f"{node.name} depends on itself")
                entered.add(node)
                stack.extend(reversed(wanted))
                continue
            stack.pop()
            self._done[node] = self._renewed(node)
            self.order.append(self._done[node])
        return self._done[self.target(instr)]

    def _renewed(self, node: Instr) -> Instr:
        changes: dict[str, object] = {}
        operands = tuple([self._done[self.target(o)] for o in node.operands])
        if operands != node.operands:
            changes["operands"] = operands
        if node.control:
            control = tuple([self._done[self.target(c)] for c in node.control])
            if control != node.control:
                changes["control"] = control
        sources = self._extra.get(node, frozenset()) | carried(node.operands, self.target)
        if not sources <= node.sources:
            changes["sources"] = node.sources | sources
        if self._called and any(c in self._called for c in node.called):
            changes["attrs"] = relinked(node, self._called)
        if node not in self._own:
            name = self._names.unique(node.name)
            if name != node.name:
                changes["name"] = name
        return node.replace(**changes) if changes else node


def carried(operands: Sequence[Instr], target: Callable[[Instr], Instr]) -> frozenset[str]:
    """Sources of operands that became a parameter or a literal, which stand for no TF node: the user takes them."""
    found: frozenset[str] = frozenset()
    for operand in operands:
        new = target(operand)
        if new is not operand and new.opcode in SOURCELESS and operand.opcode not in SOURCELESS:
            found |= operand.sources
    return found


def relinked(instr: Instr, called: Mapping[Computation, Computation]) -> dict[str, object]:
    """The attributes of `instr` with the computations it calls mapped through `called`."""
    attrs = dict(instr.attrs)
    for key in CALLED_ATTRS:
        value = attrs.get(key)
        if isinstance(value, Computation):
            attrs[key] = called.get(value, value)
        elif value is not None:
            attrs[key] = tuple(called.get(c, c) for c in value)
    return attrs


def live_instructions(comp: Computation, target: Callable[[Instr], Instr] = lambda i: i) -> set[Instr]:
    """What the root and the instructions with an effect need, parameters included, and what makes their sizes."""
    makers = size_makers(comp)
    roots = [target(comp.root)]
    roots += [target(i) for i in comp.instrs if i.opcode == "parameter" or keeps(i)]
    live: set[Instr] = set()
    while roots:
        instr = roots.pop()
        if instr not in live:
            live.add(instr)
            roots.extend(map(target, instr.operands))
            roots.extend(map(target, instr.control))
            roots.extend(map(target, makers(instr) if makers is not None else ()))
    return live


def keeps(instr: Instr) -> bool:
    """True when `instr` has an effect and must stay though nobody uses it."""
    return holds(instr, "keeps", _has_effect)


def _has_effect(instr: Instr) -> bool:
    """By itself, not by what it calls."""
    if instr.opcode == "custom-call":
        return bool(instr.attrs.get("custom_call_has_side_effect", False))
    return has_effect(instr.opcode) and instr.opcode not in ("rng", "rng-get-and-update-state")


def map_computations(module: Module, fn: Callable[[Computation], Computation]) -> Module:
    """`fn` applied to each computation, callees first; callers are relinked. Same module when none changes."""
    changed: dict[Computation, Computation] = {}
    for comp in module.computations():
        linked = rebuild(comp, {}, called=changed) if changed else comp
        new = fn(linked)
        if new is not comp:
            changed[comp] = new
    return module.replace(entry=changed[module.entry]) if module.entry in changed else module


def with_unique_names(module: Module) -> Module:
    """`module` with a name of its own for each computation; the same where all have one."""
    comps = list(module.computations())
    if len({comp.name for comp in comps}) == len(comps):
        return module
    names = Names([module.entry.name])

    def named(comp: Computation) -> Computation:
        name = comp.name if comp.name == module.entry.name else names.unique(comp.name)
        return comp if name == comp.name else Computation(name, comp.instrs, comp.root)

    return map_computations(module, named)


def inline(comp: Computation, args: Sequence[Instr], sources: frozenset[str] = frozenset()) -> Instr:
    """Copies of the instructions of `comp` with `args` for its parameters; returns the root's copy.

    Each copy also gets `sources`. The copies belong to no computation until `rebuild` emits them.
    """
    copies: dict[Instr, Instr] = dict(zip(comp.params, args))
    for instr in comp.instrs:
        if instr not in copies:
            copies[instr] = instr.replace(
                operands=tuple([copies[o] for o in instr.operands]),
                control=tuple([copies[c] for c in instr.control]),
                sources=instr.sources | sources,
            )
    return copies[comp.root]
