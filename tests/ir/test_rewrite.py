"""Rebuilding computations."""

from __future__ import annotations

import pytest

from tfxla_cluster.errors import InternalError
from tfxla_cluster.ir import rewrite, text, verifier
from tfxla_cluster.ir.builder import Builder, scalar_computation
from tfxla_cluster.ir.node import Computation


def _opcodes(comp: Computation) -> list[str]:
    return [i.opcode for i in comp.instrs]


def test_nothing_to_do_gives_the_same_object() -> None:
    b = Builder()
    module = b.module(b.negate(b.parameter("f32[2]")))
    assert rewrite.rebuild(module.entry, {}) is module.entry
    assert rewrite.rebuild(module.entry, {}, drop_dead=True) is module.entry
    assert rewrite.map_computations(module, lambda comp: comp) is module


def test_users_are_rebuilt_and_the_rest_is_shared() -> None:
    b = Builder()
    x = b.parameter("f32[2]")
    floor, ceil = b.floor(x), b.ceil(x)
    root = b.add(floor, ceil)
    new = rewrite.rebuild(b.build(root), {floor: x})
    assert _opcodes(new) == ["parameter", "ceil", "add"]
    assert new.root.operands == (x, ceil)
    assert new.root is not root
    assert new.params == (x,)


def test_new_nodes_come_with_their_operands_and_own_names() -> None:
    b = Builder()
    x = b.parameter("f32[2]")
    floor = b.floor(x)
    comp = b.build(b.negate(floor))
    inner = floor.replace(opcode="ceil")
    new = rewrite.rebuild(comp, {floor: inner.replace(opcode="abs", operands=(inner,))})
    assert _opcodes(new) == ["parameter", "ceil", "abs", "negate"]
    verifier.verify_computation(new)


def test_sources_pass_to_what_replaces_or_to_the_user() -> None:
    b = Builder()
    x = b.parameter("f32[2]")
    b.at("a")
    first = b.floor(x)
    b.at("b")
    second = b.ceil(first)
    b.at("c")
    comp = b.build(b.negate(second))
    assert rewrite.rebuild(comp, {second: first}).root.operands[0].sources == {"a", "b"}
    assert rewrite.rebuild(comp, {first: x}).root.operands[0].sources == {"a", "b"}


def test_effects_and_parameters_stay_when_dead_code_goes() -> None:
    b = Builder()
    x, unused = b.parameter("f32[2]"), b.parameter("f32[]")
    b.floor(x)
    b.add_op("outfeed", x, b.after_all(), shape=b.instrs[-1].shape)
    new = rewrite.rebuild(b.build(b.negate(x)), {}, drop_dead=True)
    assert _opcodes(new) == ["parameter", "parameter", "after-all", "outfeed", "negate"]
    assert unused in new.instrs


def test_callers_follow_changed_computations() -> None:
    add = scalar_computation("add", "f32")
    b = Builder()
    module = b.module(b.reduce([b.parameter("f32[3]")], [b.constant(0.0)], (0,), add))

    def to_multiply(comp: Computation) -> Computation:
        return scalar_computation("multiply", "f32") if comp is add else comp

    new = rewrite.map_computations(module, to_multiply)
    assert new.entry.root.attrs["to_apply"].root.opcode == "multiply"
    assert rewrite.inline(add, b.instrs[:2]).operands == tuple(b.instrs[:2])


def test_a_replacement_that_uses_what_it_replaces_is_said() -> None:
    b = Builder()
    floor = b.floor(b.parameter("f32[2]"))
    comp = b.build(b.abs(floor))
    with pytest.raises(InternalError, match="depends on itself"):
        rewrite.rebuild(comp, {floor: b.negate(floor)})


def test_sizes_of_equal_bounds_have_no_maker_yet() -> None:
    """Each of the two would have to come after the other: by its bound alone a size is nobody's."""
    module = text.parse(
        "HloModule m\nENTRY e {\n x = f32[3] parameter(0)\n n = s32[] parameter(1)\n zero = f32[] constant(0)\n"
        " first = f32[<=3] dynamic-reshape(x, n)\n"
        " longer = f32[4] pad(first, zero), padding=0_1\n"
        " four = f32[<=4] set-dimension-size(longer, n), dimensions={0}\n"
        " part = f32[3] slice(four), slice={[1:4]}\n"
        " ROOT three = f32[<=3] set-dimension-size(part, n), dimensions={0}\n}\n"
    )
    assert len(rewrite.live_instructions(module.entry)) == len(module.entry.instrs)
    assert rewrite.rebuild(module.entry, {}, drop_dead=True) is module.entry
