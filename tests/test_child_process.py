"""Processes that answer questions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfxla_cluster.child_process import Child
from tfxla_cluster.errors import TfxlaError

MODULE = """
import os, sys
from tfxla_cluster.child_process import serve

def answer(question):
    print("what a library prints")
    if question == "die":
        os._exit(3)
    flags, said = (os.environ.get(name) for name in ("TFXLA_FLAGS", "SAID"))
    return {"question": question, "flags": flags, "said": said, "words": sys.argv[1:]}

serve(answer)
"""


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Child:
    (tmp_path / "answering.py").write_text(MODULE)
    monkeypatch.setenv("TFXLA_FLAGS", "--of_this_process")
    root = Path(__file__).resolve().parents[1]
    return Child("test", "answering", ["a"], {"SAID": "so", "PYTHONPATH": f"{tmp_path}:{root}"})


def test_questions_are_answered_in_turn(child: Child) -> None:
    for question in ("one", "two 2"):
        assert child.ask(question) == {"question": question, "flags": None, "said": "so", "words": ["a"]}
    child.close()


def test_a_process_that_ends_is_said(child: Child) -> None:
    with pytest.raises(TfxlaError, match="the test process ended with code 3"):
        child.ask("die")
    with pytest.raises(TfxlaError, match="the test process ended with code 3"):
        child.ask("more")
    child.close()
