"""The README's table of figures, as one command writes it:

    tfxla-demo --json --rounds 3 | python -m tests.readme_table

replaces (or adds) the row of that image size; the other rows stay. tests/test_readme.py holds the form.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

README = Path(__file__).resolve().parents[1] / "README.md"
HEAD = (
    "| image size | this package | stock | stock jit_compile | accuracy (stock) | clustered_share | kernels, native |",
    "|---|---|---|---|---|---|---|",
)
DEFAULT_SIZE = 8
_TABLE = re.compile(re.escape("\n".join(HEAD)) + r"\n((?:\|.*\|\n)+)")


def row(result: dict[str, Any]) -> str:
    """The line of one result of `tfxla-demo --json`; times in milliseconds a step."""
    size = result["image_size"]
    cells = [
        str(size) if size == DEFAULT_SIZE else f"{size} (`--image-size {size}`)",
        *(_time(result[name]) for name in ("step_ms", "reference_step_ms", "jit_step_ms")),
        f"{result['accuracy']:.3f} ({result['reference_accuracy']:.3f})",
        f"{result['clustered_share']:.3f}",
        f"{result['kernels']}, {result['native_kernels']}",
    ]
    return f"| {' | '.join(cells)} |"


def _time(ms: float) -> str:
    return f"{ms:.1f}" if ms < 100 else f"{ms:.0f}"


def parse(line: str) -> dict[str, Any]:
    """What `row` made the line of, to the digits that it shows; ValueError for another form."""
    cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
    size, step, stock, jit, accuracy, share, kernels = cells
    ours, _, reference = accuracy.rstrip(")").partition(" (")
    count, _, native = kernels.partition(", ")
    return {
        "image_size": int(size.split()[0]),
        "step_ms": float(step),
        "reference_step_ms": float(stock),
        "jit_step_ms": float(jit),
        "accuracy": float(ours),
        "reference_accuracy": float(reference),
        "clustered_share": float(share),
        "kernels": int(count),
        "native_kernels": int(native),
    }


def rows(readme: str) -> list[str]:
    """The lines of the table, without its head; ValueError where there is none."""
    found = _TABLE.search(readme)
    if found is None:
        raise ValueError("the README holds no table under the head that tests/readme_table.py writes")
    return found[1].splitlines()


def with_result(readme: str, result: dict[str, Any]) -> str:
    """The README with the row of this result, in order of image sizes."""
    old = rows(readme)
    results = {parsed["image_size"]: line for line in old for parsed in [parse(line)]}
    results[result["image_size"]] = row(result)
    new = [results[size] for size in sorted(results)]
    return readme.replace("\n".join((*HEAD, *old)), "\n".join((*HEAD, *new)))


def main() -> None:
    result = json.loads(sys.stdin.read().strip().splitlines()[-1])
    README.write_text(with_result(README.read_text(), result))


if __name__ == "__main__":
    main()
