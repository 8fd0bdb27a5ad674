"""What tests of matrix products on a GPU share: products, forms to make them in, and the comparison."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace

import numpy as np
import pytest

from tests.codegen.triton import gpu_module
from tests.hlo_case import Array
from tfxla_cluster.backends import gpu
from tfxla_cluster.codegen.kernel.choice import DEFAULT, Choice
from tfxla_cluster.codegen.kernel.lower import gpu as lowering
from tfxla_cluster.codegen.kernel.lower.gpu import products
from tfxla_cluster.codegen.kernel.lower.gpu.product_blocks import Blocks
from tfxla_cluster.codegen.kernel.unit import UnitKernel
from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.codegen.triton.source import render
from tfxla_cluster.codegen.triton.triton_source import Artefacts
from tfxla_cluster.ir import text
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.ir.node import Module

TARGET = gpu.described().target


BACKENDS = tuple(kind(replace(TARGET, cores=2)) for kind in (gpu_module.Interpreted, gpu_module.Checked))


SMALL = Blocks(16, 16, 16, 2, 2, group=2)


CHOICES = {
    "plain": SMALL,
    "tall": replace(SMALL, rows=32, group=1),
    "splits": replace(SMALL, splits=3),
    "more splits than depth": replace(SMALL, depth=32, splits=4),
    "parts": replace(SMALL, cols=32, parts=2),
    "four parts of splits": replace(SMALL, cols=64, parts=4, splits=2),
    "persistent": replace(SMALL, persistent=1),
    "descriptors": replace(SMALL, descriptors=1),
    "persistent descriptors": replace(SMALL, cols=32, parts=2, splits=2, persistent=1, descriptors=1),
    "packed": replace(SMALL, packs=3),
    "packed parts": replace(SMALL, packs=2, splits=2, descriptors=1),
    "stored blocks": replace(SMALL, cols=32, parts=2, persistent=1, descriptors=2),
    "two programs a multiprocessor": replace(SMALL, cols=32, parts=2, persistent=2, descriptors=2),
    "thirds": replace(SMALL, cols=32, parts=2, descriptors=2, thirds=1),
}


def product(
    dtype: str, m: int, n: int, k: int, left: str = "mk", right: str = "kn", out: str = "", said: str = ""
) -> str:
    """A product of matrices that lie as `left` and `right` say; `said`: of its precision."""
    size = {"m": m, "n": n, "k": k}
    x, y = (f"{dtype}[{size[o[0]]},{size[o[1]]}]" for o in (left, right))
    axes = f"lhs_contracting_dims={{{left.index('k')}}}, rhs_contracting_dims={{{right.index('k')}}}"
    return f"""HloModule product
ENTRY e {{ x = {x} parameter(0)
  y = {y} parameter(1)
  ROOT r = {out or dtype}[{m},{n}] dot(x, y), {axes}{said} }}
"""


@contextmanager
def chosen(monkeypatch: pytest.MonkeyPatch, blocks: Blocks) -> Iterator[None]:
    """Every product in these blocks."""
    with monkeypatch.context() as patch:
        patch.setattr(products, "choose", lambda *_: blocks)
        yield


def drawn(module: Module, seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    found = []
    for parameter in module.entry.params:
        kind = parameter.shape.element_type.numpy
        values = rng.standard_normal(parameter.shape.sample_dims) * (1 if parameter.shape.element_type.is_float else 40)
        found.append(np.asarray(values).astype(kind))
    return found


def check(module: Module, args: list[Array], tolerance: float = 2e-5) -> None:
    want = evaluate(module, args)
    for backend in BACKENDS:
        got = gpu_module.compiled(module, backend).executable.run(args)
        for one, other in zip(got, want, strict=True):
            scale = max(float(np.abs(other.astype(np.float64)).max(initial=0)), 1e-30)
            np.testing.assert_allclose(one.astype(np.float64), other.astype(np.float64), tolerance, tolerance * scale)


def generated(source: str, blocks: Blocks | None = None, arch: str = "sm_90") -> tuple[str, Artefacts]:
    """Triton source and what it makes of the first kernel of the module's product."""
    choice = Choice({k: v for k, v in asdict(blocks).items() if k != "group"}) if blocks else DEFAULT
    unit = lowering.lower(text.parse(source).entry.root, TARGET, choice)
    step = unit.steps[0]
    assert isinstance(step, UnitKernel)
    rendered = render(step.kernel)
    (made,) = workers.compile_sources([rendered], replace(TARGET, arch=arch), 1)
    return rendered.text, made
