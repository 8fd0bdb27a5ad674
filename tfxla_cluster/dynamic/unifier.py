"""Modules of one structure at several sizes, side by side --> a module with these sizes, instruction by instruction.

A number that is the same in all of them stays; any other is an expression over the sizes that fits it (`fit`), the
first with which shape inference gives what the modules have. Literals that follow a size become instructions that
compute it (`literals`).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import lcm
from typing import Any

from ..errors import VerifierError
from ..ir.dim import (
    Dim,
    DimExpr,
    bounded_only,
    capacity,
    evaluate,
    has_produced,
    instantiate,
    is_produced,
    leaves,
    product,
    with_bound,
)
from ..ir.infer import infer
from ..ir.literal import equal_bits
from ..ir.node import Computation, Instr, Module, WindowDim
from ..ir.polynomial import as_dim, polynomial
from ..ir.rewrite import Names, relinked
from ..ir.shape import Shape
from ..ir.size_values import SIZED, expressions, replaced, window_sizes, with_window_sizes
from . import forms, handing, literals
from .fit import Sizes, is_guess
from .forms import Form, Handed
from .misfit import Misfit, short
from .rows import Body, Row, Rows

_MOST_CHOICES = 64  # of expressions that are tried for the numbers of one instruction
_MOST_OPTIONS = 4  # of expressions for one number of several
# Opcodes whose result's dimensions do not follow from their operands.
_CLAIMS = frozenset(("bitcast", "broadcast", "custom-call", "dynamic-reshape", "iota", "reshape")) | frozenset(
    ("rng", "rng-bit-generator", "set-dimension-size")
)


@dataclass(frozen=True)
class Generic:
    """A module for many sizes.

    module: with named sizes, verified, to be compiled. template: the rows of one of the modules with named sizes, its
    literals as that one has them; literals: how those that vary follow the sizes, by (body, row). origin: the modules
    that it was made from, in order. Parameters of `module` beyond those of the template are literals that are handed
    over (`prove.handed_over`).
    """

    module: Module
    template: Rows
    literals: Mapping[tuple[int, int], Form | Handed]
    origin: tuple[Module, ...]

    @property
    def is_guarded(self) -> bool:
        """Guards on dimensions say all that the arguments' sizes have to fulfil: none of them is an expression, and no
        literal ends where the largest size ended, or is each module's own."""
        dims = (d for p in self.module.entry.params for d in p.shape.dims)
        unknown = any(isinstance(form, (forms.Corner, Handed)) for form in self.literals.values())
        return not unknown and all(isinstance(d, int) or d.is_size for d in dims)

    @functools.cached_property
    def is_guess(self) -> bool:
        """Has it numbers that others may be at sizes besides those of the modules that it was made from?"""
        shapes = {id(row.instr.shape): row.instr.shape for body in self.template.bodies for row in body.rows}
        held = [_sized(row.instr) for body in self.template.bodies for row in body.rows]
        in_literals = (dim for form in self.literals.values() for dim in forms.expressions_in(form))
        return any(map(is_guess, {*expressions((*shapes.values(), *held)), *in_literals}))

    @property
    def every(self) -> int:
        """Sizes that leave the same by this number are of one residue class to it."""
        return lcm(*(size.every for p in self.module.entry.params for d in p.shape.dims for size in leaves(d)))


class Parted(Exception):
    """Modules part at an instruction; `for_some_sizes`: a rule is broken that may hold for fewer sizes; `skipped`:
    expressions that are less sure were left out."""

    def __init__(self, misfit: Misfit, for_some_sizes: bool = False, skipped: bool = False) -> None:
        super().__init__(str(misfit))
        self.misfit, self.for_some_sizes, self.skipped = misfit, for_some_sizes, skipped


@dataclass
class _Scope:
    """A computation that is being made: what became of each instruction in the template and in the generic module,
    whose instructions are in `order`."""

    template: dict[Instr, Instr] = field(default_factory=dict)
    made: dict[Instr, Instr] = field(default_factory=dict)
    order: list[Instr] = field(default_factory=list)

    def keep(self, old: Instr, template: Instr, called: Mapping[Computation, Computation]) -> None:
        """The template of an instruction, and the same over what was made of its operands and of what it calls."""
        self.template[old] = template
        operands, control = (tuple([self.made[i] for i in listed]) for listed in (old.operands, old.control))
        made = template
        if operands != template.operands or control != template.control:
            made = made.replace(operands=operands, control=control)
        if old.called:
            linked = relinked(old, called)
            made = made.replace(
                attrs={n: linked[n] if linked[n] is not old.attrs[n] else v for n, v in made.attrs.items()}
            )
        self.made[old] = made
        self.order.append(made)


