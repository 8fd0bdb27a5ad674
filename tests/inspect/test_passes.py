from __future__ import annotations

import itertools
import random
from collections import Counter
from pathlib import Path

from tests.inspect import sample
from tfxla_inspect import passes
from tfxla_inspect.model import Module, PassStep
from tfxla_inspect.reading import Reader
from tfxla_inspect.scan import scan

STEPS = {
    "0000.first.after_pipeline-start.before_a": sample.BEFORE,
    "0002.first.after_a.before_b": sample.BEFORE.replace("multiply(", "add("),
    "0010.second.after_b.before_pipeline-end": sample.BEFORE.replace("multiply(", "add(").replace("  %zero", "  %nil"),
}


def steps(directory: Path, texts: dict[str, str]) -> list[PassStep]:
    for name, text in texts.items():
        (directory / f"module_0000.m.{name}.txt").write_text(text)
    return list(passes.timeline(Module(scan(directory).modules[0], "m0"), Reader()))


def test_each_step_says_what_changed(tmp_path: Path) -> None:
    (tmp_path / "module_0000.m.before_optimizations.txt").write_text(sample.BEFORE)
    one, inner, two, three = steps(tmp_path, STEPS | {"0001.a.after_half": sample.BEFORE})
    assert [(s.step, s.pipeline, s.after, s.before) for s in (one, two, three)] == [
        (0, "first", "pipeline-start", "a"),
        (2, "first", "a", "b"),
        (10, "second", "b", "pipeline-end"),
    ]
    assert (inner.step, inner.pipeline, inner.after, inner.is_inner) == (1, "a", "after_half", True)
    assert (one.gone, one.new, one.delta) == (inner.gone, inner.new, inner.delta) == (0, 0, ())
    assert one.instructions == sample.BEFORE.count(" = ")
    assert (two.gone, two.new) == (three.gone, three.new) == (1, 1)
    assert [" ".join(line.split(" = ")[0].split()) for line in two.delta] == [
        "@ main",
        "%wide",
        "- %mul",
        "+ %mul",
        "%zero",
    ]


def test_differences_rebuild_the_text(tmp_path: Path) -> None:
    """Gone and new lines are what tells the texts apart, however much was changed."""
    dice = random.Random(3)
    head, rows = "HloModule m\n\nENTRY %main () -> f32[] {", [f"  %i.{n} = f32[{n}] add(%a, %b)" for n in range(3000)]
    texts = []
    for changed in (0, 5, 700, 2900):
        for n in dice.sample(range(3000), changed):
            rows[n] = f"  %i.{n} = f32[{dice.randrange(9)}] multiply(%a, %b)"
        texts.append("\n".join([head, *rows, "}"]))
    made = steps(tmp_path, {f"{n:04}.p.after_{n}.before_{n + 1}": text for n, text in enumerate(texts)})
    for (old, new), step in zip(itertools.pairwise(texts), made[1:]):
        before, after = Counter(old.splitlines()), Counter(new.splitlines())
        assert (step.gone, step.new) == ((before - after).total(), (after - before).total())
        if step.gone + step.new <= 4000:
            assert Counter(line[2:] for line in step.delta if line[0] == "-") == before - after
            assert Counter(line[2:] for line in step.delta if line[0] == "+") == after - before
        assert len(step.delta) <= 2 * 4001


def test_of_a_step_that_changed_all_of_a_large_module_the_beginning_is_shown(tmp_path: Path) -> None:
    rows = [f"  %i.{n} = f32[] add(%i.{n - 1}, %i.{n - 2})" for n in range(50_000)]
    other = [row.replace("add", "multiply") for row in reversed(rows)]
    texts = {"0000.p.after_a.before_b": "\n".join(rows), "0001.p.after_b.before_c": "\n".join(other)}
    _, last = steps(tmp_path, texts)
    assert last.gone == last.new == 50_000
    assert last.delta[-1] == "@ and 96,000 more lines"
