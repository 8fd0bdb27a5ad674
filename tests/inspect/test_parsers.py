from __future__ import annotations

import json

import pytest

from tests.inspect import sample
from tests.inspect.pages import tab
from tfxla_inspect import report
from tfxla_inspect.parsers import buffers, graphdef, hlo, kernels


@pytest.mark.parametrize(
    ("line", "name", "shape", "opcode", "operands", "called"),
    [
        ("  ROOT %a.1 = f32[2,3]{1,0} add(%b, %c)", "a.1", "f32[2,3]{1,0}", "add", ("b", "c"), ()),
        ("  a = f32[2]{0} add(f32[2]{0} b.2, f32[2]{0} c)", "a", "f32[2]{0}", "add", ("b.2", "c"), ()),
        ("  a = f32[2] add(b, c)", "a", "f32[2]", "add", ("b", "c"), ()),
        (
            "  %t = (f32[2]{0}, /*index=1*/(s32[], pred[])) tuple(%x, %y)",
            "t",
            "(f32[2]{0}, /*index=1*/(s32[], pred[]))",
            "tuple",
            ("x", "y"),
            (),
        ),
        ("  %c = f32[2,2]{1,0} constant({ { 1, (2) }, { 3, 4 } })", "c", "f32[2,2]{1,0}", "constant", (), ()),
        (
            "  %p = f32[8]{0:T(8,128)(2,1)} parameter(3), metadata={}",
            "p",
            "f32[8]{0:T(8,128)(2,1)}",
            "parameter",
            (),
            (),
        ),
        ("  %f = f32[] fusion(%x), kind=kLoop, calls=%fused.3", "f", "f32[]", "fusion", ("x",), ("fused.3",)),
        ("  %w = f32[] while(%x), condition=%c.1, body=%b.1", "w", "f32[]", "while", ("x",), ("c.1", "b.1")),
        (
            "  %k = f32[] conditional(%i, %x), branch_computations={%b0, %b1}",
            "k",
            "f32[]",
            "conditional",
            ("i", "x"),
            ("b0", "b1"),
        ),
        ("  %s = f32[<=8,?] sine(%x)", "s", "f32[<=8,?]", "sine", ("x",), ()),
    ],
)
def test_hlo_lines(line, name, shape, opcode, operands, called):
    row = hlo.parse_line(line)
    assert row is not None
    assert (row.name, row.shape, row.opcode, row.operands, row.called) == (name, shape, opcode, operands, called)


@pytest.mark.parametrize("line", ["", "}", "  %x =", "  %x = f32[2]", "nonsense", "  %x = (f32[2] add(%a", "ENTRY"])
def test_what_is_no_instruction(line):
    assert hlo.parse_line(line) is None


def test_hlo_module():
    read = hlo.parse(sample.AFTER)
    assert read.name == "cluster_0"
    assert [b.name for b in read.blocks] == ["sum", "fused", "main"]
    assert read.entry is not None
    assert read.entry.rows[-1].is_root
    assert read.unread == 0
    assert read.entry.rows[-1].op_name == "model/sum"
    assert [b.name for b in read.stepped()] == ["main"]
    assert read.opcodes()["parameter"] == 6


def test_loop_bodies_are_steps_even_when_they_recurse():
    read = hlo.parse(
        "%b (x: f32[]) -> f32[] {\n  %w = f32[] while(%x), condition=%b, body=%b\n}\n"
        "ENTRY %m (x: f32[]) -> f32[] {\n  %y = f32[] while(%x), condition=%gone, body=%b\n  what\n}\n"
    )
    assert [b.name for b in read.stepped()] == ["m", "b"]
    assert read.unread == 1


def test_cut_hlo_is_read_as_far_as_it_goes():
    for end in range(0, len(sample.AFTER), 7):
        hlo.parse(sample.AFTER[:end])


def test_graphdef():
    graph = graphdef.parse(sample.GRAPH.format(left='a\\"b\\n\\303\\251\\x41'))
    assert [n.name for n in graph.nodes] == ["x", "model/mul", "model/sum", 'a"b\né' + "A"]
    assert graph.nodes[1].cluster == "cluster_0"
    assert graph.nodes[1].dtype == "float"
    assert graph.functions == 1
    assert graph.nodes[1].inputs == ["x", "y:0"]
    assert not graph.truncated
    assert graphdef.parse(sample.GRAPH[:60].format()).truncated
    assert graphdef.parse("node{name:'x'}").nodes == []


@pytest.mark.parametrize(
    ("text", "expected"), [("^a", ("a", -1)), ("a:3", ("a", 3)), ("a/b", ("a/b", 0)), ("a:x", ("a:x", 0))]
)
def test_inputs(text, expected):
    assert graphdef.split_input(text) == expected


def test_buffers():
    (first, second) = buffers.parse(
        "BufferAssignment:\nallocation 0: size 64, parameter 3, shape |f32[16]| at ShapeIndex {}:\n"
        " value: <7 arg.1 @0> (size=64,offset=0): f32[16]{0}\nallocation 1: size 9, preallocated-temp:\n"
        " value: <8 x @0> (size=4,offset=4): f32[]\n value: broken\nTotal bytes used: 73\n"
    )
    assert (first.kind, first.bytes, first.values) == ("parameter", 64, [("arg.1", 64, 0, "f32[16]{0}")])
    assert (second.kind, second.values) == ("preallocated-temp", [("x", 4, 4, "f32[]")])
    assert buffers.parse("nothing") == []


