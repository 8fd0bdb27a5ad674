"""Our clusters against those of TensorFlow's own pass: whatever only it clusters has a Decision."""

from __future__ import annotations

import pytest

from tests.tf.compare_clusters import PROGRAMS, compare, run


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_difference_has_a_reason(name: str) -> None:
    found = compare(run(PROGRAMS[name], True), run(PROGRAMS[name], False))
    assert found.both
    assert all(rule and reason for rule, reason in found.theirs.values()), found.theirs
    assert {rule for rule, _ in found.theirs.values()} <= {"variable", "too_small", "control_only", "shape_for_others"}
