"""Which Triton is used at all."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError

import pytest

from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.errors import UnsupportedError
from tfxla_cluster.target import Target

SOURCE = workers.TritonSource("f", "", (), 0, (), 1)


@pytest.mark.parametrize(("found", "ok"), [("3.6.0", False), ("2.12", False), ("3.9.0", True), ("3.10.0+git1", True)])
def test_older_ones_are_refused(found: str, ok: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "version", lambda name: found)
    decision = workers.usable()
    assert decision.ok == ok
    assert ok or found in decision.reason


def test_none_is_a_refusal_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(workers, "version", missing)
    with pytest.raises(UnsupportedError, match="Triton is not installed"):
        workers.compile_sources([SOURCE], Target("gpu", "sm_90"), 1)