class Unifier:
    """Of modules of one structure. Bodies are made when something first calls them, for the shapes that it hands over;
    where another hands over others, the verifier says so. hands: literals that follow no size may be parameters.
    guesses: expressions that are less sure stand for one that breaks a rule at some sizes."""

    def __init__(self, modules: Sequence[Rows], sizes: Sizes, hands: bool = False, guesses: bool = True) -> None:
        self.modules, self.sizes, self.guesses = modules, sizes, guesses
        self.room = literals.MOST_HANDED if hands else 0
        self.numbers = {body.comp: number for number, body in enumerate(modules[-1].bodies)}
        self.templates: dict[Computation, Computation] = {}
        self.made: dict[Computation, Computation] = {}
        self.scopes: dict[Computation, _Scope] = {}
        self.forms: dict[tuple[int, int], Form | Handed] = {}
        self.shapes: dict[Shape, Shape] = {}  # one object for equal ones, as where a module is read

    def generic(self) -> Generic:
        """Raises Parted."""
        last = self.modules[-1].module
        shapes = [tuple(p.shape for p in peers) for peers in zip(*(rows.module.entry.params for rows in self.modules))]
        params = [self._likeliest(peers, param) for peers, param in zip(shapes, last.entry.params)]
        for shape in params:
            self.sizes.learn_shape(shape.dims)
        self._body(0, params)
        template = Rows(
            last.replace(entry=self.templates[last.entry]), tuple(map(self._template_rows, self.modules[-1].bodies))
        )
        origin = tuple(rows.module for rows in self.modules)
        made = last.replace(entry=self.made[last.entry])
        nested = any(isinstance(form, Handed) and body for (body, _), form in self.forms.items())
        return Generic(handing.threaded(made) if nested else made, template, self.forms, origin)

    def _template_rows(self, body: Body) -> Body:
        place = self.scopes[body.comp].template
        rows = tuple(Row(place[row.instr], row.operands, row.control, row.called) for row in body.rows)
        return Body(self.templates[body.comp], rows, body.root)

    def _body(self, number: int, params: Sequence[Shape] | None) -> None:
        """Body `number` for parameters of these shapes; of None, for those it has."""
        bodies = [rows.bodies[number] for rows in self.modules]
        comp, scope = bodies[-1].comp, _Scope()
        places = {row.instr: place for place, row in enumerate(bodies[-1].rows)}
        names = Names(instr.name for instr in comp.instrs)
        for instr in (i for i in comp.instrs if i in places):
            peers = tuple(body.rows[places[instr]].instr for body in bodies)
            if instr.opcode == "parameter":
                shape = instr.shape if params is None else params[instr.attrs["parameter_number"]]
                scope.keep(instr, instr if shape is instr.shape else instr.replace(shape=shape), self.made)
            elif instr.opcode == "constant":
                self._constant(scope, instr, peers, (number, places[instr]), names)
            else:
                scope.keep(instr, self._instruction(scope, instr, peers), self.made)
        self.scopes[comp] = scope
        self.templates[comp] = Computation(comp.name, tuple(scope.template.values()), scope.template[comp.root])
        self.made[comp] = Computation(comp.name, tuple(scope.order), scope.made[comp.root])

    def _constant(
        self, scope: _Scope, instr: Instr, peers: tuple[Instr, ...], place: tuple[int, int], names: Names
    ) -> None:
        values = [peer.attrs["literal"] for peer in peers]
        if all(equal_bits(values[0], value) for value in values[1:]):
            scope.keep(instr, instr, self.made)
            return
        shape = self._likeliest(tuple(peer.shape for peer in peers), instr)
        fitted = literals.fit(values, shape.dims, self.sizes)
        form = fitted or self._handed(values, shape, place) or literals.cut(values, shape.dims)
        if form is None:
            raise Parted(Misfit(instr, "a literal varies that follows no size", tuple(map(short, values))))

        def add(opcode: str, shape: Shape, operands: tuple[Instr, ...], attrs: dict[str, Any]) -> Instr:
            name = names.unique(f"{instr.name}.{opcode}")
            made = Instr(name, opcode, shape, operands, attrs, instr.sources, instr.metadata)
            scope.order.append(made)
            return made

        self.forms[place] = form
        scope.template[instr] = instr.replace(shape=shape)
        if isinstance(form, Handed) and place[0]:
            form = replace(form, parameter=handing.stand_in(form.parameter))
        scope.made[instr] = form.write(forms.writer(add))

    def _handed(self, values: Sequence[Any], shape: Shape, place: tuple[int, int]) -> Handed | None:
        """A literal as one more parameter of the entry, where there is room for it, and a way to the body."""
        if not self.room or not self._reaches(place[0]):
            return None
        number = len(self.modules[-1].module.entry.params)
        number += sum(isinstance(form, Handed) for form in self.forms.values())
        found = literals.handed(values, shape.dims, number)
        if found is None or found[1] > self.room:
            return None
        self.room -= found[1]
        return found[0]

    def _reaches(self, body: int) -> bool:
        """Whether all that call it, and what calls these, hand values over."""
        callers = [(k, row) for k, of in enumerate(self.modules[-1].bodies) for row in of.rows if body in row.called]
        return all(row.instr.opcode in handing.WAYS and self._reaches(k) for k, row in callers)

    def _instruction(self, scope: _Scope, instr: Instr, peers: tuple[Instr, ...]) -> Instr:
        """The template of an instruction that is no parameter and no literal."""
        operands, control = (tuple([scope.template[i] for i in listed]) for listed in (instr.operands, instr.control))
        for number, comp in enumerate(instr.called):
            if comp not in self.made:
                self._body(self.numbers[comp], _handed_over(instr, operands, number))
        made = instr
        if operands != instr.operands or control != instr.control:
            made = made.replace(operands=operands, control=control)
        if instr.called:
            made = made.replace(attrs=relinked(instr, self.templates))
        varies = any(peer.shape != instr.shape or _sized(peer) != _sized(instr) for peer in peers)
        return self._fitted(made, peers) if varies else made

    def _fitted(self, instr: Instr, peers: tuple[Instr, ...]) -> Instr:
        """With the first choice of its numbers that inference takes and that gives the shapes that there are."""
        refusal, breaks_rule, skipped = "no expression fits", False, False
        # Not itertools.product, which finds all claims before it gives the first: nearly always that is right.
        choices = ((a, c) for a in self._attributes(instr, peers) for c in self._claims(instr, peers))
        for attrs, claimed in itertools.islice(choices, _MOST_CHOICES):
            if breaks_rule and not self.guesses and _has_guess(instr, attrs):
                skipped = True
                continue
            try:
                shape = infer(instr.opcode, [o.shape for o in instr.operands], attrs, claimed)
            except VerifierError as error:
                refusal, breaks_rule = error.message, True
                continue
            shape = _produced_as(shape, instr.shape)
            if self._gives(shape, peers):
                shape = replaced(shape, _normal)
                self._learn(shape, peers)
                shape = _laid_out(shape, instr.shape)
                return instr.replace(attrs=attrs, shape=self.shapes.setdefault(shape, shape))
            refusal = f"it would be {shape}"
        shapes = tuple(str(peer.shape) for peer in peers)
        misfit = Misfit(instr, f"its sizes follow from those of the arguments in no way ({refusal})", shapes)
        raise Parted(misfit, breaks_rule, skipped)

    def _attributes(self, instr: Instr, peers: tuple[Instr, ...]) -> Iterator[Mapping[str, Any]]:
        """The attributes with each choice of the sizes among them."""
        values = [_sized(peer) for peer in peers]
        if all(value == values[0] for value in values):
            yield instr.attrs
            return
        for value in self._values(values, instr, _dims(instr.operands)):
            yield {**instr.attrs, SIZED[instr.opcode]: value}

    def _claims(self, instr: Instr, peers: tuple[Instr, ...]) -> Iterator[Shape]:
        """The shapes that the instruction may say it has; where they follow from the operands any is asked about."""
        shapes, near = tuple(peer.shape for peer in peers), _dims(instr.operands)
        if instr.opcode not in _CLAIMS:
            yield instr.shape
        elif instr.opcode == "broadcast":
            at = dict(zip(instr.attrs["dimensions"], instr.operands[0].shape.dims))
            for shape in self._shapes(shapes, instr, near):
                yield replace(shape, dims=tuple(at.get(n, d) for n, d in enumerate(shape.dims)))
        elif instr.opcode in ("reshape", "bitcast"):
            merged = [product(near[a:b]) for a in range(len(near)) for b in range(a + 2, len(near) + 1)]
            yield from self._shapes(shapes, instr, near + merged)
        else:
            yield from self._shapes(shapes, instr, near)

    def _shapes(self, shapes: tuple[Shape, ...], instr: Instr, near: Sequence[Dim]) -> Iterator[Shape]:
        """What stands for these shapes, the likeliest first."""
        parts = [(shape.dims, shape.elements) for shape in shapes]
        for dims, elements in self._values(parts, instr, near):
            yield replace(shapes[-1], dims=dims, elements=elements)

    def _likeliest(self, shapes: tuple[Shape, ...], instr: Instr) -> Shape:
        found = next(self._shapes(shapes, instr, ()), None)
        if found is None:
            raise Parted(
                Misfit(instr, "its sizes follow from those of the arguments in no way", tuple(map(str, shapes)))
            )
        return found

    def _values(self, values: Sequence[Any], instr: Instr, near: Sequence[Dim]) -> Iterator[Any]:
        """What stands for nested tuples of numbers, shapes and windows, the likeliest first."""
        last = values[-1]
        if all(value == last for value in values):
            yield last
        elif isinstance(last, tuple):
            parts = list(zip(*values))
            likeliest = tuple(next(self._values(part, instr, near), None) for part in parts)
            yield from [likeliest] if None not in likeliest else []
            options = (itertools.islice(self._values(part, instr, near), _MOST_OPTIONS) for part in parts)
            yield from (chosen for chosen in itertools.product(*options) if chosen != likeliest)
        elif isinstance(last, Shape):
            yield from self._shapes(tuple(values), instr, near)
        elif isinstance(last, WindowDim):
            taps, *pads = zip(*map(window_sizes, values))
            for size in self._values(taps, instr, near):
                for low, high in self._values(list(zip(*pads)), instr, [size]):
                    yield with_window_sizes(last, (size, low, high))
        elif all(isinstance(value, int) for value in values):
            yield from self.sizes.candidates(tuple(values), near)
        else:
            yield from self._produced(values, near)

    def _produced(self, values: Sequence[Dim], near: Sequence[Dim]) -> Iterator[Dim]:
        """Sizes that an instruction produces, known by their bounds alone."""
        bounds = tuple(value.bound for value in values if is_produced(value))
        if len(bounds) == len(values):
            numbers = tuple(bound for bound in bounds if isinstance(bound, int))
            yield from map(bounded_only, self.sizes.candidates(numbers, list(map(capacity, near))))

    def _gives(self, shape: Shape, peers: tuple[Instr, ...]) -> bool:
        """It is the shape that each module has."""
        for env, peer in zip(self.sizes.environments(), peers):
            if not replaced(shape, lambda dim, env=env: at(dim, env)).same_as(peer.shape):  # type: ignore[misc]
                return False
        return True

    def _learn(self, shape: Shape, peers: tuple[Instr, ...]) -> None:
        self.sizes.learn_shape(shape.dims)
        for dim, vector in zip(shape.dims, zip(*(peer.shape.dims for peer in peers))):
            if isinstance(dim, DimExpr) and not has_produced(dim):
                self.sizes.learn(dim, vector)


