from __future__ import annotations

import ast
import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import tfxla_cluster
from tests.inspect import sample
from tfxla_cluster import compiler
from tfxla_cluster.backends import interpreter
from tfxla_cluster.dump import buffer_text, cost, manifest, module_files, schema
from tfxla_cluster.dump.sink import Sink
from tfxla_cluster.ir import proto, text
from tfxla_cluster.ir.dim import sym
from tfxla_cluster.ir.opcode import FUNCTION, SLOW
from tfxla_cluster.options import DumpOptions
from tfxla_cluster.runtime.plan import walk
from tfxla_inspect.parsers import kernels

HLO = """\
HloModule m

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %add = f32[] add(%a, %b)
}

ENTRY %main (x: f32[4,6], y: f32[6,5], i: f32[2,8,8,3], k: f32[3,3,3,7]) -> (f32[4,5], f32[4], f32[2,8,8,7]) {
  %x = f32[4,6] parameter(0)
  %y = f32[6,5] parameter(1)
  %i = f32[2,8,8,3] parameter(2)
  %k = f32[3,3,3,7] parameter(3)
  %dot = f32[4,5] dot(%x, %y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %zero = f32[] constant(0)
  %red = f32[4] reduce(%x, %zero), dimensions={1}, to_apply=%sum
  %conv = f32[2,8,8,7] convolution(%i, %k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  ROOT %t = (f32[4,5], f32[4], f32[2,8,8,7]) tuple(%dot, %red, %conv)
}
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> Path:
    return sample.write(tmp_path_factory.mktemp("dump"))


def load(directory: Path, suffix: str):
    return json.loads((directory / f"module_0000.cluster_0.{suffix}").read_text())


def test_text_and_proto_replay(directory):
    read = text.parse((directory / "module_0000.cluster_0.before_optimizations.txt").read_text())
    data = (directory / "module_0000.cluster_0.before_optimizations.hlo.pb").read_bytes()
    assert text.render(proto.read(data)) == text.render(read)


def test_json_files(directory):
    assert [d["ok"] for d in load(directory, "fusion_decisions.json")] == [True, False]
    plan = load(directory, "launch_plan.json")
    assert plan["steps"][0]["tasks"] == {"dim": "n", "sample": 8}
    assert plan["constants"] == [64]
    assert [s["type"] for s in plan["steps"]] == ["KernelStep", "LoopStep"]
    (kernel,) = load(directory, "kernels.json")
    assert kernel["instrs"] == ["wide", "mul", "zero", "reduce"]
    assert kernel["sources"] == ["model/mul", "model/sum"]
    assert kernel["tasks"] == 8
    assert load(directory, "timings.json")["total_ms"] == 33.0
    assert load(directory, "sources.json")["model/mul"][0]["line"] == 2


def test_kernel_texts_are_marked(directory):
    for suffix, comment in (("s", "#"), ("ir-no-opt.ll", ";"), ("kernel_ir.txt", "//")):
        first = (directory / f"module_0000.cluster_0.{suffix}").read_text().splitlines()[0]
        assert first == f"{comment} ==== kernel multiply_reduce_fusion_k0 ===="
    compiled = (directory / "module_0000.cluster_0.ir-with-opt.ll").read_text()
    assert compiled.startswith("; ==== module 0 at code generation level 2 ====\n")
    assert [symbol for symbol, _ in kernels.split(compiled)] == ["multiply_reduce_fusion_k0"]


def test_buffer_lives(directory):
    lives = load(directory, "buffers.json")
    assert lives["arena_bytes"] == 512
    assert lives["steps"] == [[0, "multiply_reduce_fusion"], [2, "copy"], [4, "conditional"], [6, "copy"]]
    wide = {"name": "wide", "bytes": 384, "kind": "temp", "index": 0, "offset": 64, "live": [[1, 3]]}
    assert wide in lives["buffers"]
    assert [b["name"] for b in lives["buffers"]] == ["p0", "p1", "multiply_reduce_fusion", "wide", "state", "copy"]
    assert lives["buffers"][4]["bytes"] == 256


CHAIN = """HloModule chain
ENTRY e { x = f32[16,16] parameter(0)
  y = f32[16,32] parameter(1)
  a = f32[16,16] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[16,32] dot(a, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[16,32] dot(x, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT d = f32[32,32] dot(b, c), lhs_contracting_dims={0}, rhs_contracting_dims={0} }"""


def test_lives_of_a_module_that_is_compiled(tmp_path):
    """No two values lie in one place at one time, and the arena holds the most that is alive at once."""
    dump = Sink(DumpOptions(str(tmp_path))).module("chain")
    made = compiler.compile_module(text.parse(CHAIN), interpreter.this_machine(), dump=dump)
    lives = json.loads((tmp_path / "module_0000.chain.buffers.json").read_text())
    temps = [b for b in lives["buffers"] if b["kind"] == "temp"]
    assert {b["name"] for b in temps} == {"a", "b", "c"}
    assert [name for _, name in lives["steps"]] == [s.instr for s in walk(made.plan.steps)] == ["a", "b", "c", "d"]
    for a, b in itertools.combinations(temps, 2):
        apart = a["offset"] + a["bytes"] <= b["offset"] or b["offset"] + b["bytes"] <= a["offset"]
        assert apart or all(end <= begin for (_, end), (begin, _) in zip(a["live"], b["live"]))
    last = max(tick for tick, _ in lives["steps"])
    alive = [sum(b["bytes"] for b in temps if any(s <= t < e for s, e in b["live"])) for t in range(last + 2)]
    assert 0 < max(alive) <= lives["arena_bytes"]


def test_buffer_text():
    module = text.parse(sample.AFTER)
    lines = buffer_text.buffer_assignment(sample.plan(module), module).splitlines()
    assert lines[0] == "BufferAssignment:"
    assert "allocation 0: size 1024, parameter 0, shape |f32[8,32]| at ShapeIndex {}, maybe-live-out:" in lines
    assert any("multiply_reduce_fusion @0> (size=32,offset=0): f32[8]" in line for line in lines)
    assert any(line.startswith("allocation 4: size 512, preallocated-temp") for line in lines)


def test_cost():
    entry = text.parse(HLO).entry
    by_name = {i.name: i for i in entry.instrs}
    assert cost.flops_of(by_name["dot"]) == 2 * 4 * 5 * 6
    assert cost.flops_of(by_name["red"]) == 24
    assert cost.flops_of(by_name["conv"]) == 2 * (2 * 8 * 8 * 7) * 9 * 3
    assert cost.flops_of(by_name["x"]) == 0
    assert cost.bytes_of(by_name["dot"]) == 4 * (24 + 30 + 20)


@pytest.mark.parametrize(("opcode", "operations"), [("tanh", FUNCTION), ("sqrt", SLOW), ("negate", 1), ("copy", 0)])
def test_flops_follow_the_opcode_table(opcode, operations):
    entry = text.parse(f"HloModule m\n\nENTRY e {{\n  x = f32[7] parameter(0)\n  ROOT r = f32[7] {opcode}(x)\n}}").entry
    assert cost.flops_of(entry.root) == 7 * operations


def test_plain_values():
    class Odd:
        def __str__(self) -> str:
            return "odd"

    value = {"a": sym("n", 3), "b": b"abc", "c": {"y", "x"}, "d": (1, None, True), 5: Odd()}
    assert module_files.plain(value) == {
        "a": {"dim": "n", "sample": 3},
        "b": 3,
        "c": ["x", "y"],
        "d": [1, None, True],
        "5": "odd",
    }


def test_manifest_is_derived_and_survives_cut_traces(directory, tmp_path):
    found = json.loads((directory / "manifest.json").read_text())
    assert found["unclustered"] == {"no-kernel": 1}
    assert found["skipped_lines"] == 0
    assert found["modules"][0]["compile"]["reason"] == "first call"
    trace = next(directory.glob("trace.*.jsonl"))
    (tmp_path / "trace.7.jsonl").write_text(
        trace.read_text().partition('{"kind": "stats"')[0] + '{"kind": "sta' + '\n["no object"]\n'
    )
    (tmp_path / "module_0003.x.ptx").write_text("")
    again = manifest.build(tmp_path)
    assert again["skipped_lines"] == 2
    assert again["modules"][0]["id"] == 3
    assert again["stats"] == {}
    assert not manifest.write(tmp_path / "missing")


def records(path: Path) -> Iterator[tuple[str, set[str]]]:
    """Kind and fields of each `trace.record("kind", field=...)` of a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "trace.record":
            assert isinstance(node.args[0], ast.Constant), f"{path.name}:{node.lineno} computes the kind"
            yield node.args[0].value, {k.arg for k in node.keywords if k.arg}


def test_every_recorded_kind_and_field_is_in_the_schema():
    for path in Path(tfxla_cluster.__file__).parent.rglob("*.py"):
        for kind, fields in records(path):
            assert kind in schema.RECORD_KINDS, f"{path.name} records '{kind}'"
            unknown = fields - set(schema.RECORD_KINDS[kind].fields)
            assert not unknown, f"{path.name} records {unknown} of '{kind}'"


def test_schema_as_markdown():
    table = schema.markdown()
    assert all(f"`{kind.suffix}`" in table or kind.suffix in table for kind in schema.FILE_KINDS)
    assert all(f"**{kind}**" in table for kind in schema.RECORD_KINDS)
