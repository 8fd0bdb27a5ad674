"""Protos: field numbers, round trips, what TF's bridge gives."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest

from tests import oracle
from tests.hlo_cases import CASES, Case
from tfxla_cluster.errors import ParseError
from tfxla_cluster.ir import proto, text, verifier
from tfxla_cluster.ir.proto.schema import MESSAGES

DATA = pathlib.Path(__file__).parents[1] / "data"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_reads_xla_and_xla_reads_ours(case: Case) -> None:
    module = proto.read(oracle.proto(case.text))
    verifier.verify(module)
    assert text.render(text.parse(text.render(module))) == text.render(proto.read(proto.write(module)))
    assert oracle.normal_text(proto.write(module)) == oracle.normal_text(case.text)


@pytest.mark.parametrize("path", sorted(DATA.glob("*.hlo.pb")), ids=lambda path: path.name)
def test_modules_of_the_bridge(path: pathlib.Path) -> None:
    data = path.read_bytes()
    module = proto.read(data)
    verifier.verify(module)
    assert any(i.sources for i in module.entry.instrs)

    def blocks(of: bytes | str) -> list[str]:
        return sorted(oracle.normal_text(of).replace(", parameter_replication={false}", "").split("\n\n"))

    assert blocks(data) == blocks(proto.write(module)) == blocks(text.render(module))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_without_names_two_writings_of_a_module_are_one(case: Case) -> None:
    module = proto.read(oracle.proto(case.text))
    renamed = text.render(module).replace("%", "%other_").replace("HloModule ", "HloModule another_")
    other = text.parse(re.sub(r" (op_name|source_file|source_line)=[^ }]*", "", renamed))
    assert proto.write(module) != proto.write(other)
    assert proto.write(module, named=False) == proto.write(other, named=False)


@pytest.mark.parametrize(
    ("old", "new"),
    [("multiply(x, y)", "multiply(y, x)"), ("{1, 2}", "{1, 3}"), ("add", "divide"), ('"Mul"', '"SparseMatMul"')],
)
def test_without_names_what_a_module_computes_stays(old: str, new: str) -> None:
    written = """HloModule m

ENTRY e {
  x = f32[2] parameter(0)
  y = f32[2] parameter(1)
  c = f32[2] constant({1, 2})
  m = f32[2] multiply(x, y), metadata={op_type="Mul" op_name="m"}
  ROOT r = f32[2] add(m, c)
}
"""
    assert old in written
    one, two = (proto.write(text.parse(t), named=False) for t in (written, written.replace(old, new)))
    assert one != two


def test_wrapped_in_an_hlo_proto() -> None:
    inner = oracle.proto(CASES[0].text)
    outer = MESSAGES["HloProto"]()
    outer.hlo_module.ParseFromString(inner)
    assert text.render(proto.read(outer.SerializeToString())) == text.render(proto.read(inner))


def test_what_instructions_share_is_read_once_and_no_more() -> None:
    """Attributes of equal bytes are one, but for what the operands' type and the computations make of them."""
    module = text.parse("""HloModule m

one { ROOT a = f32[] parameter(0) }

two { a = f32[] parameter(0) ROOT b = f32[] negate(a) }

ENTRY e {
  x = f32[] parameter(0)
  n = s32[] parameter(1)
  floats = pred[] compare(x, x), direction=LT
  integers = pred[] compare(n, n), direction=LT
  first = f32[] call(x), to_apply=one, frontend_attributes={a="1"}
  second = f32[] call(x), to_apply=two, frontend_attributes={a="2"}
  third = f32[] call(x), to_apply=one, frontend_attributes={a="1"}
  ROOT all = (pred[], pred[], f32[], f32[], f32[]) tuple(floats, integers, first, second, third)
}
""")
    found = {i.name: i for i in proto.read(proto.write(module)).entry.instrs}
    assert [found[n].attrs["type"] for n in ("floats", "integers")] == ["FLOAT", "SIGNED"]
    calls = [found[n] for n in ("first", "second", "third")]
    assert [i.attrs["to_apply"].name for i in calls] == ["one", "two", "one"]
    assert [i.attrs["frontend_attributes"] for i in calls] == [(("a", "1"),), (("a", "2"),), (("a", "1"),)]


@pytest.mark.parametrize("data", [b"", b"\x00", b"not a proto", b"\x0a\x03abc"])
def test_bad_bytes(data: bytes) -> None:
    with pytest.raises(ParseError):
        proto.read(data)


def test_field_numbers_are_those_of_tensorflow() -> None:
    """In a child process: the import of TensorFlow's protos is slow and drags much in."""
    code = """
from tensorflow.compiler.xla.service import hlo_pb2
from tensorflow.compiler.xla import xla_data_pb2
from tfxla_cluster.ir.proto.schema import MESSAGES
def find(name):
    for file in (hlo_pb2.DESCRIPTOR, xla_data_pb2.DESCRIPTOR):
        for message in file.message_types_by_name.values():
            for one in (message, *message.nested_types):
                if one.name == name:
                    yield one
for name, made in MESSAGES.items():
    for field in made.DESCRIPTOR.fields:
        if field.name == "comparison_order":  # of later XLA
            continue
        theirs = [m.fields_by_number.get(field.number) for m in find(name)]
        assert any(t is not None and t.name == field.name and t.is_repeated == field.is_repeated for t in theirs), (
            name, field.name)
print("same")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.strip().endswith("same"), done.stderr[-2000:]


@pytest.mark.parametrize(("dtype", "expected"), [("f32", "TOTALORDER"), ("s32", "SIGNED")])
def test_the_total_order_as_later_xla_writes_it(dtype: str, expected: str) -> None:
    body = f"ENTRY e {{ x = {dtype}[3] parameter(0)\n ROOT r = pred[3] compare(x, x), direction=LT, order=TOTAL }}"
    module = text.parse(f"HloModule m\n\n{body}")
    assert module.entry.root.attrs["type"] == expected
    assert proto.read(proto.write(module)).entry.root.attrs["type"] == expected


def test_no_tensorflow_is_imported() -> None:
    code = (
        "import sys, tfxla_cluster.ir.proto, tfxla_cluster.ir.text, tfxla_cluster.ir.evaluator, "
        "tfxla_cluster.ir.builder, tfxla_cluster.ir.verifier; "
        "assert not {'tensorflow', 'jax', 'jaxlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
