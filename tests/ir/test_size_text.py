"""Sizes in text and protos: their names survive, and XLA reads the samples."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests import oracle
from tfxla_cluster.errors import ParseError
from tfxla_cluster.ir import dim, proto, text
from tfxla_cluster.ir.builder import Builder
from tfxla_cluster.ir.dtype import F32, S32
from tfxla_cluster.ir.node import Computation, Instr, Module, WindowDim
from tfxla_cluster.ir.shape import array
from tfxla_cluster.ir.size_operators import OPERATORS
from tfxla_cluster.ir.size_values import named_sizes
from tfxla_cluster.ir.text.sizes import parse_size


def sized_module() -> Module:
    """A module with sizes in shapes and in every attribute that holds them."""
    n, m, k = dim.sym("n", 101, 1, 4096, 4, 1), dim.sym("m.1", 7), dim.bounded("k-2", 8)
    b = Builder("m")
    x, table = b.parameter(array(F32, (n, 4, m))), b.parameter(array(F32, (n, m + 2)))
    found, count = b.parameter(array(F32, (8,))), b.parameter(array(S32))
    part = b.slice(x, [(0, n - 1), (0, 4), (0, m // 2)])
    padded = b.pad(part, b.constant(0.0), [(n, 0, 0), (1, dim.make("max", m, n), 2), (0, m, 1)])
    b.dynamic_slice(table, [b.constant(0)] * 2, (1, m))
    dims = {"offset_dims": (1,), "collapsed_slice_dims": (0,), "start_index_map": (0,), "index_vector_dim": 1}
    b.gather(table, b.parameter(array(S32, (m * n, 1))), slice_sizes=(1, m + 1), **dims)
    kept = b.add_op("set-dimension-size", found, count, shape=array(F32, (k,)), dimensions=(0,))
    body = Builder("sum")
    sides = [body.parameter("f32[]", name) for name in ("left", "right")]
    whole = [WindowDim(n, 1, n - 1, 0), WindowDim(2, 2), WindowDim(1, 1, 0, m, 2)]
    b.reduce_window([x], [b.constant(0.0)], whole, body.build(body.add(*sides)))
    return b.module(padded, b.broadcast(kept, (k, n), [0]), b.reshape(x, (n * 4 * m,)), b.negate(kept))


def plain_attributes(instr: Instr) -> dict[str, Any]:
    """All but literals and computations."""
    return {name: v for name, v in instr.attrs.items() if name != "literal" and not isinstance(v, Computation)}


def test_sizes_survive() -> None:
    """Names, samples, ranges and expressions; XLA reads the samples."""
    module = sized_module()
    written = text.render(module)
    assert "f32[101/*n*/,4,7/*m.1*/]{2,1,0} parameter(0)" in written
    assert "[0:100/*(n+-1)*/]" in written
    assert "padding=101_0x1_101_2x0_7_1/*n;0;1;max(m.1,n);0;m.1*/" in written
    assert " pad=100_0x0_0x0_7 lhs_dilate=1x1x2}/*n;(n+-1);0;2;0;0;1;0;m.1*/" in written
    oracle.parse(written)
    for again in (text.parse(written), proto.read(proto.write(module))):
        assert text.render(again) == written
        sizes = named_sizes(again)
        assert {name: (s.op, s.number, s.low, s.high, s.every, s.rest) for name, s in sizes.items()} == {
            "n": ("sym", 101, 1, 4096, 4, 1),
            "m.1": ("sym", 7, 0, None, 1, 0),
            "k-2": ("bounded", 8, 0, 8, 1, 0),
        }
        assert [i.shape for i in again.entry.instrs] == [i.shape for i in module.entry.instrs]
        assert list(map(plain_attributes, again.entry.instrs)) == list(map(plain_attributes, module.entry.instrs))
    assert "f32[101,4,7]{2,1,0} parameter(0)" in oracle.normal_text(proto.write(module))


def test_comments_say_nothing_where_no_size_is_declared() -> None:
    source = "HloModule m\nENTRY e {\n  ROOT x = f32[101/*n*/,4/*of two*/] parameter(0)\n}"
    assert text.parse(source).entry.root.shape.dims == (101, 4)


def test_expressions_of_sizes_survive() -> None:
    rng, sizes = random.Random(2), {"n": dim.sym("n", 5), "m": dim.sym("m", 9), "k": dim.bounded("k", 3)}

    def drawn(depth: int) -> dim.Dim:
        if depth == 0 or rng.random() < 0.2:
            return rng.choice([*sizes.values(), dim.bounded_only(8), -3, 0, 2])
        return dim.make(rng.choice(list(OPERATORS)), drawn(depth - 1), drawn(depth - 1))

    for _ in range(300):
        one = drawn(4)
        assert parse_size(str(one), sizes) == one, str(one)


BAD = {
    "f32[4/*m*/] parameter(0)": "no size 'm' is declared",
    "f32[5/*n*/] parameter(0)": "5 stands beside n, which is 4",
    "f32[4/*(n*/] parameter(0)": "ends too soon",
    "f32[4/*max(n,)*/] parameter(0)": "no size '\\)'",
    "f32[4/*n n*/] parameter(0)": "is not a size",
    "f32[4/*n-1*/] parameter(0)": "no size 'n-1'",
}


@pytest.mark.parametrize("line", BAD)
def test_a_comment_that_is_no_size_is_refused(line: str) -> None:
    with pytest.raises(ParseError, match=BAD[line]):
        text.parse(f'HloModule m, frontend_attributes={{tfxla_sizes="n=4"}}\nENTRY e {{\n  ROOT x = {line}\n}}')


@pytest.mark.parametrize("declared", ["n", "n=4;", "n>=3", "=4", "n=4%2", "n=4%2=2", "n=4%0=0", "n=5%2=0"])
def test_a_declaration_that_is_none_is_refused(declared: str) -> None:
    with pytest.raises(ParseError, match="declares no size"):
        text.parse(
            f'HloModule m, frontend_attributes={{tfxla_sizes="{declared}"}}\nENTRY e {{ ROOT x = f32[] parameter(0) }}'
        )


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        (b"f32[101/*n*/,4,7/*m.1*/]", b"f32[101/*n*/,4,7/*m.2*/]"),
        (b"f32[101/*n*/,4,7/*m.1*/]", b"f32[101/*n*/,8,7/*m.1*/]"),
        (b"slice={[0:100/*(n+-1)*/]", b"calls={[0:100/*(n+-1)*/]"),
        (b"n=101>=1<=4096", b"n=101>=1<=409;"),
    ],
)
def test_a_proto_whose_sizes_do_not_fit_is_refused(said: bytes, wrong: bytes) -> None:
    data = proto.write(sized_module())
    assert said in data
    with pytest.raises(ParseError):
        proto.read(data.replace(said, wrong))
