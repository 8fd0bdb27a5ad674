"""Literals that are handed over, from the entry's parameters to the computations that use them.

    body {                                             body {
      state = (s32[], f32[s0]) parameter(0)              state = (s32[], f32[s0], f32[s0]) parameter(0)
      given = f32[s0] parameter(-4)           -->        given = f32[s0] get-tuple-element(state), index=2
      ...                                                ...
      ROOT next = (s32[], f32[s0]) tuple(i, x)           ROOT more = (s32[], f32[s0], f32[s0]) tuple(i, x, given)
    }                                                  }
    ENTRY main { ... while(start), body=body }         ENTRY main { ... while(tuple(i, x, p3)), body=body }

A parameter of a negative number, -1 - n, stands for the entry's parameter n. Loops carry them, branches get them with
what they take, functions as further arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..ir import attributes
from ..ir.node import Computation, Instr, Module
from ..ir.rewrite import Names, rebuild, relinked
from ..ir.shape import Shape, tuple_of


def stand_in(number: int) -> int:
    """The number of a parameter that stands for the entry's parameter `number`, and of that one again."""
    return -1 - number


def threaded(module: Module) -> Module:
    """The module without parameters of negative numbers; what has them is called by `WAYS` alone."""
    return _Threading(module).module()


class _Threading:
    def __init__(self, old: Module) -> None:
        self.old, self.names = old, Names(comp.name for comp in old.computations())
        self.done: dict[Computation, Computation] = {}
        self.adapted: dict[tuple[Computation, str, tuple[int, ...]], Computation] = {}

    def module(self) -> Module:
        """Callees first."""
        for comp in self.old.computations():
            self.done[comp] = self._computation(comp)
        return self.old.replace(entry=self.done[self.old.entry])

    def _computation(self, comp: Computation) -> Computation:
        """With what its callees need as parameters of its own, of negative numbers but in the entry."""
        is_entry = comp is self.old.entry
        own = {i.attrs["parameter_number"]: i for i in comp.params}
        given = own if is_entry else {stand_in(number): param for number, param in own.items() if number < 0}
        replaced: dict[Instr, Instr] = {}
        for instr in comp.instrs:
            needed = {number: p for c in instr.called for number, p in _needs(self.done[c]).items()}
            for number in sorted(needed.keys() - given.keys()):
                place = number if is_entry else stand_in(number)
                given[number] = _parameter(needed[number], place, needed[number].shape)
            if needed:
                values = {number: given[number] for number in sorted(needed)}
                replaced[instr] = WAYS[instr.opcode](instr, values, self._adapt)
        changed = {old: new for old, new in self.done.items() if old is not new}
        return rebuild(comp, replaced, called=changed)

    def _adapt(self, old: Computation, way: str, values: Mapping[int, Instr]) -> Computation:
        """A computation that is called so, with these values handed over."""
        comp, numbers = self.done[old], tuple(values)
        key = comp, way, numbers
        if key not in self.adapted:
            shapes = {number: value.shape for number, value in values.items()}
            made = _arguments(comp, shapes) if way == "call" else _element(comp, shapes, way == "body")
            self.adapted[key] = Computation(self.names.unique(comp.name), made.instrs, made.root)
        return self.adapted[key]


def _needs(comp: Computation) -> dict[int, Instr]:
    """The entry's parameters that it uses, or what it calls does, and what stands for them."""
    numbers = ((p, p.attrs["parameter_number"]) for p in comp.params)
    return {stand_in(number): p for p, number in numbers if number < 0}


def _parameter(like: Instr, number: int, shape: Shape) -> Instr:
    return like.replace(shape=shape, attrs=attributes.complete("parameter", {"parameter_number": number}))


def _part(of: Instr, index: int) -> Instr:
    attrs = attributes.complete("get-tuple-element", {"index": index})
    return Instr(
        f"{of.name}.part", "get-tuple-element", of.shape.elements[index], (of,), attrs, of.sources, of.metadata
    )


def _parts(of: Instr) -> tuple[Instr, ...]:
    """The elements of a tuple; of an array itself."""
    return tuple(_part(of, k) for k in range(len(of.shape.elements))) if of.shape.kind == "tuple" else (of,)


def _tuple(like: Instr, parts: Sequence[Instr]) -> Instr:
    shape = tuple_of(*(part.shape for part in parts))
    return Instr(f"{like.name}.with", "tuple", shape, tuple(parts), {}, like.sources, like.metadata)


def _whole(of: Instr, old: Shape) -> Instr:
    """What `of`, a tuple with more elements behind, was before: of this shape."""
    if old.kind != "tuple":
        return _part(of, 0)
    return _tuple(of, [_part(of, k) for k in range(len(old.elements))])


def _arguments(comp: Computation, shapes: Mapping[int, Shape]) -> Computation:
    """Values as further parameters."""
    needs, count = _needs(comp), sum(p.attrs["parameter_number"] >= 0 for p in comp.params)
    return rebuild(
        comp, {needs[number]: _parameter(needs[number], count + k, shapes[number]) for k, number in enumerate(shapes)}
    )


def _element(comp: Computation, shapes: Mapping[int, Shape], returns: bool) -> Computation:
    """Values as further elements of the parameter; `returns`: and of the result."""
    needs, old = _needs(comp), next(p for p in comp.params if p.attrs["parameter_number"] == 0)
    elements = old.shape.elements if old.shape.kind == "tuple" else (old.shape,)
    new = _parameter(old, 0, tuple_of(*elements, *shapes.values()))
    values = {number: _part(new, len(elements) + k) for k, number in enumerate(shapes)}
    replaced = {old: _whole(new, old.shape), **{p: values[number] for number, p in needs.items()}}
    if returns:
        result = _tuple(comp.root, [*_parts(comp.root), *values.values()])
        comp = Computation(comp.name, (*comp.instrs, result), result)
    made = rebuild(comp, replaced)
    # Of a computation that reads none of it, nothing else names its parameter.
    return made if made.params else Computation(made.name, (new, *made.instrs), made.root)


Adapt = Callable[[Computation, str, Mapping[int, Instr]], Computation]


def _call(instr: Instr, values: Mapping[int, Instr], adapt: Adapt) -> Instr:
    attrs = relinked(instr, {c: adapt(c, "call", values) for c in instr.called})
    return instr.replace(operands=(*instr.operands, *values.values()), attrs=attrs)


def _conditional(instr: Instr, values: Mapping[int, Instr], adapt: Adapt) -> Instr:
    chosen, *arguments = instr.operands
    attrs = relinked(instr, {c: adapt(c, "branch", values) for c in instr.called})
    more = [_tuple(instr, [*_parts(argument), *values.values()]) for argument in arguments]
    return instr.replace(operands=(chosen, *more), attrs=attrs)


def _while(instr: Instr, values: Mapping[int, Instr], adapt: Adapt) -> Instr:
    condition, body = instr.attrs["condition"], instr.attrs["body"]
    ways = {condition: adapt(condition, "branch", values), body: adapt(body, "body", values)}
    start = _tuple(instr, [*_parts(instr.operands[0]), *values.values()])
    loop = instr.replace(shape=start.shape, operands=(start,), attrs=relinked(instr, ways))
    return _whole(loop, instr.shape)


WAYS: Mapping[str, Callable[[Instr, Mapping[int, Instr], Adapt], Instr]] = {
    "call": _call,
    "conditional": _conditional,
    "while": _while,
}
"""What calls computations that may be handed values -> how."""
