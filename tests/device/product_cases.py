"""Products for the device: every form of block, every layout and type, with dims that do not fill their blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from tests.hlo_case import Array
from tfxla_cluster.codegen.kernel.choice import Choice, Given
from tfxla_cluster.ir import text
from tfxla_cluster.ir.node import Instr, Module
from tfxla_cluster.ir.rewrite import rebuild

FORMS = {
    "plain": {"descriptors": 0, "persistent": 0, "parts": 1},
    "parts": {"descriptors": 0, "persistent": 0, "parts": 2},
    "persistent": {"descriptors": 0, "persistent": 1, "parts": 1},
    "descriptors": {"descriptors": 1, "persistent": 0, "parts": 1},
    "persistent descriptors": {"descriptors": 1, "persistent": 1, "parts": 2},
    "stored blocks": {"descriptors": 2, "persistent": 1, "parts": 2},
    "two a multiprocessor": {"descriptors": 2, "persistent": 2, "parts": 2},
    "stored whole": {"descriptors": 2, "persistent": 0, "parts": 1},
}
THIRDS = {"thirds": 1, "splits": 1, "persistent": 1, "descriptors": 2, "parts": 1, "stages": 2, "depth": 32}
COPIED = {"packs": 1, "descriptors": 1}
TYPES = {"bf16": 8, "f16": 8, "f32": 512, "f64": 512}
ORDERS = tuple(product(("mk", "km"), ("kn", "nk")))
SMALL = {"rows": 16, "cols": 32, "depth": 64}  # so that a persistent program has several blocks


@dataclass(frozen=True)
class Product:
    """`ulps`: how far a result may be from the evaluator's. `choices`: the form it is lowered in."""

    name: str
    module: Module
    ulps: int
    choices: Given

    def args(self) -> list[Array]:
        rng = np.random.default_rng(7)
        found = []
        for parameter in self.module.entry.params:
            kind = parameter.shape.element_type
            values = rng.standard_normal(parameter.shape.sample_dims) * (1 if kind.is_float else 40)
            found.append(np.asarray(values).astype(kind.numpy))
        return found


def products() -> Iterator[Product]:
    """Every layout for bf16, and few of the combinations for other types."""
    for form, choice in FORMS.items():
        for order in ORDERS:
            yield _product(form, choice, "bf16", TYPES["bf16"], order, (136, 72, 328))
        for order in (ORDERS[0], ORDERS[3]):
            yield _product(form, choice, "bf16", TYPES["bf16"], order, (136, 200, 136))
        for dtype, ulps in TYPES.items():
            yield _product(form, choice, dtype, ulps, ORDERS[0], (72, 136, 328))
        if choice["persistent"]:
            for order in (ORDERS[0], ORDERS[3]):
                yield _product(f"small {form}", choice | SMALL, "bf16", TYPES["bf16"], order, (152, 304, 104))
    for splits in (1, 4):
        yield _product(f"{splits} splits", {"splits": splits}, "bf16", 8, ("km", "kn"), (32, 48, 2048))
    for order in ORDERS:
        yield _product("thirds", THIRDS, "f32", TYPES["f32"], order, (136, 72, 331))
    yield _product(
        "thirds of several blocks", THIRDS | {"rows": 64, "cols": 64}, "f32", 512, ORDERS[0], (152, 304, 104)
    )
    yield _product("copied", COPIED, "bf16", 8, ORDERS[0], (136, 200, 331))
    yield _product("integers", {}, "s8", 0, ("mk", "nk"), (65, 70, 200), "s32")
    yield _product("wide integers", {}, "s32", 0, ("mk", "kn"), (65, 70, 50))


def _product(
    form: str,
    choice: dict[str, int],
    dtype: str,
    ulps: int,
    order: tuple[str, str],
    dims: tuple[int, ...],
    out: str = "",
) -> Product:
    size = dict(zip("mnk", dims))
    x, y = (f"{dtype}[{size[o[0]]},{size[o[1]]}]" for o in order)
    axes = f"lhs_contracting_dims={{{order[0].index('k')}}}, rhs_contracting_dims={{{order[1].index('k')}}}"
    source = f"""HloModule product
ENTRY e {{ x = {x} parameter(0)
  y = {y} parameter(1)
  ROOT r = {out or dtype}[{size["m"]},{size["n"]}] dot(x, y), {axes} }}
"""
    name = f"product-{form}-{dtype}-{'-'.join(order)}-{dims}"
    return Product(name, exact(text.parse(source)), ulps, Given("r", Choice(choice)))


def exact(module: Module) -> Module:
    """The module with every product of f32 in f32: left to itself a GPU multiplies tf32, as TensorFlow lets it."""
    found: dict[Instr, Instr] = {}
    for instr in module.entry.instrs:
        if instr.opcode in ("dot", "convolution") and not instr.attrs.get("algorithm"):
            precise = {**instr.attrs, "operand_precision": ("highest", "highest")}
            found[instr] = instr.replace(attrs=precise)
    return module.replace(entry=rebuild(module.entry, found)) if found else module
