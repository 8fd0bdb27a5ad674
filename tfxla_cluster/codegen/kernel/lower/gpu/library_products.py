"""Matrix products that a library multiplies: its call, and kernels for what has to be computed before and after it.

The library reads operands that lie as matrices and writes the product alone, rounded to its type. Other operands are
computed into memory first, and what follows the product in its fusion reads it there, each by a kernel of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from .....errors import UnsupportedError
from .....fusion.hero import hero_of
from .....fusion.program import output_instrs
from .....ir.dim import Dim
from .....ir.node import Computation, Instr
from .....ir.rewrite import rebuild
from ...choice import Choice, Knobs
from ...library_product import (
    COMPUTE_F32,
    COMPUTE_F64,
    COMPUTE_TF32,
    CUDA_TYPES,
    ROUTINE,
    WORKSPACE_ALIGN,
    Algorithm,
    Libraries,
    Product,
    to_params,
)
from ...unit import Unit, UnitCopy, UnitKernel, UnitLibrary, UnitRef
from .. import fused
from ..contraction_fusion import widens
from ..dot import precision
from .library_operands import matrices
from .plain import lower_plain

# Types of the factors and of the product -> cublasComputeType_t, and the type of the library's own factor.
_TYPES = {
    ("bf16", "bf16"): (COMPUTE_F32, "f32"),
    ("bf16", "f32"): (COMPUTE_F32, "f32"),
    ("f16", "f16"): (COMPUTE_F32, "f32"),
    ("f16", "f32"): (COMPUTE_F32, "f32"),
    ("f32", "f32"): (COMPUTE_F32, "f32"),
    ("f64", "f64"): (COMPUTE_F64, "f64"),
    ("c64", "c64"): (COMPUTE_F32, "c64"),
    ("c128", "c128"): (COMPUTE_F64, "c128"),
}
# How f32 is multiplied, by what HLO says; other algorithms are ours alone.
_F32 = {
    "default": COMPUTE_TF32,
    "dot_tf32_tf32_f32": COMPUTE_TF32,
    "high": COMPUTE_F32,
    "highest": COMPUTE_F32,
    "dot_f32_f32_f32": COMPUTE_F32,
}
_VIEWS = ("reshape", "bitcast")


def choices(instr: Instr, libraries: Libraries) -> Sequence[Choice]:
    """Those by which a library multiplies, for a dot, a convolution that is a plain product, or a fusion around one;
    some of them `lower` refuses."""
    try:
        product = _Parts(instr).product
    except UnsupportedError:
        return ()
    return tuple(algorithm.choice() for algorithm in libraries.algorithms(product))


def lower(instr: Instr, algorithm: Algorithm, libraries: Libraries) -> Unit:
    """The steps by that algorithm; UnsupportedError where the machine's library has none such, or the fusion's other
    parts have no kernels."""
    parts = _Parts(instr)
    said = libraries.refusal(parts.product, algorithm)
    if said:
        raise UnsupportedError(f"{instr.name}: {said}")
    return parts.unit(algorithm)


class _Parts:
    """The product of an instruction or of a fusion around it, and what is around it; UnsupportedError where it is none
    that a library multiplies."""

    def __init__(self, instr: Instr) -> None:
        self._name = instr.name
        self._comp = instr.attrs["calls"] if instr.opcode == "fusion" else fused.wrap(instr)
        hero = hero_of(self._comp)
        if hero is None:
            raise UnsupportedError(f"{instr.name} is no matrix product")
        self._hero = hero
        self._factors = _factors(hero)
        self.product = _product(hero, *(f.shape.element_type.name for f in self._factors))

    def unit(self, algorithm: Algorithm) -> Unit:
        made = _Steps()
        operands = tuple(self._operand(made, n, factor) for n, factor in enumerate(self._factors))
        alone = [_under_views(output) for output in output_instrs(self._comp)] == [self._hero]
        result = UnitRef("result", 0) if alone else made.temp(self._hero.shape.byte_size)
        workspace = (made.temp(algorithm.workspace + WORKSPACE_ALIGN),) if algorithm.workspace else ()
        params = to_params(self.product, algorithm)
        made.steps.append(UnitLibrary(ROUTINE, operands, (result, *workspace), params))
        if not alone:
            made.add(*self._after(result))
        return Unit(tuple(made.steps), tuple(made.temps))

    def _operand(self, made: _Steps, number: int, factor: Instr) -> UnitRef:
        """Where a factor lies: in an operand, or computed into a temporary."""
        if factor.opcode == "parameter":
            return UnitRef("operand", int(factor.attrs["parameter_number"]))
        place = made.temp(factor.shape.byte_size)
        name = f"{self._name}.{('lhs', 'rhs')[number]}"
        unit = lower_plain(Computation(name, _before(self._comp, factor), factor), name, Knobs())
        made.add(unit, {UnitRef("result", 0): place})
        return place

    def _after(self, result: UnitRef) -> tuple[Unit, Mapping[UnitRef, UnitRef]]:
        """What follows the product, which is its last operand and lies at `result`."""
        number = len(self._comp.params)
        held = Instr(self._hero.name, "parameter", self._hero.shape, attrs={"parameter_number": number})
        comp = rebuild(self._comp, {self._hero: held}, drop_dead=True)
        unit = lower_plain(comp, f"{self._name}.after", Knobs())
        return unit, {UnitRef("operand", number): result}


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


def _factors(hero: Instr) -> list[Instr]:
    """What of both operands has to lie in memory: before exact widening where both have one type then."""
    narrow = [_under_views(o, widening=True) for o in hero.operands]
    if narrow[0].shape.element_type == narrow[1].shape.element_type:
        return narrow
    return [_under_views(o) for o in hero.operands]


def _under_views(instr: Instr, widening: bool = False) -> Instr:
    while instr.opcode in _VIEWS or (widening and widens(instr)):
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


def _product(hero: Instr, left: str, right: str) -> Product:
    """`left`, `right`: the types that the operands have in memory."""
    result = hero.shape.element_type.name
    if left != right or (left, result) not in _TYPES:
        raise UnsupportedError(f"no library multiplies {left} and {right} to {result} ({hero.name})")
    compute, scale = _TYPES[left, result]
    if left == "f32":
        said = precision(hero)
        if said not in _F32:
            raise UnsupportedError(f"no library multiplies f32 as {said} ({hero.name})")
        compute = _F32[said]
    a, b = matrices(hero)
    return Product(
        a.batch.extent,
        a.free.extent,
        b.free.extent,
        a.depth.extent,
        CUDA_TYPES[left],
        CUDA_TYPES[result],
        compute,
        CUDA_TYPES[scale],
        *a.layout(),
        *b.layout(),
    )
