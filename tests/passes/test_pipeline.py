"""The runner, and the whole pipeline on modules of the bridge and on the table of opcodes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.close import assert_near
from tests.hlo_cases import CASES, Case, assert_close
from tfxla_cluster.errors import InternalError
from tfxla_cluster.ir import evaluator, proto, text
from tfxla_cluster.ir.node import Module
from tfxla_cluster.passes import pipeline, pipelines
from tfxla_cluster.passes.base import Pass
from tfxla_cluster.target import Target

TARGET = Target("cpu", "znver3")
DATA = sorted((Path(__file__).parents[1] / "data").glob("*.hlo.pb"))
NEGATE = "HloModule m\n\nENTRY e {\n  x = f32[4] parameter(0)\n  ROOT r = f32[4] negate(x)\n}\n"


def _opcodes(module: Module) -> set[str]:
    return {i.opcode for c in module.computations() for i in c.instrs}


@pytest.mark.parametrize("path", DATA, ids=lambda path: path.name)
def test_modules_of_the_bridge_keep_their_meaning(path: Path) -> None:
    module = proto.read(path.read_bytes())
    new = pipeline.run(module, "optimize", pipelines.optimize(TARGET), strict=True)
    assert sum(len(c.instrs) for c in new.computations()) < sum(len(c.instrs) for c in module.computations())
    assert not _opcodes(new) & {"call", "map", "copy", "bitcast", "opt-barrier", "batch-norm-training"}
    seed = np.random.RandomState(0)
    args = [
        (seed.standard_normal(p.shape.dims or None) if p.shape.dtype.is_float else seed.randint(0, 3, p.shape.dims))
        for p in module.entry.params
        if p.shape.dtype
    ]
    args = [np.asarray(a).astype(p.shape.dtype.numpy) for a, p in zip(args, module.entry.params) if p.shape.dtype]
    # Which numbers `rng` gives is not defined before it is expanded.
    drawn = pipeline.run(module, "expand", [pipelines.PASSES["rng-expander"]])
    for got, want in zip(evaluator.evaluate(new, args), evaluator.evaluate(drawn, args), strict=True):
        assert_near(got, want, 1e-5)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_opcode_keeps_its_meaning(case: Case) -> None:
    module = text.parse(case.text)
    new = pipeline.run(module, "optimize", pipelines.optimize(TARGET), strict=True)
    args = case.args()
    for got, want in zip(evaluator.evaluate(new, args), evaluator.evaluate(module, args)):
        assert_close(got, want, case.ulps, case.name)


def test_observer_sees_the_start_and_each_change() -> None:
    seen = []
    module = text.parse(NEGATE.replace("negate(x)", "copy(x)"))
    pipeline.run(
        module,
        "p",
        [pipelines.PASSES[n] for n in ("dce", "layout-normaliser", "cse")],
        lambda m, *words: seen.append(words),
    )
    assert seen == [("p", "pipeline-start", "dce"), ("p", "layout-normaliser", "cse")]


def test_an_invalid_module_names_the_pass() -> None:
    def spoil(module: Module) -> Module:
        root = module.entry.root.replace(opcode="not")
        return module.replace(entry=type(module.entry)("e", (*module.entry.params, root), root))

    with pytest.raises(InternalError, match="pass spoil of p"):
        pipeline.run(text.parse(NEGATE), "p", [Pass("spoil", spoil)])


def test_a_lie_is_caught() -> None:
    with pytest.raises(InternalError, match="says changed"):
        pipeline.run(text.parse(NEGATE), "p", [Pass("liar", lambda m: m.replace())], strict=True)


@pytest.mark.parametrize("path", DATA, ids=lambda path: path.name)
def test_a_second_run_changes_nothing(path: Path) -> None:
    module = proto.read(path.read_bytes())
    once = pipeline.run(module, "optimize", pipelines.optimize(TARGET))
    again = pipeline.run(once, "optimize", pipelines.optimize(TARGET))
    assert again is once
