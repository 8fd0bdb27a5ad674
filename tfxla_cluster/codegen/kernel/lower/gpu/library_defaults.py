"""Products that a library multiplies where nothing was tuned: kinds of which it took less time than our kernels.

On an H200 (driver 580, cuBLASLt 13.1), its first algorithm over our default, taken with a script of such products
before `python -m tests.device.library_times` was written: complex 0.02-0.10 (3 products); f64 from 192x192x192 on, with
no side under 32, 0.36-0.90 (23); deep products of bf16 whose operands both lie by depth, as weight gradients do,
0.64-0.99 (12). Of others it loses some: small ones take 1.1-2 times as long, and what follows a product costs a kernel
of its own.
"""

from __future__ import annotations

from .....errors import UnsupportedError
from .....ir.node import Instr
from ...library import Library
from ...library_product import CUDA_TYPES, Algorithm, Product
from ...unit import Unit
from .library_products import LibraryProduct

_COMPLEX = (CUDA_TYPES["c64"], CUDA_TYPES["c128"])
_SIDE = 32  # least extents
_F64_WORK = 192**3  # least products of numbers
_DEEP, _DEEP_SIDE = 4096, 64  # of bf16: the least depth and other extents


def by_default(instr: Instr, library: Library[Product, Algorithm]) -> Unit | None:
    """The steps of an instruction that the library multiplies without being told to; None where our kernels do."""
    try:
        found = LibraryProduct(instr)
        dtype = found.results[0]
        product = found.product(dtype)
        if not (_always(product) or (found.is_alone and _alone(product))):
            return None
        algorithms = library.algorithms(product)
        return found.unit(algorithms[0], dtype) if algorithms else None
    except UnsupportedError:
        return None


def _always(p: Product) -> bool:
    """Even with kernels around it: no machine multiplies blocks of complex numbers for ours."""
    return p.factor in _COMPLEX and min(p.rows, p.cols, p.depth) >= _SIDE


def _alone(p: Product) -> bool:
    if p.batch > 1:
        return False
    if p.factor == CUDA_TYPES["f64"]:
        return min(p.rows, p.cols, p.depth) >= _SIDE and p.rows * p.cols * p.depth >= _F64_WORK
    by_depth = p.left_turned and p.right_turned
    return p.factor == CUDA_TYPES["bf16"] and bool(by_depth) and p.depth >= _DEEP and min(p.rows, p.cols) >= _DEEP_SIDE
