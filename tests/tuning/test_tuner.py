"""The tuner: candidates that are wrong, write outside their outputs or do not compile fall out; the winner must beat
the default when it stands against it again; known times are not measured twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
import pytest

from tfxla_cluster import compiler, trace
from tfxla_cluster.backends import cpu
from tfxla_cluster.backends.backend import Launcher
from tfxla_cluster.codegen.kernel.choice import DEFAULT, Choice
from tfxla_cluster.codegen.kernel.unit import Unit
from tfxla_cluster.errors import TfxlaError, UnsupportedError
from tfxla_cluster.ir import text
from tfxla_cluster.ir.dim import sample
from tfxla_cluster.ir.node import Instr
from tfxla_cluster.options import CompileOptions
from tfxla_cluster.runtime.cpu import host
from tfxla_cluster.runtime.plan import KernelStep
from tfxla_cluster.target import Target
from tfxla_cluster.tuning import check, reference, trial, tuner
from tfxla_cluster.tuning.persisted.results import Entry, Key, Measured
from tfxla_cluster.tuning.trial import CpuTrial
from tfxla_cluster.tuning.tuner import Budget, Tuner, alone

TANH = "HloModule m\nENTRY e { x = f32[300,200] parameter(0)\n  ROOT r = f32[300,200] tanh(x) }"
DEFAULT_BLOCK, BLOCKS = 32768, (2048, 8192, 32768, 131072)
BLOCK_OF_TASKS = {30: 2048, 8: 8192, 2: 32768, 1: 131072}  # of 300 rows of 200
KEY = Key("device", "hlo")


@dataclass
class Script:
    """What candidates do, by block: seconds, changes of outputs, those that write outside, that do not compile."""

    seconds: dict[int, float] = field(default_factory=dict)
    duel: dict[int, float] = field(default_factory=dict)
    wrong: dict[int, Callable[[np.ndarray], object]] = field(default_factory=dict)
    outside: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    timed: list[int] = field(default_factory=list)
    open: int = 0
    most: int = 0


@dataclass(frozen=True)
class Scripted(cpu.Cpu):
    """The CPU, which remembers which block the executable has that it loads."""

    script: Script = field(default_factory=Script)

    def lower(self, instr: Instr, choice: Choice = DEFAULT) -> Unit:
        if choice.get("block") in self.script.refused:
            raise UnsupportedError("no room")
        return cpu.Cpu(self.target).lower(instr, choice)


class ScriptedTrial(CpuTrial):
    """Its block is told by the tasks of its kernel. It loses its duel by `duel`: then two trials are open."""

    def __init__(self, script: Script, launcher: Launcher, arrays: Sequence[np.ndarray]) -> None:
        super().__init__(launcher, arrays)
        (step,) = [s for s in launcher.plan.steps if isinstance(s, KernelStep)]
        self.script, self.block = script, BLOCK_OF_TASKS[sample(step.tasks)]
        script.open += 1
        script.most = max(script.most, script.open)

    def outputs(self, poison: int) -> list[np.ndarray]:
        found = super().outputs(poison)
        for array in found:
            self.script.wrong.get(self.block, lambda a: None)(array)
        if self.block in self.script.outside:
            self._outputs[0]._whole[-1] = 0
        return found

    def seconds(self, count: int) -> float:
        self.script.timed.append(self.block)
        table = {**self.script.seconds, **(self.script.duel if self.script.open == 2 else {})}
        return table.get(self.block, 1e-3)

    def close(self) -> None:
        super().close()
        self.script.open -= 1


def tuned(script: Script, known: Entry | None = None, seconds: float = 0) -> Entry:
    instr = text.parse(TANH).entry.root
    one = Tuner(
        Scripted(host.target(), script=script),
        CompileOptions(),
        budget=Budget(seconds),
        make_trial=lambda launcher, arrays: ScriptedTrial(script, launcher, arrays),
    )
    made = one.tune(instr, KEY, "test", known)
    assert script.open == 0
    return made


def of(entry: Entry, block: int) -> Measured:
    return next(m for m in entry.measured if m.choice["block"] == block)


def test_the_fastest_is_chosen_and_every_time_kept() -> None:
    made = tuned(Script({2048: 5e-4, 8192: 7e-4, 131072: 2e-3}))
    assert (made.choice, made.seconds) == (Choice({"block": 2048}), 5e-4)
    assert {m.choice["block"]: m.seconds for m in made.measured} == {2048: 5e-4, 8192: 7e-4, 32768: 1e-3, 131072: 2e-3}
    assert made.made_by == "test"


def test_a_winner_that_does_not_win_again_is_not_chosen() -> None:
    made = tuned(Script({2048: 5e-4}, duel={2048: 9.9e-4}))
    assert made.choice == Choice({"block": DEFAULT_BLOCK})
    assert made.seconds == 1e-3
    assert of(made, 2048).seconds == 5e-4


def test_a_default_that_is_wrong_is_found_where_it_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """By other kernels, since the evaluator would take too long."""
    monkeypatch.setattr(tuner, "SMALL_WORK", 0)
    assert tuned(Script({2048: 5e-4})).choice == Choice({"block": 2048})
    with pytest.raises(TfxlaError, match="the default form of r cannot be trusted: output 0: off by"):
        tuned(Script(wrong={DEFAULT_BLOCK: lost_block}))


def test_a_large_kernel_without_a_reference_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuner, "SMALL_WORK", 0)
    monkeypatch.setitem(reference.WORK, "cpu", 0.0)
    told: list[dict[str, object]] = []
    monkeypatch.setattr(trace, "record", lambda kind, **fields: told.append(fields))
    assert tuned(Script({2048: 5e-4})).choice == Choice({"block": 2048})
    assert told == [{"event": "reference", "instr": "r", "reason": "it takes too long"}]


def test_time_may_be_up_between_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was not measured is not told of, and the best of the rest is chosen; the first batch always is measured."""
    monkeypatch.setattr(tuner, "BATCH", 1)  # candidates, for two workers two
    monkeypatch.setattr(tuner, "search", lambda candidates, evaluate, stop: evaluate(candidates))
    script = Script(dict.fromkeys((2048, 8192, 131072), 5e-4))
    made = tuned(script, seconds=1e-9)
    assert len(made.measured) == 2
    assert made.choice in {m.choice for m in made.measured}
    assert len(tuned(script).measured) == len(BLOCKS)


