"""An instruction that a library does, alone or in a fusion: the call, and kernels for what is around it.

The library reads arrays that lie as it takes them and writes the instruction's own value, rounded to its type. Operands
that do not are computed into memory first, and what follows in the fusion reads the value there, each by a kernel of
its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from .....errors import UnsupportedError
from .....fusion.hero import hero_of
from .....fusion.program import output_instrs
from .....ir.dim import Dim
from .....ir.dtype import DType
from .....ir.node import Computation, Instr
from .....ir.rewrite import rebuild
from .....ir.shape import Shape, array, tuple_of
from ...choice import Knobs
from ...code import Params
from ...library import WORKSPACE_ALIGN
from ...unit import Unit, UnitCopy, UnitKernel, UnitLibrary, UnitRef
from .. import fused
from .plain import lower_plain

_VIEWS = ("reshape", "bitcast")


@dataclass(frozen=True, slots=True)
class Arranged:
    """An array of the fusion with its dims in the order in which the library has them."""

    instr: Instr
    order: tuple[int, ...]

    @property
    def is_as_it_lies(self) -> bool:
        """Dims of 1 may stand anywhere."""
        long = [d for d in self.order if self.instr.shape.dims[d] != 1]
        return long == sorted(long)

    def dims(self) -> tuple[Dim, ...]:
        return tuple(self.instr.shape.dims[d] for d in self.order)


class LibraryFusion:
    """The one dot or convolution of `instr` (`hero`), and what is around it; UnsupportedError where there is none."""

    def __init__(self, instr: Instr) -> None:
        self._name = instr.name
        self._comp = instr.attrs["calls"] if instr.opcode == "fusion" else fused.wrap(instr)
        hero = hero_of(self._comp)
        if hero is None:
            raise UnsupportedError(f"{instr.name} holds no dot or convolution")
        self.hero = hero

    def unit(
        self,
        routine: str,
        params: Params,
        workspace: int,
        operands: Sequence[Arranged],
        order: Sequence[int] = (),
        dtype: DType | None = None,
    ) -> Unit:
        """The steps around a call with these operands and so many bytes of workspace. `order`: the hero's dims, as the
        library has them (as they are, where it is empty); `dtype`: the type that it writes them in, a wider one only
        where more follows. The hero is written where it leaves the fusion, if it does as it lies."""
        made = _Steps()
        places = tuple(self._operand(made, number, operand) for number, operand in enumerate(operands))
        value = Arranged(self.hero, tuple(order) or tuple(range(self.hero.shape.rank)))
        lies = array(dtype or self.hero.shape.element_type, value.dims())
        leaves = self._leaves() if value.is_as_it_lies and lies.element_type == self.hero.shape.element_type else None
        result = made.temp(lies.byte_size) if leaves is None else UnitRef("result", leaves)
        spare = (made.temp(workspace + WORKSPACE_ALIGN),) if workspace else ()
        made.steps.append(UnitLibrary(routine, places, (result, *spare), params))
        if leaves is None or len(output_instrs(self._comp)) > 1:
            made.add(*self._after(value, lies, result, leaves))
        return Unit(tuple(made.steps), tuple(made.temps))

    def _leaves(self) -> int | None:
        """The first output of the fusion that is the hero itself."""
        found = (n for n, output in enumerate(output_instrs(self._comp)) if under_views(output) is self.hero)
        return next(found, None)

    def is_alone(self, operands: Sequence[Arranged]) -> bool:
        """Whether these lie as the library has them, and nothing follows."""
        return self.ends and all(o.instr.opcode == "parameter" and o.is_as_it_lies for o in operands)

    @property
    def ends(self) -> bool:
        """Whether nothing follows the hero."""
        return [under_views(output) for output in output_instrs(self._comp)] == [self.hero]

    def _operand(self, made: _Steps, number: int, operand: Arranged) -> UnitRef:
        """Where an operand lies: in one of the fusion's, or computed into a temporary."""
        root = operand.instr
        if root.opcode == "parameter" and operand.is_as_it_lies:
            return UnitRef("operand", int(root.attrs["parameter_number"]))
        inside = _before(self._comp, root)
        name = f"{self._name}.{('lhs', 'rhs')[number]}"
        if not operand.is_as_it_lies:
            root = _transposed(name, root, operand.dims(), operand.order)
            inside = (*inside, root)
        place = made.temp(root.shape.byte_size)
        made.add(lower_plain(Computation(name, inside, root), name, Knobs()), {UnitRef("result", 0): place})
        return place

    def _after(
        self, value: Arranged, lies: Shape, result: UnitRef, without: int | None
    ) -> tuple[Unit, Mapping[UnitRef, UnitRef]]:
        """What follows the call, whose result is the last operand and lies at `result` as `lies`: all outputs but the
        one `without`. Where that is wider than the hero, what widens the hero reads it as it is, as in our own
        kernels."""
        hero, number = self.hero, len(self._comp.params)
        held = Instr(f"{hero.name}.lies", "parameter", lies, attrs={"parameter_number": number})
        if not value.is_as_it_lies:
            back = tuple(value.order.index(d) for d in range(hero.shape.rank))
            held = _transposed(f"{hero.name}.turned", held, hero.shape.dims, back)
        replaced = {i: held for i in self._comp.instrs if _widens_to(i, hero, lies.element_type)}
        if lies.element_type == hero.shape.element_type:
            replaced[hero] = held
        else:
            replaced[hero] = Instr(hero.name, "convert", hero.shape, (held,))
        outputs = output_instrs(self._comp)
        left = [n for n in range(len(outputs)) if n != without]
        if without is not None:
            replaced[self._comp.root] = _joined(self._comp.root, [outputs[n] for n in left])
        comp = rebuild(self._comp, replaced, drop_dead=True)
        places = {UnitRef("result", n): UnitRef("result", output) for n, output in enumerate(left)}
        return lower_plain(comp, f"{self._name}.after", Knobs()), {UnitRef("operand", number): result, **places}


