"""The order in which a computation's instructions run: topological, with little memory alive at once."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence

from ..ir import opcode
from ..ir.dim import sample
from ..ir.node import Computation, Instr
from ..ir.rewrite import keeps
from ..ir.shape import Shape
from ..ir.size_makers import SizeMakers, size_makers

# The result lies in the first operand's buffers.
SAME_BUFFERS = frozenset(["reshape", "bitcast", "copy", "opt-barrier", "domain", "add-dependency"])
# Results that need no buffers of their own.
VIEWS = SAME_BUFFERS | frozenset(
    ["tuple", "get-tuple-element", "after-all", "parameter", "constant", "partition-id", "replica-id"]
)


def leaves(shape: Shape) -> list[Shape]:
    """The array shapes of a shape, in order; a token has none."""
    if shape.is_array:
        return [shape]
    return [leaf for element in shape.elements for leaf in leaves(element)]


def element_slice(instr: Instr) -> slice:
    """Which of the flattened arrays of its operand a get-tuple-element takes."""
    shape, index = instr.operands[0].shape, int(instr.attrs["index"])
    start = sum(len(leaves(e)) for e in shape.elements[:index])
    return slice(start, start + len(leaves(shape.elements[index])))


def unchanged(body: Computation) -> frozenset[int]:
    """Flattened state arrays that `body` (one parameter, a root like it) hands through as they are."""
    origin = _origins(body, [list(range(len(leaves(p.shape)))) for p in body.params])
    return frozenset(n for n, source in enumerate(origin) if source == n)


def _origins(comp: Computation, arguments: Sequence[list[int | None]]) -> list[int | None]:
    """For each array of the root, the argument number it is, seen through views and loops; None: computed."""
    env: dict[Instr, list[int | None]] = dict(zip(comp.params, arguments))
    for instr in comp.instrs:
        if instr in env:
            continue
        operands = [env[o] for o in instr.operands]
        if instr.opcode == "tuple":
            env[instr] = [x for operand in operands for x in operand]
        elif instr.opcode == "get-tuple-element":
            env[instr] = operands[0][element_slice(instr)]
        elif instr.opcode in SAME_BUFFERS:
            env[instr] = operands[0]
        elif instr.opcode == "while":
            kept = unchanged(instr.attrs["body"])
            env[instr] = [x if n in kept else None for n, x in enumerate(operands[0])]
        else:
            env[instr] = [None] * len(leaves(instr.shape))
    return env[comp.root]


def order(comp: Computation, inplace: Callable[[Instr], Sequence[int]]) -> list[Instr]:
    """Instructions the root needs, or that have effects, in the better of two orders by peak memory:
    as they stand, and greedily by what each frees. `inplace` gives the operand numbers a unit
    overwrites: it waits for other readers of them that are ready."""
    makers = size_makers(comp)
    instrs = _needed(comp, makers)
    if comp.root.opcode in VIEWS and len(instrs) <= 2:
        return instrs
    edges = _edges(instrs, makers)
    written = _in_order(instrs, edges) if makers else instrs
    sizes = {i: result_bytes(i) for i in instrs}
    greedy = _Greedy(instrs, comp.root, sizes, inplace, edges).run()
    return min(greedy, written, key=lambda found: peak_bytes(found, comp.root, sizes))


def _needed(comp: Computation, makers: SizeMakers | None) -> list[Instr]:
    todo = [comp.root, *filter(_has_effect, comp.instrs)]
    needed: set[Instr] = set()
    while todo:
        instr = todo.pop()
        if instr not in needed:
            needed.add(instr)
            todo += (*instr.operands, *instr.control, *(makers(instr) if makers else ()))
    return [i for i in comp.instrs if i in needed]


def _has_effect(instr: Instr) -> bool:
    """By itself, or by what it calls."""
    return opcode.has_effect(instr.opcode) or keeps(instr)


def _edges(instrs: Sequence[Instr], makers: SizeMakers | None) -> dict[Instr, set[Instr]]:
    """What must come before each: operands, control, what makes its sizes, and effects in the order they stand."""
    edges: dict[Instr, set[Instr]] = {}
    effect: Instr | None = None
    for instr in instrs:
        edges[instr] = {*instr.operands, *instr.control, *(makers(instr) if makers else ())}
        if _has_effect(instr):
            if effect is not None:
                edges[instr].add(effect)
            effect = instr
    return edges


def _in_order(instrs: Sequence[Instr], edges: Mapping[Instr, set[Instr]]) -> list[Instr]:
    """The instructions as they stand, but each behind what it needs."""
    place = {instr: n for n, instr in enumerate(instrs)}
    waiting = {instr: len(before) for instr, before in edges.items()}
    followers: dict[Instr, list[Instr]] = {instr: [] for instr in instrs}
    for instr, before in edges.items():
        for other in before:
            followers[other].append(instr)
    ready = [place[instr] for instr in instrs if not waiting[instr]]
    done: list[Instr] = []
    while ready:
        instr = instrs[heapq.heappop(ready)]
        done.append(instr)
        for follower in followers[instr]:
            waiting[follower] -= 1
            if not waiting[follower]:
                heapq.heappush(ready, place[follower])
    return done


def _owners(instrs: Sequence[Instr]) -> dict[Instr, tuple[Instr, ...]]:
    """The instructions whose buffers each result lies in (views reach through)."""
    owners: dict[Instr, tuple[Instr, ...]] = {}
    for instr in instrs:
        if instr.opcode in ("parameter", "constant", "partition-id", "replica-id"):
            owners[instr] = ()
        elif instr.opcode in VIEWS:
            found = [o for operand in instr.operands for o in owners[operand]]
            owners[instr] = tuple(dict.fromkeys(found))
        else:
            owners[instr] = (instr,)
    return owners


def result_bytes(instr: Instr) -> int:
    """Bytes of the arrays of a result, by sample sizes."""
    return sum(sample(leaf.byte_size) for leaf in leaves(instr.shape))


def peak_bytes(instrs: Sequence[Instr], root: Instr, sizes: Mapping[Instr, int]) -> int:
    """Most bytes of results alive at once when the instructions run in this order."""
    owners = _owners(instrs)
    last: dict[Instr, int] = {}
    for position, instr in enumerate(instrs):
        for operand in instr.operands:
            last.update(dict.fromkeys(owners[operand], position))
    last.update(dict.fromkeys(owners[root], len(instrs)))
    ending: dict[int, int] = {}
    alive = peak = 0
    for position, instr in enumerate(instrs):
        if instr in owners[instr]:
            size = sizes[instr]
            alive += size
            end = last.get(instr, position)
            ending[end] = ending.get(end, 0) + size
        peak = max(peak, alive)
        alive -= ending.pop(position, 0)
    return peak


class _Greedy:
    """List scheduling: of the ready instructions, the one after which least memory is alive.

    An instruction's score is what it allocates less what dies with it; it is scored again when a
    buffer it reads has one reader left.
    """

    def __init__(
        self,
        instrs: list[Instr],
        root: Instr,
        sizes: Mapping[Instr, int],
        inplace: Callable[[Instr], Sequence[int]],
        edges: Mapping[Instr, set[Instr]],
    ) -> None:
        self.instrs, self.sizes, self.inplace = instrs, sizes, inplace
        self.place = {instr: n for n, instr in enumerate(instrs)}
        self.owners = _owners(instrs)
        self.waiting: dict[Instr, int] = {}
        self.followers: dict[Instr, list[Instr]] = {i: [] for i in instrs}
        self.readers: dict[Instr, set[Instr]] = {i: set() for i in instrs}
        for instr, before in edges.items():
            self.waiting[instr] = len(before)
            for other in before:
                self.followers[other].append(instr)
            for operand in instr.operands:
                for owner in self.owners[operand]:
                    self.readers[owner].add(instr)
        for owner in self.owners[root]:
            self.readers[owner].add(root)

    def _score(self, instr: Instr) -> tuple[int, int, int]:
        if instr.opcode in VIEWS:
            return (-1, 0, self.place[instr])
        read = {o for operand in instr.operands for o in self.owners[operand]}
        freed = sum(self.sizes[o] for o in read if len(self.readers[o]) == 1)
        return (int(self._overwrites_early(instr)), self.sizes[instr] - freed, self.place[instr])

    def _overwrites_early(self, instr: Instr) -> bool:
        """Whether it would overwrite a buffer that another ready instruction still reads."""
        for number in self.inplace(instr):
            for owner in self._flat_owners(instr, number):
                if any(r is not instr and not self.waiting[r] for r in self.readers[owner]):
                    return True
        return False

    def _flat_owners(self, instr: Instr, number: int) -> tuple[Instr, ...]:
        """Owners of the operand that holds flattened operand array `number`."""
        for operand in instr.operands:
            count = len(leaves(operand.shape))
            if number < count:
                return self.owners[operand]
            number -= count
        return ()

    def run(self) -> list[Instr]:
        ready = [(self._score(i), self.place[i]) for i in self.instrs if not self.waiting[i]]
        heapq.heapify(ready)
        done: list[Instr] = []
        taken: set[int] = set()
        while ready:
            score, number = heapq.heappop(ready)
            instr = self.instrs[number]
            if number in taken:
                continue
            current = self._score(instr)
            if current > score:
                heapq.heappush(ready, (current, number))
                continue
            taken.add(number)
            done.append(instr)
            for changed in self._finish(instr):
                if self.place[changed] not in taken and not self.waiting[changed]:
                    heapq.heappush(ready, (self._score(changed), self.place[changed]))
        return done

    def _finish(self, instr: Instr) -> list[Instr]:
        """Take it out of the graph; the instructions whose score may have fallen."""
        changed: list[Instr] = []
        for follower in self.followers[instr]:
            self.waiting[follower] -= 1
            changed.append(follower)
        for operand in instr.operands:
            for owner in self.owners[operand]:
                self.readers[owner].discard(instr)
                if len(self.readers[owner]) == 1:
                    changed.extend(self.readers[owner])
        return changed
