"""Planted faults minimised to a handful of instructions, and the reproductions written of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.replay import planted
from tests.replay.modules import chain
from tests.replay.test_locate import DIVIDE, LOOP, SUBTRACT, plant, program
from tfxla_cluster.ir import text, verifier
from tfxla_cluster.replay import locate, minimize, reproduction, resize, trials

__all__ = ["plant"]


def minimised(one: object, slower: float | None = None, **more: object) -> tuple[minimize.Minimized | None, list[str]]:
    said: list[str] = []
    with trials.Trials(**more) as running:
        search = locate.Search(running, said.append)
        return minimize.Minimizer(search, slower).run(one), said


def opcodes(found: minimize.Minimized) -> list[str]:
    return sorted(i.opcode for i in found.program.module.entry.instrs if i.opcode != "parameter")


@pytest.mark.parametrize(
    ("fault", "step", "left"), [("kernel", SUBTRACT, ["subtract"]), ("pass", DIVIDE, ["divide", "tanh"])]
)
def test_wrong_numbers(fault: str, step: str, left: list[str], plant: object) -> None:
    plant(fault)
    found, said = minimised(program(chain(40, step, 21)))
    assert found is not None
    assert opcodes(found) == left
    assert found.outcome.kind == trials.WRONG
    assert max(a.size for a in found.program.inputs) <= 4  # of 216; the first elements alone may be right
    assert found.trials < 120
    assert any("instructions" in line for line in said)


def test_a_message_stays_the_same(plant: object) -> None:
    plant("message")
    found, _ = minimised(program(chain(20, SUBTRACT, 11)))
    assert found is not None
    assert opcodes(found) == ["subtract"]
    assert "subtracts" in found.outcome.detail


def test_slower_than_the_reference(plant: object) -> None:
    plant("slow")
    found, _ = minimised(program(chain(9, SUBTRACT, 3)), slower=5.0)
    assert found is not None
    assert found.outcome.kind == trials.SLOW
    assert len(opcodes(found)) <= 2


def test_what_is_inside_a_loop(plant: object) -> None:
    plant("kernel")
    found, _ = minimised(program(text.parse(LOOP)))
    assert found is not None
    assert opcodes(found) == ["subtract"]


def test_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each trial in a process of its own; few, since each that dies costs one."""
    monkeypatch.setenv("PLANTED", "crash")
    with trials.Trials(program=planted.PROGRAM) as running:
        search = locate.Search(running, lambda line: None)
        found = minimize.Minimizer(search, budget=14).run(program(chain(3, SUBTRACT, 1, "4,5")))
    assert found is not None
    assert opcodes(found) == ["subtract"]
    assert found.outcome.detail == "SIGSEGV"


def test_what_does_not_fail_is_not_minimised(here: None) -> None:
    assert minimised(program(chain(5, SUBTRACT, 3)))[0] is None


def test_the_budget_is_kept(plant: object) -> None:
    plant("kernel")
    with trials.Trials() as running:
        search = locate.Search(running, lambda line: None)
        found = minimize.Minimizer(search, budget=4).run(program(chain(40, SUBTRACT, 21)))
        assert found is not None
        assert running.count <= 4


SIZED = """HloModule sized
plus { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT s = f32[] add(a, b) }
ENTRY e {
  x = f32[8,12] parameter(0)
  c = f32[12] constant({1,2,3,4,5,6,7,8,9,10,11,12})
  b = f32[8,12] broadcast(c), dimensions={1}
  m = f32[8,12] multiply(x, b)
  r = f32[96] reshape(m)
  s = f32[96] slice(r), slice={[0:96]}
  i = f32[96] iota(), iota_dimension=0
  a = f32[96] add(s, i)
  zero = f32[] constant(0)
  ROOT t = f32[] reduce(a, zero), dimensions={0}, to_apply=plus
}
"""


def test_sizes_shrink_with_what_reshapes_make_of_them() -> None:
    one = program(text.parse(SIZED))
    made = list(resize.smaller(one))
    assert made
    for smaller in made:
        verifier.verify(smaller.module)
        assert [a.shape for a in smaller.inputs] == [p.shape.dims for p in smaller.module.entry.params]
    assert {p.module.entry.params[0].shape.dims for p in made} >= {(8, 1), (1, 12), (2, 12)}
    assert resize.resized(one, {12: 5}) is None  # of 96 too, or it is no reshape


@pytest.mark.parametrize("elements", [3, 70_000])
def test_a_reproduction_runs_by_itself(elements: int, tmp_path: Path) -> None:
    """In another folder too, where all stands in the script; it ends with 1 while the fault is there."""
    one = program(chain(2, SUBTRACT, 1, f"1,{elements}"))
    words = ["--reference", "evaluator"]
    files = reproduction.write(tmp_path / "out", one, 'wrong "numbers" in C:\\new\n"""', words)
    assert [f.name for f in files] == ["reproduce.py", "module.hlo", "input.0.npy", "input.1.npy"]
    assert text.render(text.parse(files[1].read_text())) == text.render(one.module)
    np.testing.assert_array_equal(np.load(files[2]), one.inputs[0])
    script = files[0]
    if elements == 3:
        script = tmp_path / "alone.py"
        files[0].rename(script)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "agrees" in done.stdout
