"""What the report says to do first: each kind of finding from a dump that has it, and none from one that has not."""

from __future__ import annotations

import html
import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.inspect import sample
from tests.inspect.pages import start, tab
from tfxla_cluster.ir.dtype import DTYPES
from tfxla_inspect import findings, measures, model, report
from tfxla_inspect.parsers import graphdef, hlo
from tfxla_inspect.parsers.shapes import byte_size
from tfxla_inspect.scan import Directory, ModuleFiles

CHAIN = """\
HloModule chain

%twice (p: f32[64,64]) -> f32[64,64] {
  %p = f32[64,64]{1,0} parameter(0)
  ROOT %sum = f32[64,64]{1,0} add(%p, %p)
}

%turned (q: f32[64,64]) -> f32[64,64] {
  %q = f32[64,64]{1,0} parameter(0)
  ROOT %flip = f32[64,64]{1,0} transpose(%q), dimensions={1,0}
}

%squared (r: f32[64,64]) -> f32[64,64] {
  %r = f32[64,64]{1,0} parameter(0)
  ROOT %square = f32[64,64]{1,0} multiply(%r, %r)
}

ENTRY %main (x: f32[64,64]) -> f32[64,64] {
  %x = f32[64,64]{1,0} parameter(0)
  %fusion = f32[64,64]{1,0} fusion(%x), kind=kLoop, calls=%twice, metadata={op_name="a"}
  %fusion.1 = f32[64,64]{1,0} fusion(%fusion), kind=kLoop, calls=%turned, metadata={op_name="b"}
  ROOT %fusion.2 = f32[64,64]{1,0} fusion(%fusion.1), kind=kLoop, calls=%squared, metadata={op_name="c"}
}
"""
DECISIONS = [
    {"a": "sum", "b": "flip", "ok": False, "rule": "hero-prologue", "reason": "too dear"},
    {"a": "flip", "b": "square", "ok": False, "rule": "cycle", "reason": "out and in"},
]
KERNELS = [
    {"symbol": f"k{n}", "instr": name, "bytes": 32768, "flops": 4096}
    for n, name in enumerate(("fusion", "fusion.1", "fusion.2"))
]
LAUNCHES = {"k0": ["fusion"], "k1": ["fusion.1"], "k2": ["fusion.2"]}


def module(steps: list[dict[str, Any]], **more: Any) -> model.Module:
    return model.Module(ModuleFiles(0, "chain"), "m0", executions=[{"pid": "1", "count": 10, "steps": steps, **more}])


def found(one: model.Module, kernels: list[dict[str, Any]] = KERNELS) -> dict[str, list[findings.Finding]]:
    taken = measures.of_module(one)
    compiled = findings.Compiled(
        one, hlo.parse(CHAIN), measures.kernels(kernels, LAUNCHES, taken), taken, DECISIONS, {"fusion.1": "t.py:3"}
    )
    kinds: dict[str, list[findings.Finding]] = {}
    for finding in findings.of_module(compiled):
        kinds.setdefault(finding.kind, []).append(finding)
    return kinds


STEPS = [{"instr": name, "count": 10, "ms": 1.0, "median_ms": 0.1} for name in ("fusion", "fusion.1", "fusion.2")]


def test_values_between_kernels_have_bytes_reason_and_what_can_be_done() -> None:
    unfused = found(module(STEPS))["unfused"]
    assert [f.route for f in unfused] == ["m0/graph/fusion", "m0/graph/fusion.1"]
    assert "16.4 KB go from fusion to fusion.1: hero-prologue: too dear" in unfused[0].evidence
    assert [f.is_open for f in unfused] == [True, False]
    # Written and read once, 10 times, at 32768 bytes in 0.1 ms, which is what the kernels reached.
    assert unfused[0].saved == pytest.approx(2 * 16384 / 327680 * 10)


def test_a_kernel_that_only_moves_is_named_with_its_time_and_line() -> None:
    (copy,) = found(module(STEPS))["copies"]
    assert copy.what == "fusion.1 of chain"
    assert copy.saved == pytest.approx(1.0)
    assert copy.where == "t.py:3"