def _joined(root: Instr, outputs: Sequence[Instr]) -> Instr:
    """A root of these outputs alone."""
    if len(outputs) == 1:
        return outputs[0]
    return Instr(root.name, "tuple", tuple_of(*(o.shape for o in outputs)), tuple(outputs))


def _widens_to(instr: Instr, hero: Instr, dtype: DType) -> bool:
    return instr.opcode == "convert" and instr.operands == (hero,) and instr.shape.element_type == dtype


class _Steps:
    """Steps of a unit in the making, and the bytes of its temporaries."""

    def __init__(self) -> None:
        self.steps: list[UnitKernel | UnitLibrary | UnitCopy] = []
        self.temps: list[Dim] = []

    def temp(self, size: Dim) -> UnitRef:
        self.temps.append(size)
        return UnitRef("temp", len(self.temps) - 1)

    def add(self, unit: Unit, places: Mapping[UnitRef, UnitRef]) -> None:
        """The steps of a unit for a part; `places`: what its operands and results are here."""
        first = len(self.temps)

        def moved(refs: Sequence[UnitRef]) -> tuple[UnitRef, ...]:
            own = (replace(r, index=r.index + first) if r.kind == "temp" else r for r in refs)
            return tuple(places.get(r, r) for r in own)

        assert not unit.inplace
        assert not unit.guards
        for step in unit.steps:
            assert isinstance(step, UnitKernel)
            self.steps.append(replace(step, inputs=moved(step.inputs), outputs=moved(step.outputs)))
        self.temps += unit.temps


def under_views(instr: Instr) -> Instr:
    """What `instr` is another form of, in the same memory."""
    while instr.opcode in _VIEWS:
        instr = instr.operands[0]
    return instr


def _before(comp: Computation, root: Instr) -> tuple[Instr, ...]:
    """What `root` needs, in the order of `comp`."""
    needed, todo = {root}, [root]
    while todo:
        fresh = [o for o in todo.pop().operands if o not in needed]
        needed.update(fresh)
        todo += fresh
    return tuple(i for i in comp.instrs if i in needed)


def _transposed(name: str, instr: Instr, dims: Sequence[Dim], order: Sequence[int]) -> Instr:
    shape = array(instr.shape.element_type, tuple(dims))
    return Instr(name, "transpose", shape, (instr,), {"dimensions": tuple(order)})
