"""The page of recompilations: of records that a test writes, and of a program that runs."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.inspect.pages import site, start, tab
from tfxla_inspect import report

ROOT = Path(__file__).resolve().parents[2]
EVIL = "<img src=x onerror=alert(1)>"


def compiled(number: int, name: str = "__inference_step_7", **fields: Any) -> dict[str, Any]:
    """A record of a compilation at second `number`, of `2 ** number` ms."""
    record = {
        "kind": "compile", "time": 100 + number, "id": number, "cluster": name, "what": "must", "hit": "",
        "family": "__inference_step of 1", "generic": False, "guards": [f"argument 'x': float32[{number}]"],
        "ms": 2.0**number, "key": f"k{number}", "reason": "first compilation of this function",
    }  # fmt: skip
    return record | fields


def change(kind: str, was: str, now: str, axis: int = -1, of: str = "argument 'x'") -> dict[str, Any]:
    return {"kind": kind, "of": of, "axis": axis, "was": was, "now": now}


def built(directory: Path, *records: dict[str, Any]) -> str:
    (directory / "trace.1.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    return report.build(directory)


def shown(page: str) -> str:
    """The text of the tab, a space for each tag."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", tab(page, "recompiles", "functions"))).split())


SIZE = compiled(
    1, "__inference_step_20", generic=True, closest=0, changed=[change("equal", "8", "16", 0)], apart=None,
    remedies=["--tfxla_dynamic_sources=x:0"], reason="argument 'x': dim 0 was 8, is 16; compiled for all such sizes",
)  # fmt: skip
APART = {"where": "train.py:9", "instr": "%add.4 (add)", "what": "the programs part here", "values": ["a b", "c d"]}
PARTED = compiled(2, closest=1, changed=[change("equal", "16", "33", 0)], apart=APART, remedies=["make it the same"])
HIT = {"kind": "compile", "time": 110, "cluster": "__inference_step_40", "what": "must", "hit": "memory", "key": "k1"}


def test_traces_of_one_function_stand_together_in_order(tmp_path: Path) -> None:
    page = built(tmp_path, PARTED, HIT, compiled(0), SIZE, compiled(5, family="__inference_other of 1"))
    text = shown(page)
    assert "1 of 2 functions compiled more than once: 6.0 ms went into compiling again." in text
    assert (
        "step : 3 compilations, 7.0 ms; found compiled 1 time (2.0 ms saved); size (2 times), program structure" in text
    )
    for words in (
        "1 0.00 s 1.0 ms its own size argument 'x': float32[0] first compilation",
        "2 1.00 s 2.0 ms all sizes found 1 time later argument 'x': float32[1] size against 1: "
        "argument 'x' dim 0 8 | 16 → --tfxla_dynamic_sources=x:0",
        "3 2.00 s 4.0 ms its own size argument 'x': float32[2] size, program structure against 2: "
        "argument 'x' dim 0 16 | 33 train.py:9 %add.4 (add): the programs part here a b c d → make it the same",
    ):
        assert words in text
    assert "other :" not in text
    every = json.loads(tab(page, "recompiles", "compilations"))["rows"]
    assert [row[:2] for row in every] == [["other", 1], ["step", 1], ["step", 2], ["step", 3]]
    assert "compiled for all such sizes" not in html.unescape(start(page))  # its last one is what is told
    assert "size (2 times), program structure" in html.unescape(start(page))


CAUSES = {
    "dtype": ([change("dtype", "float32", "float64")], APART, "dtype against 1: argument 'x' dtype float32 | float64"),
    "rank": ([change("rank", "1", "2")], APART, "rank against 1: argument 'x' rank 1 | 2"),
    "value": ([change("value", "3", "4")], None, "constant value against 1: argument 'x' value 3 | 4"),
    "variable": (
        [change("equal", "4", "7", 0, "variable 'dense/kernel'")],
        None,
        "variable shape against 1: variable 'dense/kernel' dim 0 4 | 7",
    ),
    "python": (
        [change("python", "2", "3", of="Python value 'k'")],
        None,
        "Python value against 1: Python value 'k' 2 | 3",
    ),
    "constexpr": (
        [change("constexpr", "64", "128", of="constexpr 'axpy.BLOCK'")],
        None,
        "constexpr of a kernel against 1: constexpr 'axpy.BLOCK' 64 | 128",
    ),
    "flag": ([change("flag", "absent", "True", of="fast")], None, "flags against 1: fast absent | True"),
    "version": ([change("fact", "1", "2", of="llvm")], None, "environment against 1: llvm 1 | 2"),
    "function": (
        [],
        {"what": "no size of an argument differs"},
        "constant in the program the inputs are alike, the program is not no size",
    ),
    "structure": ([], APART, "program structure the inputs are alike, the program is not train.py:9"),
    "long": (
        [change("value", "1" * 300, "2")],
        None,
        f"constant value against 1: argument 'x' value {'1' * 200} … | 2",
    ),
    "limit": ([], None, "limit of the cache the reason"),
    "not recorded": (None, None, "not recorded the reason"),
}


