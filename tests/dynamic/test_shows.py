"""Programs at many sizes (tests.dynamic.shows), in small form: as eager TensorFlow at each, executables counted."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

from tests import fresh
from tests.close import assert_near
from tests.dynamic.shows import SHOWS, Program
from tfxla_cluster import counters

ours = pytest.fixture(autouse=True)(fresh.compiler)


def called(function: Any, program: Program, arguments: tuple[Any, ...]) -> list[Any]:
    """The results, and the variables after it, which are as before again."""
    before = [variable.numpy() for variable in program.variables]
    found = [*tf.nest.flatten(function(*arguments)), *(variable.numpy() for variable in program.variables)]
    for variable, value in zip(program.variables, before, strict=True):
        variable.assign(value)
    return found


@pytest.mark.parametrize("name", SHOWS)
def test_show(name: str) -> None:
    show = SHOWS[name]
    program = show.make(True)
    compiled = tf.function(program.function, jit_compile=True)
    before, internal = (int(counters.snapshot()[counter]) for counter in ("compilations", "internal_errors"))
    for size in (*show.sizes[: show.quick], *show.small):
        arguments = show.arguments(size)
        got = called(compiled, program, arguments)
        if size not in show.small:
            assert counters.snapshot()["compilations"] - before <= show.most, f"{name} at {size}"
        for k, (a, b) in enumerate(zip(got, called(program.function, program, arguments), strict=True)):
            assert_near(a, b, show.tolerance, f"{name} at {size}, result {k}")
    assert counters.snapshot()["internal_errors"] == internal
    assert counters.snapshot()["compilations"] > before
