"""HLO text: what is read, what is written, what is refused."""

# ruff: noqa: E501  (lines of HLO text stay whole)
from __future__ import annotations

import numpy as np
import pytest

from tests import oracle
from tests.hlo_cases import CASES, Case
from tfxla_cluster.errors import ParseError
from tfxla_cluster.ir import literal, text
from tfxla_cluster.ir.builder import Builder
from tfxla_cluster.ir.dtype import DTYPES

OLD_AND_NEW = """
HloModule jit_f.1, is_scheduled=true, input_output_alias={ {0}: (1, {}, must-alias), {1}: (0, {}) }, entry_computation_layout={(f32[2,3]{1,0})->f32[]}, allow_spmd_sharding_propagation_to_output={true}

FileNames
1 "prog.py"

FunctionNames
1 "f"

FileLocations
1 {file_name_id=1 function_name_id=1 line=42 end_line=42 column=0 end_column=9}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

%region_0.3 (a.1: f32[], b: f32[]) -> f32[] {
  %a.1 = f32[] parameter(0)
  %b = f32[]{} parameter(1)
  ROOT %add.5 = f32[] add(f32[] %a.1, f32[] b), metadata={op_name="a \\"b\\"" stack_frame_id=1}
}, execution_thread="main"

// a comment
ENTRY main {
  x = f32[2,3]{0,1:T(8,128)} parameter(0), sharding={replicated} /* trailing */
  y = f32[2,3] parameter(1)
  zero = f32[] constant(0)
  t = (f32[2,3], /*index=1*/f32[2,3]{1,0}) tuple(x, y), control-predecessors={zero}
  g = f32[2,3] get-tuple-element((f32[2,3], f32[2,3]) t), index=1
  c = f32[2,3] copy(g), backend_config={"known":{"n":"3","s":"}"}}
  ROOT r = (f32[], f32[2,3]) tuple(s, c)
}
"""


def test_old_and_new_forms() -> None:
    source = OLD_AND_NEW.replace(
        "  c = ", "  s = f32[] reduce(g, zero), dimensions={0,1}, to_apply=%region_0.3\n  c = "
    )
    module = text.parse(source)
    instrs = {i.name: i for i in module.entry.instrs}
    assert module.name == "jit_f.1"
    assert module.is_scheduled
    assert [(a.output_index, a.parameter, a.must) for a in module.aliases] == [((0,), 1, True), ((1,), 0, False)]
    assert instrs["x"].shape.layout == (0, 1)
    assert instrs["y"].shape.layout is None
    assert instrs["c"].attrs["backend_config"] == '{"known":{"n":"3","s":"}"}}'
    assert instrs["t"].control == (instrs["zero"],)
    add = instrs["s"].attrs["to_apply"].root
    assert add.metadata.op_name == 'a "b"'
    assert (add.metadata.source_file, add.metadata.source_line) == ("prog.py", 42)
    assert add.sources == {'a "b"'}
    assert text.render(text.parse(text.render(module))) == text.render(module)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_round_trip_and_xla_reads_the_same(case: Case) -> None:
    module = text.parse(case.text)
    written = text.render(module)
    assert text.render(text.parse(written)) == written
    assert oracle.normal_text(written) == oracle.normal_text(case.text)


LITERALS = {
    "f32": [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3.4028235e38, 0.1],
    "f64": [0.1, -0.0, 5e-324, np.nan],
    "f16": [65504, 6e-8, -np.inf, 0.1],
    "bf16": [0.1, 3e38, -0.0],
    "f8e4m3fn": [1.5, 448, -0.0],
    "s64": [-(2**63), 2**63 - 1],
    "u64": [2**64 - 1, 0],
    "s4": [-8, 7],
    "pred": [True, False],
    "c64": [1 + 2j, complex(np.inf, -0.0)],
}


@pytest.mark.parametrize("name", LITERALS)
def test_literals_survive_bit_for_bit(name: str) -> None:
    value = literal.freeze(LITERALS[name], DTYPES[name])
    module = Builder("m").constant(value, DTYPES[name])
    b = Builder("m")
    b.constant(value, DTYPES[name])
    again = text.parse(text.render(b.module())).entry.root
    assert literal.equal_bits(again.attrs["literal"], value)
    if name not in ("c64", "s4"):  # XLA's parser loses signs of complex zeros; jax has no s4 arrays by default
        (out,) = oracle.run(text.render(b.module()))
        assert literal.equal_bits(out, value)
    assert module.shape.dims == (len(LITERALS[name]),)


