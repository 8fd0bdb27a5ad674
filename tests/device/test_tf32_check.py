"""The check of gradients with and without tf32, small and on the CPU, where the switch changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.device import tf32_check


def test_ours_are_right_where_there_is_no_tf32(capsys: pytest.CaptureFixture[str]) -> None:
    assert tf32_check.check(side=6, features=4)
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("tf32")]
    assert [line[1] for line in lines] == ["on"] * 4 + ["off"] * 4
    assert all(float(error) <= tf32_check.LIMIT for line in lines if "ours" in line for error in line[3:])


@pytest.mark.parametrize(("factor", "native"), [(1.01, True), (1.0, False)])
def test_what_is_wrong_or_not_native_fails(factor: float, native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def ours(inputs: Any) -> tuple[list[Any], bool]:
        return [np.asarray(t) * factor for t in tf32_check.gradients(*inputs)], native

    monkeypatch.setattr(tf32_check, "ours", ours)
    monkeypatch.setattr(tf32_check, "LIMIT", 5e-3)
    assert not tf32_check.check(side=6, features=4)