def poison(array: np.ndarray) -> None:
    array[7, 3] = np.nan


def lost_block(array: np.ndarray) -> None:
    array[100:, :] = 0


def twice(array: np.ndarray) -> None:
    array[0, 0] += 0.01


@pytest.mark.parametrize("change", [poison, lost_block, twice])
def test_wrong_results_fall_out(change: Callable[[np.ndarray], object]) -> None:
    made = tuned(Script({2048: 5e-4}, wrong={2048: change}))
    assert made.choice == Choice({"block": DEFAULT_BLOCK})
    assert (of(made, 2048).failure, of(made, 2048).seconds) == ("WRONG_RESULT", None)
    assert "output 0" in of(made, 2048).message


def test_writing_outside_falls_out() -> None:
    made = tuned(Script({2048: 5e-4}, outside={2048}))
    assert made.choice == Choice({"block": DEFAULT_BLOCK})
    assert (of(made, 2048).failure, of(made, 2048).message) == (
        "REDZONE_MODIFIED",
        "bytes beside output 0 were written",
    )


def test_what_does_not_compile_falls_out() -> None:
    made = tuned(Script({2048: 5e-4, 8192: 6e-4}, refused={2048}))
    assert made.choice == Choice({"block": 8192})
    assert (of(made, 2048).failure, of(made, 2048).message) == ("DISQUALIFIED", "no room")


@pytest.mark.parametrize("script", [Script(wrong={DEFAULT_BLOCK: poison}), Script(outside={DEFAULT_BLOCK})])
def test_a_default_that_is_wrong_is_no_reference(script: Script) -> None:
    with pytest.raises(TfxlaError, match="the default form of r cannot be trusted"):
        tuned(script)
    assert script.open == 0


def test_known_times_are_not_measured_again() -> None:
    """A new candidate is measured alone; then it stands against the default."""
    known = Entry(KEY, None, None, tuple(Measured(Choice({"block": b}), 1e-3) for b in BLOCKS if b != 8192))
    script = Script({8192: 5e-4})
    made = tuned(script, known)
    assert made.choice == Choice({"block": 8192})
    assert set(script.timed) == {8192, DEFAULT_BLOCK}
    assert len(made.measured) == 4


def test_a_budget_that_is_spent_leaves_the_default() -> None:
    made = tuned(Script({2048: 5e-4}), seconds=1e-9)
    assert made.choice == Choice({"block": DEFAULT_BLOCK})
    assert len(made.measured) == 1


def test_a_machine_that_slows_down_is_no_slower_candidate() -> None:
    """Batches are compared by the default's time in each."""
    script = Script(dict.fromkeys(BLOCKS, 0.001))
    known = Entry(KEY, None, None, tuple(Measured(Choice({"block": b}), 2e-3) for b in BLOCKS if b != 8192))
    assert of(tuned(script, known), 8192).seconds == pytest.approx(2e-3)


def test_large_arrays_are_under_trial_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuner, "TRIAL_BYTES", 1)
    script = Script({2048: 5e-4, 8192: 7e-4})
    assert tuned(script).choice == Choice({"block": 2048})
    assert script.most == 2  # the default and one more


