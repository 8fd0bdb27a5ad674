"""Matrix products that a library multiplies, for operands that lie as matrices."""

from __future__ import annotations

from collections.abc import Sequence

from .....errors import UnsupportedError
from .....ir.dtype import F32, DType
from .....ir.node import Instr
from ...choice import Choice
from ...library import Library
from ...library_product import (
    COMPUTE_F32,
    COMPUTE_F64,
    COMPUTE_TF32,
    CUDA_TYPES,
    ROUTINE,
    Algorithm,
    Product,
    to_params,
)
from ...unit import Unit
from ..contraction_fusion import widens
from ..dot import precision
from .library_fusion import Arranged, LibraryFusion, under_views
from .library_operands import matrices

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


def choices(instr: Instr, library: Library[Product, Algorithm]) -> Sequence[Choice]:
    """Those by which a library multiplies, for a dot, a convolution that is a plain product, or a fusion around one;
    some of them `lower` refuses."""
    try:
        parts = LibraryProduct(instr)
    except UnsupportedError:
        return ()
    found = (library.algorithms(parts.product(dtype)) for dtype in parts.results)
    return tuple(algorithm.choice() for algorithms in found for algorithm in algorithms)


def lower(instr: Instr, algorithm: Algorithm, library: Library[Product, Algorithm]) -> Unit:
    """The steps by that algorithm; UnsupportedError where the machine's library has none such, or the fusion's other
    parts have no kernels."""
    parts = LibraryProduct(instr)
    dtype = next((d for d in parts.results if CUDA_TYPES[d.name] == algorithm.result), None)
    if dtype is None:
        raise UnsupportedError(f"{instr.name}: the algorithm's result has another type")
    said = library.refusal(parts.product(dtype), algorithm)
    if said:
        raise UnsupportedError(f"{instr.name}: {said}")
    return parts.unit(algorithm, dtype)


class LibraryProduct:
    """The product of an instruction or of a fusion around it; UnsupportedError where it is none that a library
    multiplies. `results`: the types that it may be written in: where more follows a product of narrow floats in f32,
    which that reads as our own kernels do, and in its own, half the bytes."""

    def __init__(self, instr: Instr) -> None:
        self._fusion = LibraryFusion(instr)
        factors, hero = _factors(self._fusion.hero), self._fusion.hero
        own = hero.shape.element_type
        narrow = own.is_float and own.bits < F32.bits
        self.results = (F32, own) if narrow and not self._fusion.ends else (own,)
        left, right = (f.shape.element_type.name for f in factors)
        self._products = {d: _product(hero, left, right, d.name) for d in self.results}
        self._operands = [Arranged(f, tuple(range(f.shape.rank))) for f in factors]

    def product(self, result: DType) -> Product:
        return self._products[result]

    @property
    def is_alone(self) -> bool:
        """Whether the library's call is all there is to do."""
        return self._fusion.is_alone(self._operands)

    def unit(self, algorithm: Algorithm, result: DType) -> Unit:
        """The steps by that algorithm."""
        params = to_params(self.product(result), algorithm)
        return self._fusion.unit(ROUTINE, params, algorithm.workspace, self._operands, dtype=result)


def _factors(hero: Instr) -> list[Instr]:
    """What of both operands has to lie in memory: before exact widening where both have one type then."""
    narrow = [_under_widening(o) for o in hero.operands]
    if narrow[0].shape.element_type == narrow[1].shape.element_type:
        return narrow
    return [under_views(o) for o in hero.operands]


def _under_widening(instr: Instr) -> Instr:
    instr = under_views(instr)
    while widens(instr):
        instr = under_views(instr.operands[0])
    return instr


def _product(hero: Instr, left: str, right: str, result: str) -> Product:
    """`left`, `right`, `result`: the types that these have in memory."""
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