@pytest.mark.parametrize("name", CAUSES)
def test_kinds_of_cause(name: str, tmp_path: Path) -> None:
    changed, apart, want = CAUSES[name]
    again = compiled(1, closest=0, changed=changed, apart=apart, reason="the reason")
    assert f"float32[1] {want}" in shown(built(tmp_path, compiled(0), again))


def test_what_is_not_known_is_not_made_up(tmp_path: Path) -> None:
    """A hit of what an earlier run compiled saved a time that is not in the dump; a closest one may be missing."""
    gone = compiled(1, closest=9, changed=[change("rank", "1", "2")])
    text = shown(built(tmp_path, compiled(0), gone, HIT | {"hit": "disk", "key": "old"}, HIT | {"key": "k0"}))
    assert "found compiled 2 times (1.0 ms saved by 1 of them)" in text
    assert "against" not in text


def test_clusters_are_told_apart_by_their_function(tmp_path: Path) -> None:
    named = {"what": "cluster", "cluster": "tfxla_cluster_0"}
    records = [compiled(n, **named, family=f"__inference_{f}/12ab") for n, f in enumerate("ffgg")]
    text = shown(built(tmp_path, *records))
    assert "cluster_0 in f :" in text
    assert "cluster_0 in g :" in text


def test_nothing_compiled_again(tmp_path: Path) -> None:
    page = built(tmp_path, compiled(0))
    assert shown(page) == "1 compilation of 1 function: Nothing was compiled more than once."
    assert site(page)["recompiles"]["note"] == "nothing compiled again"
    assert "Compiled again" not in start(page)


def test_names_are_text(tmp_path: Path) -> None:
    evil = {"family": f"{EVIL} of 1", "guards": [EVIL], "reason": EVIL, "remedies": [EVIL]}
    apart = {"where": EVIL, "instr": EVIL, "what": EVIL, "values": [EVIL]}
    again = compiled(1, **evil, closest=0, changed=[change(EVIL, EVIL, EVIL, of=EVIL)], apart=apart)
    page = built(tmp_path, compiled(0, **evil), again)
    assert EVIL in shown(page)
    assert "<img" not in tab(page, "recompiles", "functions") + start(page)


def test_many_are_cut_and_said_so(tmp_path: Path) -> None:
    page = built(tmp_path, *(compiled(0, family=f"f{n // 60} of 1", key=str(n)) for n in range(6120)))
    assert "and 10 more, in 'All compilations'" in shown(page)
    assert "and 2 more, in 'All compilations'" in shown(page)
    assert len(json.loads(tab(page, "recompiles", "compilations"))["rows"]) == 6120


PROGRAM = """
import tensorflow as tf, tfxla_cluster
tfxla_cluster.enable()

@tf.function(jit_compile=True, reduce_retracing=False)
def step(x):
    y = tf.tanh(x)
    if x.shape[0] == 33:
        y = y + 1.0
    return tf.reduce_sum(y, axis=1)

for n in (8, 16, 33, 40):
    step(tf.ones([n, 4]))
step(tf.ones([8, 4], tf.float64))
"""


def test_a_program(tmp_path: Path) -> None:
    """Sizes 8, 16, 33 and 40 and another dtype make four executables: 40 is the one of 16."""
    script, dump = tmp_path / "train.py", tmp_path / "dump"
    script.write_text(PROGRAM)
    paths = os.pathsep.join([str(ROOT), str(ROOT / "inspect")])
    flags = {"TFXLA_FLAGS": f"--xla_dump_to={dump}", "XLA_FLAGS": "", "TF_XLA_FLAGS": "", "PYTHONPATH": paths}
    subprocess.run([sys.executable, script], env={**os.environ, **flags}, check=True, capture_output=True)
    page = report.build(dump)
    text = shown(page)
    assert "1 of 1 function compiled more than once" in text
    assert re.search(r"step : 4 compilations, .* ms; found compiled 1 time \(.* ms saved\); size \(2 times\)", text)
    for words in (
        "size against 1: argument 'x' dim 0 8 | 16 → --tfxla_dynamic_sources=x:0 or jit(fn, dynamic=True)",
        "size, program structure against 2: argument 'x' dim 0 16 | 33",
        f"{script}:9 ",
        "dtype against 1: argument 'x' dtype float32 | float64",
        "cast 'x' to float32 before the call",
    ):
        assert words in text