def at(dim: DimExpr, env: Mapping[str, int]) -> Dim:
    """The number that an expression is at these sizes; a size that an instruction produces with its bound there."""
    return instantiate(dim, env) if has_produced(dim) else evaluate(dim, env)


def _normal(dim: DimExpr) -> Dim:
    return with_bound(dim, as_dim(polynomial(dim.bound))) if is_produced(dim) else as_dim(polynomial(dim))


def _produced_as(shape: Shape, like: Shape) -> Shape:
    """A shape that follows from operands, whose dimensions are produced by the run where those of `like` are."""
    if shape.is_tuple:
        elements = tuple(map(_produced_as, shape.elements, like.elements))
        return replace(shape, elements=elements)
    dims = zip(shape.dims, like.dims)
    return replace(shape, dims=tuple(bounded_only(capacity(d)) if is_produced(known) else d for d, known in dims))


def _dims(operands: Sequence[Instr]) -> list[Dim]:
    return [dim for operand in operands for dim in operand.shape.dims]


def _has_guess(instr: Instr, attrs: Mapping[str, Any]) -> bool:
    """Has an attribute of sizes expressions that are less sure, and not those of the operands?"""
    near = _dims(instr.operands)
    return any(is_guess(found) for found in expressions(attrs.get(SIZED.get(instr.opcode, ""))) if found not in near)


def _sized(instr: Instr) -> Any:
    """The attribute that may hold sizes."""
    return instr.attrs.get(SIZED.get(instr.opcode, ""))


def _laid_out(shape: Shape, like: Shape) -> Shape:
    """A shape in the layout of another."""
    return replace(shape, layout=like.layout, elements=tuple(map(_laid_out, shape.elements, like.elements)))


def _handed_over(instr: Instr, operands: tuple[Instr, ...], number: int) -> list[Shape] | None:
    """The shapes of the parameters of the computation that an instruction calls as its `number`th; None where they are
    scalars."""
    if instr.opcode in ("call", "fusion", "async-start"):
        return [operand.shape for operand in operands]
    if instr.opcode == "while":
        return [operands[0].shape]
    if instr.opcode == "conditional":
        return [operands[1 + number].shape]
    return None
