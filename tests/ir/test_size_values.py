"""Modules with sizes at given numbers."""

from __future__ import annotations

import pytest

from tests.ir.test_size_text import sized_module
from tfxla_cluster.errors import UsageError
from tfxla_cluster.ir import dim, text
from tfxla_cluster.ir.size_values import instantiate, named_sizes
from tfxla_cluster.ir.verifier import verify


def test_an_instance_has_numbers() -> None:
    module = sized_module()
    verify(module)
    instance = instantiate(module, {"n": 5, "m.1": 4})
    verify(instance)
    assert set(named_sizes(instance)) == {"k-2"}
    assert "slice={[0:4], [0:4], [0:2]}" in text.render(instance)
    assert "padding=5_0x1_5_2x0_4_1" in text.render(instance)
    assert text.render(module) == text.render(sized_module())


def test_some_sizes_may_stay() -> None:
    instance = instantiate(sized_module(), {"m.1": 4})
    assert set(named_sizes(instance)) == {"n", "k-2"}
    verify(instance)


def test_what_has_no_size_is_the_same() -> None:
    module = instantiate(sized_module(), {"n": 5, "m.1": 4})
    assert instantiate(module, {"n": 7}).entry is module.entry


@pytest.mark.parametrize("number", [0, 4097])
def test_a_number_out_of_range_is_refused(number: int) -> None:
    with pytest.raises(UsageError, match=f"the size n is {number}, but must be at least 1 and at most 4096"):
        instantiate(sized_module(), {"n": number})
    with pytest.raises(UsageError, match="must be at least 2"):
        dim.instantiate(dim.sym("n", 4, low=2) * 3, {"n": 1})
