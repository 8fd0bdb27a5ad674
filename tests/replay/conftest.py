"""Trials without processes: what they ask is answered here, where nothing is to crash."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tfxla_cluster.cli import exec as exec_
from tfxla_cluster.replay import trials


class Here:
    """A child_process.Child that is this process."""

    def __init__(self, *arguments: Any, **more: Any) -> None: ...

    def ask(self, question: str) -> Any:
        return json.loads(json.dumps(exec_.answer(question)))

    def kill(self) -> None: ...

    def wait(self) -> int:
        return 0

    def close(self) -> None: ...


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "Child", Here)
