"""Each pass on small modules: HLO text in, HLO text out (golden/NAME.txt).

A file holds cases: `=== title`, the module, `---`, the module after the pass (nothing: it must not change).
`TFXLA_UPDATE_GOLDEN=1 pytest tests/passes/test_golden.py` writes the files anew; read the difference.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tfxla_cluster.ir import text
from tfxla_cluster.passes import pipeline, pipelines

GOLDEN = Path(__file__).parent / "golden"
FILES = sorted(GOLDEN.glob("*.txt"))


def _cases(path: Path) -> list[tuple[str, str, str]]:
    found = []
    for block in path.read_text().split("=== ")[1:]:
        title, _, rest = block.partition("\n")
        before, _, after = rest.partition("---\n")
        found.append((title, before.strip(), after.strip()))
    return found


def _module(body: str) -> str:
    return body if body.startswith("HloModule") else f"HloModule m\n\n{body}"


def _after(name: str, before: str) -> str:
    """The text after the pass, empty when it says that nothing changed."""
    module = text.parse(_module(before))
    new = pipeline.run(module, "test", [pipelines.PASSES[name]], strict=True)
    return "" if new is module else text.render(new).split("\n\n", 1)[1].strip()


def test_each_pass_has_a_golden_file() -> None:
    assert {path.stem for path in FILES} == set(pipelines.PASSES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_golden(path: Path) -> None:
    cases = [(title, before, _after(path.stem, before), after) for title, before, after in _cases(path)]
    if os.environ.get("TFXLA_UPDATE_GOLDEN"):
        blocks = [f"=== {title}\n{before}\n---\n{got}\n" for title, before, got, _ in cases]
        path.write_text("\n".join(blocks))
    for title, _, got, after in cases:
        assert got == after, f"{path.stem}: {title}"
