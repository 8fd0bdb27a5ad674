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
from tfxla_inspect import diff, report

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


def shown(page: str, name: str = "functions") -> str:
    """The text of a tab, a space for each tag."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", tab(page, "recompiles", name))).split())


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
    hits = "found compiled 1 time (2.0 ms saved)"
    assert f"step : 3 traces, 3 compilations, 7.0 ms; {hits}; size (2 times), program structure" in text
    for words in (
        "0/0 0.00 s 1.0 ms its own size argument 'x': float32[0] first compilation",
        "0/1 1.00 s 2.0 ms all sizes found 1 time later argument 'x': float32[1] size against 0/0: "
        "argument 'x' dim 0 8 | 16 → --tfxla_dynamic_sources=x:0",
        "0/2 2.00 s 4.0 ms its own size argument 'x': float32[2] size, program structure against 0/1: "
        "argument 'x' dim 0 16 | 33 train.py:9 %add.4 (add): the programs part here a b c d → make it the same",
    ):
        assert words in text
    assert "other :" not in text
    every = json.loads(tab(page, "recompiles", "compilations"))["rows"]
    assert [row[:2] for row in every] == [["other", "1/0"], ["step", "0/0"], ["step", "0/1"], ["step", "0/2"]]
    assert "compiled for all such sizes" not in html.unescape(start(page))  # its last one is what is told
    assert "size (2 times), program structure" in html.unescape(start(page))


CAUSES = {
    "dtype": (
        [change("dtype", "float32", "float64")],
        APART,
        "dtype against 0/0: argument 'x' dtype float32 | float64",
    ),
    "rank": ([change("rank", "1", "2")], APART, "rank against 0/0: argument 'x' rank 1 | 2"),
    "value": ([change("value", "3", "4")], None, "constant value against 0/0: argument 'x' value 3 | 4"),
    "variable": (
        [change("equal", "4", "7", 0, "variable 'dense/kernel'")],
        None,
        "variable shape against 0/0: variable 'dense/kernel' dim 0 4 | 7",
    ),
    "python": (
        [change("python", "2", "3", of="Python value 'k'")],
        None,
        "Python value against 0/0: Python value 'k' 2 | 3",
    ),
    "constexpr": (
        [change("constexpr", "64", "128", of="constexpr 'axpy.BLOCK'")],
        None,
        "constexpr of a kernel against 0/0: constexpr 'axpy.BLOCK' 64 | 128",
    ),
    "flag": ([change("flag", "absent", "True", of="fast")], None, "flags against 0/0: fast absent | True"),
    "version": ([change("fact", "1", "2", of="llvm")], None, "environment against 0/0: llvm 1 | 2"),
    "function": (
        [],
        {"what": "no size of an argument differs"},
        "constant in the program the inputs are alike, the program is not no size",
    ),
    "structure": ([], APART, "program structure the inputs are alike, the program is not train.py:9"),
    "long": (
        [change("value", "1" * 300, "2")],
        None,
        f"constant value against 0/0: argument 'x' value {'1' * 200} … | 2",
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
    records = [compiled(n, **named, family=f"__inference_{f} from Tanh") for n, f in enumerate("ffgg")]
    text = shown(built(tmp_path, *records))
    assert "cluster of f from Tanh :" in text
    assert "cluster of g from Tanh :" in text


def test_the_traces_of_a_cluster_are_one(tmp_path: Path) -> None:
    """TensorFlow numbers clusters on from trace to trace; functions of one name are told apart by their line."""
    family = {"what": "cluster", "family": "__inference_f from Tanh", "where": "/a/train.py:7"}
    records = [compiled(n, f"tfxla_cluster_{n}", **family) for n in range(2)]
    records += [compiled(n, where=f"/a/train.py:{n}") for n in (2, 2, 3, 3)]
    text = shown(built(tmp_path, *records))
    assert "cluster of f from Tanh (train.py:7): 2 traces, 2 compilations" in text
    assert "step (train.py:2): 2 compilations" in text
    assert "step (train.py:3): 2 compilations" in text


def serves(*dims: int | None, of: str = "argument 'x'", **more: Any) -> dict[str, Any]:
    entry = {"of": of, "dtype": "float32", "dims": list(dims), "guards": [], **more}
    return {"inputs": [entry], "python": {}, "process": {}}


def frame(line: int, file: str = "/home/me/train.py", user: bool = True, **more: Any) -> dict[str, Any]:
    return {"file": file, "line": line, "function": "main", "text": f"line {line}", "user": user, **more}


def test_costs_and_what_is_served(tmp_path: Path) -> None:
    costs = {"trace": 1500.0, "lowering": 20.0, "generic": 3.0, "compile": 2.0}
    again = SIZE | {"costs": costs, "serves": serves(None, 4, guards=["dim 0: at least 2"])}
    text = shown(built(tmp_path, compiled(0), again, HIT | {"costs": {"trace": 7.0}}))
    assert "step : 3 traces, 2 compilations, 1.53 s; found" in text
    assert "1.52 s trace 1.50 s lowering 20.0 ms all sizes 3.0 ms compile 2.0 ms all sizes found" in text
    assert "serves argument 'x': float32[None, 4]; dim 0: at least 2" in text


def test_a_limit_is_a_cause(tmp_path: Path) -> None:
    """Also of a function that compiled once, and as often as it was reached."""
    limit = {"kind": "limit", "time": 111, "function": "__inference_step_9", "family": "__inference_step of 1"}
    limit |= {"what": "must", "limit": 1, "where": "", "reason": "it has 1 executables", "remedy": "raise the limit"}
    page = built(tmp_path, compiled(0), limit, limit)
    text = shown(page)
    assert "step : 1 compilation, 1.0 ms; recompile limit (2 times)" in text
    assert "Compiled no more since 2 size or values beyond --tfxla_recompile_limit: it has 1 executables" in text
    assert "→ raise the limit" in text
    assert "it has 1 executables" in html.unescape(start(page))


def test_a_constant_is_a_cause_beside_a_size(tmp_path: Path) -> None:
    apart = {"where": "train.py:9", "instr": "%c (constant)", "what": "another literal"}
    again = compiled(1, structure="s", closest=0, changed=[change("equal", "8", "9")], apart=apart)
    assert "size, constant in the program" in shown(built(tmp_path, compiled(0, structure="s"), again))


def test_structure_is_a_cause_where_it_differs(tmp_path: Path) -> None:
    """A rule may forbid one executable where the program is the same."""
    apart = APART | {"what": "dimension 0 may not vary (it is a variable's)"}
    changed = [change("equal", "4", "7", 0, "variable 'w'")]
    for other, want in (("s", "variable shape against"), ("t", "variable shape, program structure against")):
        again = compiled(1, closest=0, changed=changed, apart=apart, structure=other)
        assert want in shown(built(tmp_path, compiled(0, structure="s"), again))


def test_modules_that_could_be_one(tmp_path: Path) -> None:
    """In one function what its records advise; across functions that they are one program, and the mark it needs."""
    one = {"structure": "s", "where": "/a.py:1"}
    two = {**one, "family": "__inference_other of 1", "where": "/a.py:9"}
    records = [
        compiled(0, **one, serves=serves(8, 4)),
        compiled(1, **one, serves=serves(None, 4), remedies=["mark it"]),
        compiled(2, "__inference_other_3", **two, serves=serves(12, 4, of="argument 'data'")),
        compiled(3, structure="alone", serves=serves(8)),
    ]
    page = built(tmp_path, *records)
    text = shown(page, "similar")
    assert "1 group of modules that are equal up to sizes and constants: 3.0 ms went into more than one of each" in text
    assert "[0/0] step: argument 'x' float32[8, 4] [0/1] step: argument 'x' float32[None, 4] [1/0] other:" in text
    assert "→ mark it → step (a.py:1) and other (a.py:9) are one program: call one tf.function" in text
    assert "with mark_dynamic(x, 0)" in text


WHY_NOT = {
    "small": ([serves(1), serves(8)], None, "sizes 0 and 1 have executables of their own"),
    "value": (
        [serves(2, value="[4, 8]"), serves(2, value="[2, 16]")],
        None,
        "the value of argument 'x' is compiled in",
    ),
    "apart": ([serves(3), serves(8)], APART, "train.py:9: %add.4 (add): the programs part here"),
    "unknown": ([serves(3), serves(3)], None, "nothing that is known"),
    "no inputs": ([{}, {"inputs": 7}], None, "No two executables"),
}


@pytest.mark.parametrize("name", WHY_NOT)
def test_why_modules_are_not_one(name: str, tmp_path: Path) -> None:
    (first, then), apart, want = WHY_NOT[name]
    again = compiled(1, structure="s", serves=then, apart=apart, remedies=[])
    assert want in shown(built(tmp_path, compiled(0, structure="s", serves=first), again), "similar")


def test_clusters_that_could_be_one_function(tmp_path: Path) -> None:
    named = {"what": "cluster", "structure": "s", "serves": serves(8)}
    records = [compiled(n, "tfxla_cluster_0", **named, family=f"__inference_{f} from Tanh") for n, f in enumerate("fg")]
    text = shown(built(tmp_path, *records), "similar")
    assert (
        "cluster of f from Tanh and cluster of g from Tanh are one program: call one tf.function(jit_compile=True)"
        in text
    )


def test_other_processes_and_devices_are_others(tmp_path: Path) -> None:
    records = [compiled(n, structure="s", serves=serves(8), device=device) for n, device in enumerate(("CPU", "GPU:0"))]
    assert "No two executables" in shown(built(tmp_path, *records), "similar")
    (tmp_path / "trace.2.jsonl").write_text(json.dumps(records[0]) + "\n")
    assert "No two executables" in shown(report.build(tmp_path), "similar")


def test_the_tree_of_calls(tmp_path: Path) -> None:
    """What stacks share stands once; frames of the framework are told by number; none at all is said."""
    inner = frame(9, "/lib/tensorflow/f.py", user=False, text="")
    stacks = ([frame(1), inner, frame(2)], [frame(1), frame(3), inner], [])
    page = built(tmp_path, *(compiled(n, called=called) for n, called in enumerate(stacks)))
    text = shown(page, "stacks")
    assert text.count("train.py:1 in main: line 1") == 1
    assert "train.py:2 in main: line 2 [0/0] step: 1.0 ms train.py:3 in main: line 3 [0/1] step: 2.0 ms, again" in text
    assert "no frame of the program is known [0/2] step: 4.0 ms" in text
    assert "called from train.py:1 in main: line 1 1 frame of the framework f.py:9 in main train.py:2" in shown(page)
    apart = APART | {"stack": [frame(5)]}
    page = built(tmp_path, compiled(0), compiled(1, closest=0, changed=[], apart=apart))
    assert "made by train.py:5 in main: line 5" in shown(page)


def test_a_deep_stack_and_what_is_no_stack(tmp_path: Path) -> None:
    deep = [frame(n, text="") for n in range(5000)]
    page = built(tmp_path, compiled(0, called=deep), compiled(1, called={"a": 1}), compiled(2, called=[3, EVIL]))
    assert "train.py:4999 in main" in shown(page, "stacks")


def test_what_other_workers_saw(tmp_path: Path) -> None:
    told = [{"task": "worker 1", "of": "argument 'x'", "axis": 0, "size": 33}, 7, {}]
    page = built(tmp_path, compiled(0), compiled(1, closest=0, changed=[change("equal", "8", "9", 0)], told=told))
    assert "argument 'x' dim 0 8 | 9 worker 1 saw argument 'x' dim 0 33" in shown(page)
    assert "size" in shown(built(tmp_path, compiled(0), compiled(1, closest=0, changed=[], told=3)))


def test_nothing_compiled_again(tmp_path: Path) -> None:
    page = built(tmp_path, compiled(0))
    assert shown(page) == "1 compilation of 1 function: Nothing was compiled more than once."
    assert site(page)["recompiles"]["note"] == "nothing compiled again"
    assert "Compiled again" not in start(page)


def test_names_are_text(tmp_path: Path) -> None:
    stack = [{"file": EVIL, "line": EVIL, "text": EVIL, "function": EVIL, "user": user} for user in (True, False)]
    evil = {"family": f"{EVIL} of 1", "guards": [EVIL], "reason": EVIL, "remedies": [EVIL], "where": f"{EVIL}:{EVIL}"}
    evil |= {"called": stack, "structure": EVIL, "costs": {EVIL: 1.0}}
    evil |= {"serves": {"inputs": [{"of": EVIL, "dtype": EVIL, "dims": [EVIL], "guards": [EVIL], "value": EVIL}]}}
    apart = {"where": EVIL, "instr": EVIL, "what": EVIL, "values": [EVIL], "stack": stack}
    again = compiled(1, **evil, closest=0, changed=[change(EVIL, EVIL, EVIL, of=EVIL)], apart=apart)
    page = built(tmp_path, compiled(0, **evil), again)
    assert EVIL in shown(page)
    tabs = [tab(page, "recompiles", name) for name in ("functions", "similar", "stacks")]
    assert all(EVIL in html.unescape(text) and "<img" not in text for text in tabs)
    assert "<img" not in start(page)


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
    hits = r"found compiled 1 time \(.* ms saved\)"
    assert re.search(rf"step \(train.py:5\): 5 traces, 4 compilations, .* m?s; {hits}; size \(2 times\)", text)
    for words in (
        "size against 0/0: argument 'x' dim 0 8 | 16 → mark_dynamic(x, 0) before each call or --tfxla_dynamic_sources",
        "size, program structure against 0/1: argument 'x' dim 0 16 | 33",
        f"{script}:9 ",
        "dtype against 0/0: argument 'x' dtype float32 | float64",
        "cast 'x' to float32 before the call",
    ):
        assert words in text
    assert f"{script.name}:13 in <module>: step(tf.ones([n, 4])) [0/0] step" in shown(page, "stacks")
    assert "→ mark_dynamic(x, 0) before each call or --tfxla_dynamic_sources=x:0 or" in shown(page, "similar")
    said: list[str] = []
    assert diff.run(f"{dump}:0", "1", said.append) == 1
    assert said[2:3] == [
        "argument 'x'\n  - float32[8, 4]\n  + float32[None, 4]\nargument 'x': dim 0\n  - absent\n  + 2 to 32768"
    ]