def test_only_kernels_far_from_a_known_floor_are_named() -> None:
    assert "far-from-floor" not in found(module(STEPS))
    floors = [{**row, "floor_ms": ms} for row, ms in zip(KERNELS, (0.09, 0.02, None))]
    (far,) = found(module(STEPS), floors)["far-from-floor"]
    assert far.route == "m0/kernels/fusion.1"
    assert "5.0 x its floor of 20.0 us" in far.evidence
    assert far.saved == pytest.approx(1.0 * 0.8)


def test_all_executions_count_where_only_the_first_were_timed() -> None:
    (copy,) = found(module(STEPS, count=1000, timed=10))["copies"]
    assert copy.saved == pytest.approx(100.0)


def test_savings_are_unknown_without_times() -> None:
    kinds = found(module([]))
    assert [f.saved for f in kinds["unfused"]] == [None, None]
    assert kinds["copies"][0].saved is None


def test_the_last_record_of_each_process_holds() -> None:
    one = module(STEPS)
    one.executions.append({"pid": "1", "count": 20, "steps": [{**STEPS[0], "count": 20, "ms": 3.0}]})
    one.executions.append({"pid": "2", "count": 5, "steps": [{**STEPS[0], "count": 5, "ms": 7.0}]})
    taken = measures.of_module(one)
    assert (taken.executions, taken.timed, taken.ms) == (25, 25, 10.0)


def test_kernels_of_one_instruction_do_not_each_have_its_bytes_as_rate() -> None:
    taken = measures.of_module(module(STEPS))
    rows = [{"symbol": "a", "instr": "fusion", "bytes": 8}, {"symbol": "b", "instr": "fusion", "bytes": 8}]
    both = measures.kernels(rows, {"a": ["fusion"], "b": ["fusion"]}, taken)
    assert [(k.shares, k.rate, k.each) for k in both] == [(2, None, None)] * 2


def test_modules_of_one_number_in_two_folders_have_their_own_executions() -> None:
    compiled = {"device": "GPU:0", "kernels": 3, "module": "chain"}
    modules = [model.Module(ModuleFiles(0, "chain"), page, [compiled]) for page in ("m0", "m0x1")]
    dump = model.Dump(Directory(Path("d"), [], [], []), modules, {"graph": [{"module": "chain", "ok": False}]}, [])
    measured = {"m0": measures.Measures(10), "m0x1": measures.Measures(20)}
    assert [f.saved for f in findings.launches(dump, measured)] == [
        pytest.approx(3 * runs * findings.LAUNCH_MS) for runs in (10, 20)
    ]


def graph(text: str) -> graphdef.Graph:
    """From lines 'name op cluster inputs...'; cluster '-' is none."""
    nodes = []
    for line in text.split("\n"):
        name, op, cluster, *inputs = line.split()
        nodes.append(graphdef.Node(name, op, "", inputs, cluster.replace("-", "")))
    return graphdef.Graph(nodes)


def splits(text: str, runs: dict[str, int]) -> list[findings.Finding]:
    return list(findings.of_graph(graph(text), "g0", {"s": ("strings", "t.py:9")}, runs))


def test_an_op_between_clusters_is_named_with_calls_it_costs() -> None:
    (split,) = splits("a Add c0\ns AsString - a\nt Foo - s\nb Add c1 t\nlone AsString - a", {"c1": 100})[:1]
    assert (split.what, split.where, split.route) == ("AsString", "t.py:9", "g0/left/%3FAsString")
    assert split.evidence == "1 node (s, ...) before c1: strings"
    assert split.saved == pytest.approx(100 * findings.CALL_MS)


@pytest.mark.parametrize(
    "text",
    [
        "a Add c0\ns AsString - a",  # nothing behind it
        "s AsString -\na Add c0 s",  # nothing before it
        "a Add c0\ns AsString - a\nb Add c0 s",  # the same cluster
        "a Add c0\ns AsString - ^a\nb Add c1 s",  # only control
        "s Foo - t\nt Foo - s",  # a loop
    ],
)
def test_ops_that_split_nothing_are_not_named(text: str) -> None:
    assert splits(text, {}) == []