# --- the trial itself ---
def compiled(source: str) -> tuple[CpuTrial, list[np.ndarray]]:
    module, _ = alone(text.parse(source).entry.root)
    arrays = check.inputs(module.entry.params, "x")
    return CpuTrial(compiler.compile_module(module, cpu.this_machine()).executable, arrays), arrays


def test_a_trial_poisons_and_guards() -> None:
    one, (x,) = compiled(TANH)
    for value in (0xFF, 0):
        np.testing.assert_allclose(one.outputs(value)[0], np.tanh(x), rtol=1e-5)
    assert one.overrun() == ""
    assert 0 < one.seconds(3) < 1
    one._inputs[0].array[0, 0] += 1
    assert one.overrun() == "input 0 was written"
    one._outputs[0]._whole[trial.ZONE - 1] = 0
    assert one.overrun() == "bytes beside output 0 were written"
    one.close()


def test_several_results_and_a_constant_operand() -> None:
    source = """HloModule m
body { x = f32[9,5] parameter(0)
  s = f32[] parameter(1)
  b = f32[9,5] broadcast(s), dimensions={}
  a = f32[9,5] add(x, b)
  n = f32[9,5] negate(a)
  ROOT t = (f32[9,5], f32[9,5]) tuple(a, n) }
ENTRY e { p = f32[9,5] parameter(0)
  c = f32[] constant(2.5)
  ROOT f = (f32[9,5], f32[9,5]) fusion(p, c), kind=kLoop, calls=body }"""
    one, (x,) = compiled(source)
    a, n = one.outputs(0xFF)
    np.testing.assert_array_equal(a, x + np.float32(2.5))
    np.testing.assert_array_equal(n, -a)
    one.close()


@pytest.mark.parametrize(
    ("got", "want", "near"),
    [
        ([1.0, 2.0], [1.0, 2.0], True),
        ([1.0, 2.0 + 1e-6], [1.0, 2.0], True),
        ([1.0, 2.001], [1.0, 2.0], False),
        ([np.nan, 1.0], [np.nan, 1.0], True),
        ([np.nan, 1.0], [1.0, np.nan], False),
        ([np.inf, 1.0], [-np.inf, 1.0], False),
        ([0.0], [-0.0], True),
        ([], [], True),
    ],
)
def test_how_near_is_near_enough(got: list[float], want: list[float], near: bool) -> None:
    a, b = np.array(got, np.float32), np.array(want, np.float32)
    assert (check.difference([a], [b]) == "") == near


def test_integers_and_narrow_floats() -> None:
    assert check.difference([np.array([1, 2])], [np.array([1, 3])]) == "output 0: 1 of 2 elements differ"
    one = np.array([1.0, 100.0], ml_dtypes.bfloat16)
    assert check.difference([one], [one + np.array([0, 1], ml_dtypes.bfloat16)]) == ""
    assert check.difference([one], [one + np.array([0, 50], ml_dtypes.bfloat16)]) != ""
    assert "not" in check.difference([np.zeros(2)], [np.zeros(3)])


def test_factors_of_11_bits() -> None:
    """Forms round f32 to tf32 each in its way, on GPUs and where HLO lets them; a lost block is far more."""
    one = np.ones(2, np.float32)
    assert check.difference([one], [one * np.float32(1.001)]) != ""
    assert check.difference([one], [one * np.float32(1.001)], check.Tolerance(tf32=True)) == ""
    assert check.difference([one], [one * np.float32(1.01)], check.Tolerance(tf32=True)) != ""
    wide = one.astype(np.float64)
    assert check.difference([wide], [wide * 1.001], check.Tolerance(tf32=True)) != ""


@pytest.mark.parametrize(
    ("dtype", "how", "backend", "rounded"),
    [
        ("f32", "", "gpu", True),
        ("f32", "", "cpu", False),
        ("f32", ", operand_precision={highest,highest}", "gpu", False),
        ("f32", ", algorithm=dot_tf32_tf32_f32", "gpu", True),
        ("f64", "", "gpu", False),
    ],
)
def test_which_products_round_their_factors(dtype: str, how: str, backend: str, rounded: bool) -> None:
    source = f"""HloModule m
inner {{ x = {dtype}[5,7] parameter(0)
  y = {dtype}[7,3] parameter(1)
  d = {dtype}[5,3] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}{how}
  ROOT n = {dtype}[5,3] negate(d) }}
ENTRY e {{ a = {dtype}[5,7] parameter(0)
  b = {dtype}[7,3] parameter(1)
  ROOT f = {dtype}[5,3] fusion(a, b), kind=kOutput, calls=inner }}
"""
    fusion = text.parse(source).entry.root
    assert check.rounds_factors(fusion, Target(backend, "sm_90")) is rounded