def test_kernel_parts():
    text = "; ==== module 0 ====\n\n; ==== kernel a ====\ndefine\n\n; ==== kernel b ====\ndeclare\nret\n"
    assert kernels.split(text) == [("a", "define"), ("b", "declare\nret")]
    assert kernels.split("plain") == [("", "plain")]
    assert kernels.split("\n") == []
    whole, where = kernels.join(kernels.split(text))
    assert where == {"a": (0, 1), "b": (1, 2)}
    assert whole.split("\n")[where["b"][0]] == "declare"
    assert kernels.stock_symbol("__compute_module_add_fusion") == kernels.stock_symbol("add_fusion_kernel_module")


# --- the user's lines ---

JAX = """\
HloModule jit_loss, entry_computation_layout={(f32[8]{0})->f32[8]{0}}

FileNames
1 "/home/me/train.py"
2 "/site-packages/jax/_src/numpy/ufuncs.py"
3 "/home/me/it's \\"odd\\".py"

FunctionNames
1 "main"
2 "loss"

FileLocations
1 {file_name_id=1 function_name_id=1 line=30 end_line=30 column=4 end_column=9}
2 {file_name_id=1 function_name_id=2 line=7 end_line=7 column=2 end_column=8}
3 {file_name_id=2 function_name_id=2 line=900}
4 {file_name_id=3 function_name_id=2 line=1}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}
3 {file_location_id=3 parent_frame_id=3}
4 {file_location_id=4 parent_frame_id=5}
5 {file_location_id=99 parent_frame_id=1}


ENTRY %main.4 (x.1: f32[8]) -> f32[8] {
  %x.1 = f32[8]{0} parameter(0), metadata={op_name="w[\\'a\\']"}
  %a = f32[8]{0} tanh(%x.1), metadata={op_name="jit(loss)/tanh" stack_frame_id=3}
  %b = f32[8]{0} tanh(%a), metadata={op_name="jit(loss)/tanh" stack_frame_id=1}
  %c = f32[8]{0} tanh(%b), metadata={op_name="jit(loss)/tanh" stack_frame_id=4}
  %d = f32[8]{0} tanh(%c), metadata={op_name="jit(loss)/tanh" stack_frame_id=5}
  %e = f32[8]{0} tanh(%d), metadata={op_name="jit(loss)/tanh" stack_frame_id=777}
  ROOT %f = f32[8]{0} tanh(%e), metadata={op_name="jit(loss)/tanh" source_file="/home/me/old.py" source_line=5}
}
"""


def test_lines_of_frames_in_tables_and_in_metadata():
    read = hlo.parse(JAX)
    rows = {row.name: row for row in read.blocks[0].rows}
    assert rows["x.1"].op_name == "w['a']"
    assert {row.op_name for row in read.blocks[0].rows[1:]} == {"jit(loss)/tanh"}

    def stack(name: str) -> list[tuple[str, int, str]]:
        return [(f["file"], f["line"], f["function"]) for f in read.sources.get(rows[name].origin, [])]

    assert stack("a") == [("/home/me/train.py", 7, "loss"), ("/home/me/train.py", 30, "main")]
    assert stack("b") == [("/home/me/train.py", 30, "main")]
    assert stack("c") == [('/home/me/it\'s "odd".py', 1, "loss")]
    assert stack("d") == stack("e") == stack("x.1") == []
    assert stack("f") == [("/home/me/old.py", 5, "")]
    assert hlo.named(row.origin for row in read.blocks[0].rows) == ["w['a']", "jit(loss)/tanh"]


def test_frames_that_name_one_another_end():
    text = JAX.replace("2 {file_location_id=2 parent_frame_id=2}", "2 {file_location_id=2 parent_frame_id=4}")
    assert len(hlo.parse(text).sources) == 4


@pytest.mark.parametrize(
    "file", ["dummy_file_name", "/x/site-packages/tensorflow/python/framework/ops.py", "/x/keras/src/layers/core.py"]
)
def test_lines_of_frameworks_are_nobodys(file):
    read = hlo.parse(JAX.replace("/home/me/old.py", file))
    assert read.blocks[0].rows[-1].origin == "jit(loss)/tanh"


def test_lines_of_a_dump_without_records(tmp_path):
    (tmp_path / "module_0000.jit_loss.cpu_after_optimizations.txt").write_text(JAX)
    made = report.build(tmp_path)
    lines = {row[0]: row for row in json.loads(tab(made, "m0", "lines"))["rows"]}
    assert set(lines) == {"train.py:7", "train.py:30", 'it\'s "odd".py:1', "old.py:5"}
    assert lines["train.py:7"][3] == 1
    assert lines["train.py:7"][-1] == "jit(loss)/tanh"
    nodes = json.loads(tab(made, "m0", "graph"))["nodes"]
    assert nodes["where"][nodes["name"].index("a")] == "train.py:7"
    assert nodes["note"][nodes["name"].index("a")] == "jit(loss)/tanh"
