"""The rows of products that are timed on a GPU: the modules are those that the names say, and lower there."""

from __future__ import annotations

import pytest

from tests.device.product_times import Row, choice, rows
from tfxla_cluster.backends import gpu
from tfxla_cluster.codegen.kernel.choice import Choice
from tfxla_cluster.codegen.kernel.lower import gpu as lowering

TARGET = gpu.described().target
ROWS = {row.name: row for row in rows()}


def test_names_are_different() -> None:
    assert len(ROWS) == len(list(rows()))


@pytest.mark.parametrize("name", ROWS)
def test_a_row_is_a_product_of_its_operands(name: str) -> None:
    row = ROWS[name]
    root = row.module().entry.root
    assert root.shape.sample_dims == (row.m, row.n)
    assert [p.shape.sample_dims for p in row.module().entry.params] == list(row.shapes)
    assert lowering.lower(root, TARGET).steps


def test_what_is_kept_in_f32_is_rounded_in_the_fusion() -> None:
    row = Row("kept", "bf16", 16, 32, 64, "left", kept=True)
    fused = row.module().entry.root.attrs["calls"]
    assert [i.opcode for i in fused.instrs] == ["parameter", "parameter", "convert", "dot"]
    assert fused.root.attrs["lhs_contracting_dims"] == (0,)


def test_f32_is_exact_unless_it_is_tf32() -> None:
    said = [
        Row("", "f32", 8, 8, 8, tf32=tf32).module().entry.root.attrs.get("operand_precision") for tf32 in (False, True)
    ]
    assert said == [("highest", "highest"), None]


def test_forms() -> None:
    assert choice("rows=64,stages=3") == Choice({"rows": 64, "stages": 3})
