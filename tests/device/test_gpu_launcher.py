"""Whole modules on this machine's GPU, against the evaluator; skipped where there is none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.codegen.triton.test_gpu_launcher import LOOP
from tests.hlo_case import assert_close
from tfxla_cluster import compiler
from tfxla_cluster.backends import gpu
from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.ir import proto, text
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.ir.node import Module
from tfxla_cluster.options import CompileOptions
from tfxla_cluster.runtime.gpu import driver
from tfxla_cluster.runtime.gpu.executable import Executable

pytestmark = pytest.mark.gpu
DATA = Path(__file__).parents[1] / "data"
LAUNCHES = 5  # enough for a CUDA graph to be made and used again


def launched(module: Module, args: list[np.ndarray], least_graph: int) -> tuple[list[np.ndarray], dict[str, int]]:
    """The outputs of the last of LAUNCHES, and how graphs were used."""
    if said := driver.available().reason or ("" if workers.usable() else "Triton is not installed"):
        pytest.skip(said)
    launcher = compiler.compile_module(module, gpu.this_machine(), CompileOptions(least_graph=least_graph)).executable
    assert isinstance(launcher, Executable)
    with launcher.prepare(args) as prepared:
        for _ in range(LAUNCHES):
            prepared.launch()
        return prepared.results(), launcher.graphs()


@pytest.mark.parametrize("least_graph", [0, 1])
def test_softmax(least_graph: int) -> None:
    module = proto.read((DATA / "softmax.hlo.pb").read_bytes())
    rng = np.random.default_rng(0)
    args = [np.asarray(rng.normal(size=p.shape.sample_dims), np.float32) for p in module.entry.params]
    found, graphs = launched(module, args, least_graph)
    for got, want in zip(found, evaluate(module, args), strict=True):
        assert_close(got, want, 64, "softmax")
    assert graphs.get("replayed", 0) == (LAUNCHES - 3 if least_graph else 0)


@pytest.mark.parametrize(("first", "which"), [(0, 0), (4, 1), (9, 5)])
def test_loops_and_branches(first: int, which: int) -> None:
    args = [np.int32(first), np.random.default_rng(7).normal(size=70).astype(np.float32), np.int32(which)]
    found, graphs = launched(text.parse(LOOP), args, 1)
    for got, want in zip(found, evaluate(text.parse(LOOP), args), strict=True):
        assert_close(got, want, 64, "loop")
    assert not graphs