def test_long_chains_outside_need_no_recursion() -> None:
    chain = "\n".join(f"n{i} Foo - n{i - 1}" for i in range(1, 5000))
    assert splits(f"a Add c0\nn0 Foo - a\n{chain}\nb Add c1 n4999", {})


def test_bytes_of_shapes() -> None:
    assert byte_size("f32[2,3]{1,0}") == 24
    assert byte_size("(f32[2]{0}, /*index=1*/bf16[101/*n*/,2], token[])") == 8 + 404
    assert byte_size("s32[<=8]") == 32
    assert byte_size("pred[]") == 1
    assert byte_size("f32[0,5]") == 0
    assert byte_size("what[3]") == 0
    assert byte_size(f"f32[{'9' * 400}]") > 2**60
    dice = random.Random(3)
    for dtype in DTYPES.values():
        dims = [dice.randrange(9) for _ in range(dice.randrange(4))]
        count = 1
        for dim in dims:
            count *= dim
        assert byte_size(f"{dtype.name}[{','.join(map(str, dims))}]") == count * dtype.itemsize


# --- in the report ---
def test_the_start_page_ranks_them_with_evidence_and_remedy(tmp_path: Path) -> None:
    directory = sample.write(tmp_path / "d")
    text = html.unescape(start(report.build(directory)))
    order = [text.index(words) for words in ("Internal error", "Not compiled as asked", "Compiled again:")]
    assert order == sorted(order)
    assert "Unique is not compiled yet (1 time)" in text
    assert "up to 31.5 ms" in text
    assert f"tfxla-inspect report {directory.name}" in text


def test_the_page_of_findings_has_all_with_links(tmp_path: Path) -> None:
    made = report.build(sample.write(tmp_path / "d"))
    listed = json.loads(tab(made, "findings", "list"))["rows"]
    assert {row[0] for row in listed} >= {"Internal error of tfxla_cluster", "Compiled again"}
    assert all(row[4] for row in listed)
    kinds = json.loads(tab(made, "findings", "kinds"))["rows"]
    assert sum(row[1] for row in kinds) == len(listed)
    assert [row[0] for row in kinds] == [kind.title for kind in findings.KINDS.values()]


def test_compilations_that_no_store_keeps_are_named(tmp_path: Path) -> None:
    run = {"kind": "run", "flags": {}}
    records = [run, {"kind": "compile", "id": 0, "hit": "", "ms": 900.0}]
    for flags, wanted in (({}, True), ({"tf_xla_persistent_cache_directory": "x"}, False)):
        run["flags"] = flags
        (tmp_path / "trace.7.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
        (tmp_path / "module_0000.m.before_optimizations.txt").write_text(sample.BEFORE)
        assert ("Executables were not kept" in start(report.build(tmp_path))) is wanted


def test_what_watching_numerics_found_comes_first(tmp_path: Path) -> None:
    said = {
        "kind": "numerics",
        "function": "step",
        "op": "Tanh",
        "node": "t",
        "where": "train.py:31",
        "message": "is 2",
    }
    records = [
        {"kind": "fallback", "what": "cluster_0", "reason": "Unique"},
        {**said, "event": "nonfinite", "op": "Log", "message": "NaN appears"},
        {**said, "event": "unwatched", "op": "", "message": "cannot be run"},
        {**said, "event": "parts"},
    ]
    (tmp_path / "trace.7.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    (tmp_path / "module_0000.m.before_optimizations.txt").write_text(sample.BEFORE)
    text = html.unescape(start(report.build(tmp_path)))
    order = [text.index(words) for words in ("Tanh in step", "Log in step", "Not compiled as asked")]
    assert order == sorted(order)
    assert "train.py:31" in text
    assert "cannot be run" not in text


def test_where_time_went_names_kernels_with_module_and_share(tmp_path: Path) -> None:
    text = html.unescape(start(report.build(sample.write(tmp_path / "d"))))
    assert "4.0 ms in the steps of 12 executions of 1 module" in text
    assert "75.0 %" in text
    assert "multiply_reduce_fusion_k0" in text
