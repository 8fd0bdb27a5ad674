"""One module from modules of several sizes: of drawn programs, and on GPUs."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.dynamic.test_unify import FITTED, check_in_triton, unified
from tests.fuzz import symbolic
from tests.fuzz.modules import nested_program, program
from tfxla_cluster import compiler
from tfxla_cluster.backends import gpu
from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.dynamic import prove, rows, unify
from tfxla_cluster.dynamic.misfit import Misfit
from tfxla_cluster.errors import VerifierError
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.ir.node import Module
from tfxla_cluster.ir.size_values import instantiate, named_sizes
from tfxla_cluster.ir.verifier import verify

# --- drawn programs ---


@pytest.mark.parametrize("make", [lambda number: program(number, 4), nested_program], ids=["flat", "nested"])
def test_drawn_programs(make: Callable[[int], Any]) -> None:
    """Of a module with sizes, instances at two environments give a module that is it at others."""
    fitted = 0
    for number in range(80):
        made = symbolic.draw(make(number), number)
        if made is None or not _is_right(made.module):
            continue
        rng = random.Random(number)
        low = {name: max(2, size.low) for name, size in named_sizes(made.module).items()}
        environments = [{name: least + rng.randint(0, 30) for name, least in low.items()} for _ in range(4)]
        modules = [rows.of_module(instantiate(made.module, env)) for env in environments]
        generic = unify.unify(modules[:2])
        if isinstance(generic, Misfit):
            continue
        fitted += 1
        for env, module in zip(environments, modules):
            if not prove.prove(generic, module):
                continue
            sizes = prove.sizes_of(generic, module.module.param_shapes)
            assert isinstance(sizes, dict)
            args = symbolic.arguments(rng, module.module, made.program)
            for got, want in zip(
                evaluate(instantiate(generic.module, sizes), args), evaluate(module.module, args), strict=True
            ):
                assert got.tobytes() == want.tobytes(), f"{number} at {env}"
    assert fitted > 20


def _is_right(module: Module) -> bool:
    try:
        verify(module)
    except VerifierError:
        return False
    return True


# --- GPUs ---


@pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")
@pytest.mark.parametrize("name", FITTED)
def test_kernels_of_gpus_are_for_all_sizes_too(name: str) -> None:
    check_in_triton(FITTED[name])


@pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")
def test_machine_code_of_gpus() -> None:
    """Triton compiles the kernels that compute literals."""
    generic = unified(FITTED["literals"], (32, 10), (48, 14))
    made = compiler.compile_module(generic.module, gpu.described("sm_90"))
    assert made.code.objects