def test_nan_payload_and_sign() -> None:
    raw = np.array([0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFC00001], np.uint32).view(np.float32)
    b = Builder("m")
    b.constant(raw)
    written = text.render(b.module())
    assert "nan, -nan, nan(0x1), -nan(0x400001)" in written
    assert literal.equal_bits(text.parse(written).entry.root.attrs["literal"], raw)


@pytest.mark.parametrize("dims", [(0,), (2, 0), (0, 2), (1, 1, 2), (2, 3, 2)])
def test_nested_literals(dims: tuple[int, ...]) -> None:
    b = Builder("m")
    b.constant(np.arange(np.prod(dims), dtype=np.int32).reshape(dims))
    (out,) = oracle.run(text.render(b.module()))
    np.testing.assert_array_equal(out, b.instrs[0].attrs["literal"])
    assert out.shape == dims


def test_elided_literals() -> None:
    b = Builder("m")
    b.constant(np.arange(11, dtype=np.float32))
    short = text.render(b.module(), elide_literals=True)
    assert "constant({...})" in short
    with pytest.raises(ParseError, match="elided"):
        text.parse(short)
    assert text.parse(short, allow_elided=True).entry.root.shape.dims == (11,)


def test_sources_survive() -> None:
    b = Builder("m")
    x = b.parameter("f32[]")
    instr = b.negate(x).replace(sources=frozenset(("a/b", "c:0")))
    module = b.module()
    module = module.replace(entry=type(module.entry)("m", (x, instr), instr))
    written = text.render(module)
    oracle.parse(written)
    assert text.parse(written).entry.root.sources == {"a/b", "c:0"}


BAD = {
    "not hlo": "1:1",
    "HloModule m\nENTRY e {\n  x = f32[2] parameter(0)\n": "4:1",
    "HloModule m\nENTRY e {\n  ROOT x = f32[2] foo(y)\n}": "3:19",
    "HloModule m\nENTRY e {\n  ROOT x = f32[2] negate(y)\n}": "3:26",
    "HloModule m\nENTRY e {\n  ROOT x = g32[2] parameter(0)\n}": "3:12",
    "HloModule m\nENTRY e {\n  ROOT x = f32[2]{3} parameter(0)\n}": "3:12",
    "HloModule m\nENTRY e {\n  ROOT x = f32[2] constant({1, 2, 3})\n}": "3:28",
    "HloModule m\nENTRY e {\n  ROOT x = s8[] constant(300)\n}": "3:26",
    "HloModule m\nENTRY e {\n  x = f32[2] parameter(0)\n  ROOT y = f32[2] transpose(x)\n}": "4:19",
    "HloModule m\nENTRY e {\n  x = f32[2] parameter(0)\n  ROOT y = f32[2] negate(x), direction=LT\n}": "4:40",
    "HloModule m\nENTRY e {\n  x = f32[2] parameter(0)\n  x = f32[2] negate(x)\n}": "4:3",
    "HloModule m\nENTRY e {\n  x = f32[2] parameter(0)\n  ROOT y = f32[2] call(x), to_apply=f\n}": "4:37",
    "HloModule m\nf {\n  x = f32[2] parameter(0)\n}": "4:2",
    "HloModule m\nENTRY e {\n}": "2:7",
}


@pytest.mark.parametrize("source", BAD, ids=range(len(BAD)))
def test_errors_name_the_place(source: str) -> None:
    with pytest.raises(ParseError) as caught:
        text.parse(source, "bad.txt")
    assert caught.value.where == f"bad.txt:{BAD[source]}", caught.value


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "x = f32[1] parameter(0)\n ROOT a = f32[1] negate(x)\n ROOT r = f32[1] negate(a)",
            "a second ROOT: 'a' is one",
        ),
        ("ROOT a = f32[1] constant({{{{1}}}})", "nest 4 deep, f32.1. has rank 1"),
    ],
)
def test_what_xla_refuses_too(body: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        text.parse(f"HloModule m\nENTRY e {{ {body} }}\n")


def test_keys_with_dots_are_kept() -> None:
    """As JAX writes for every sharded or exported program."""
    module = text.parse(
        "HloModule m\nENTRY e { x = f32[2] parameter(0)\n ROOT r = f32[2] negate(x),"
        ' frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\\"i\\"}, {}]>"} }\n'
    )
    expected = (("xla.sdy.sharding", '#sdy.sharding<@mesh, [{"i"}, {}]>'),)
    assert module.entry.root.attrs["frontend_attributes"] == expected
    assert text.parse(text.render(module)).entry.root.attrs["frontend_attributes"] == expected
