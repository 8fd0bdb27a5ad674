"""With how many bits the products of attention kernels are multiplied."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.codegen.triton.test_attention import lowered, statement
from tests.fusion.attention_text import Attention
from tests.fusion.test_attention import custom
from tfxla_cluster.backends import gpu
from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.fusion import planner
from tfxla_cluster.ir import text

pytestmark = pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")


@pytest.mark.parametrize(("said", "used"), [("default", "tf32"), ("high", "ieee"), ("highest", "ieee")])
def test_f32_is_multiplied_as_the_program_says(said: str, used: str) -> None:
    precise = f"rhs_contracting_dims={{\\1}}, operand_precision={{{said},{said}}}"
    source = re.sub(r"rhs_contracting_dims=\{(\d)\}", precise, Attention().text)
    (unit,) = lowered(source)
    assert statement(unit).precision == used


def test_products_of_two_precisions_keep_their_scores() -> None:
    plain = Attention().text
    at = plain.index("o = f32")
    mixed = plain[:at] + plain[at:].replace("={2}", "={2}, operand_precision={highest,highest}", 1)
    record: list[dict[str, Any]] = []
    assert not custom(planner.fuse(text.parse(mixed), gpu.described().machine, record.append))
    assert "attention-precision" in {r["rule"] for r in record}
