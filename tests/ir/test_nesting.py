"""Computations that call each other very often, or very deep: every command ends, with an answer or one message."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tfxla_cluster import compiler
from tfxla_cluster.backends import cpu
from tfxla_cluster.cli import common, opt
from tfxla_cluster.cli import exec as exec_
from tfxla_cluster.dump import cost, sink
from tfxla_cluster.errors import UnsupportedError
from tfxla_cluster.ir import nesting, proto, text, verifier
from tfxla_cluster.ir.node import callees_first, holds
from tfxla_cluster.ir.rewrite import keeps
from tfxla_cluster.options import DumpOptions
from tfxla_cluster.passes import pipeline, pipelines
from tfxla_cluster.passes.match import is_pure
from tfxla_cluster.runtime.cpu import host

FIRST = "f0 { p = f32[4] parameter(0)\n ROOT r = f32[4] sine(p) }\n"
CALL = """f{n} {{ p = f32[4] parameter(0)
  a = f32[4] call(p), to_apply=f{m}
  ROOT b = f32[4] {second} }}
"""
BRANCH = """f{n} {{ p = f32[4] parameter(0)
  i = s32[4] convert(p)
  j = s32[1] slice(i), slice={{[0:1]}}
  k = s32[] reshape(j)
  a = f32[4] conditional(k, p, p), branch_computations={{f{m}, f0}}
  ROOT b = f32[4] {second} }}
"""
SECOND = {
    (CALL, 1): "negate(a)",
    (CALL, 2): "call(a), to_apply=f{m}",
    (BRANCH, 1): "negate(a)",
    (BRANCH, 2): "conditional(k, a, p), branch_computations={{f{m}, f0}}",
}


def chain(depth: int, times: int, form: str = CALL) -> str:
    """Functions f0 .. f(depth), each of which uses the one before it `times` times; the entry calls the last."""
    body = form.replace("{second}", SECOND[form, times])
    parts = [FIRST, *(body.format(n=n, m=n - 1) for n in range(1, depth + 1))]
    entry = f"ENTRY main {{ x = f32[4] parameter(0)\n ROOT r = f32[4] call(x), to_apply=f{depth} }}"
    return "HloModule m\n" + "".join(parts) + entry


@pytest.mark.parametrize("form", [CALL, BRANCH], ids=["calls", "branches"])
def test_walks_over_shared_computations_are_linear(form: str) -> None:
    """A walk of 2**31 steps would not end."""
    module = text.parse(chain(31, 2, form))
    verifier.verify(module)
    (root,) = (i for i in module.entry.instrs if i.opcode == "call")
    assert not keeps(root)
    assert is_pure(root)
    assert len(callees_first(root.called)) == 32
    assert holds(root, "sine", lambda i: i.opcode == "sine")
    assert not holds(root, "cosine", lambda i: i.opcode == "cosine")
    assert cost.flops_of(root) >= 4 * 2**31
    assert proto.read(proto.write(module)).entry.root.opcode == "call"
    for step in dict.fromkeys(pipelines.optimize(host.target())):
        if step.name != "call-inliner":
            verifier.verify(step.run(module))


@pytest.mark.parametrize("form", [CALL, BRANCH], ids=["calls", "branches"])
def test_what_is_too_much_is_refused(form: str) -> None:
    module = text.parse(chain(31, 2, form))
    with pytest.raises(UnsupportedError, match="written out"):
        compiler.compile_module(module, cpu.this_machine())


def test_loops_and_branches_too_deep_are_refused() -> None:
    module = text.parse(chain(nesting.MAX_DEPTH + 50, 1, BRANCH))
    with pytest.raises(UnsupportedError, match=f"deep, at most {nesting.MAX_DEPTH}"):
        compiler.compile_module(module, cpu.this_machine())


def compiled(source: str, x: np.ndarray, tmp_path: Path) -> np.ndarray:
    dump = sink.Sink(DumpOptions(directory=str(tmp_path))).module("m")
    return compiler.compile_module(text.parse(source), cpu.this_machine(), dump=dump).executable.run([x])[0]


def test_branches_at_the_limit_compile(tmp_path: Path) -> None:
    depth = nesting.MAX_DEPTH - 2  # f0, f1 ... and what the entry is
    x = np.array([0.25, -1.0, 2.0, 0.0], np.float32)  # 0: every first branch is taken
    want = np.sin(x) * (1 if depth % 2 == 0 else -1)
    np.testing.assert_allclose(compiled(chain(depth, 1, BRANCH), x, tmp_path), want, rtol=1e-6)


def test_many_nested_calls_compile(tmp_path: Path) -> None:
    x = np.array([0.25, -1.0, 2.0, 0.0], np.float32)
    np.testing.assert_allclose(compiled(chain(400, 1), x, tmp_path), np.sin(x), rtol=1e-6)
    shared = x
    for _ in range(2**6):
        shared = np.sin(shared)
    np.testing.assert_allclose(compiled(chain(6, 2), x, tmp_path), shared, rtol=1e-5)


def test_the_inliner_leaves_calls_that_would_be_very_many() -> None:
    module = pipeline.run(text.parse(chain(31, 2)), "optimize", pipelines.optimize(host.target()))
    verifier.verify(module)
    assert any(i.opcode == "call" for comp in module.computations() for i in comp.instrs)


@pytest.mark.parametrize(("depth", "times", "opt_code", "exec_code"), [(31, 2, 0, 5), (400, 1, 0, 0), (1200, 1, 0, 0)])
def test_commands(
    depth: int, times: int, opt_code: int, exec_code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.hlo"
    path.write_text(chain(depth, times))
    assert common.run("tfxla-opt", opt.main, [str(path), "-o", str(tmp_path / "out.hlo")]) == opt_code
    assert common.run("tfxla-exec", exec_.main, [str(path)]) == exec_code
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert said.count("\n") == (exec_code != 0)


def test_the_evaluator_says_that_it_cannot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.hlo"
    path.write_text(chain(1200, 1))
    assert common.run("tfxla-exec", exec_.main, [str(path), "--reference", "evaluator"]) == 5
    assert "too deep for the evaluator" in capsys.readouterr().err
