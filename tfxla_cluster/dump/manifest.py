"""manifest.json: the index of a dump directory, derived from its traces and file names alone.

Nothing is kept in it that is not elsewhere, so a program killed before it was written loses nothing:
`build` gives the same again.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import files
from .schema import MANIFEST_NAME, SCHEMA_VERSION

_TRACE = re.compile(r"trace\.\d+\.jsonl$")
_MODULE = re.compile(r"(?:\d+\.)?module_(\d+)\.(.*)$", re.DOTALL)


def write(directory: Path) -> bool:
    """Derive manifest.json of `directory` and write it (atomically); False where that was not possible."""
    if files.broken(directory) or not directory.is_dir():
        return False
    text = json.dumps(build(directory), indent=1) + "\n"
    return files.write(directory / MANIFEST_NAME, text.encode())


def build(directory: Path) -> dict[str, Any]:
    """{schema, runs, functions, clusters, unclustered (count by rule), modules, fallbacks, errors,
    stats (by process), files, skipped_lines}."""
    records, skipped = _records(directory)
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        by_kind.setdefault(str(record.get("kind")), []).append(record)
    modules, others = _files(directory)
    for record in by_kind.get("compile", ()):
        module = modules.get(_number(record.get("id")))
        if module is not None:
            module["compile"] = record
    return {
        "schema": SCHEMA_VERSION,
        "runs": by_kind.get("run", []),
        "functions": by_kind.get("function", []),
        "clusters": by_kind.get("cluster", []),
        "unclustered": dict(Counter(str(r.get("rule")) for r in by_kind.get("unclustered", ()))),
        "modules": [modules[number] for number in sorted(modules)],
        "fallbacks": by_kind.get("fallback", []),
        "errors": by_kind.get("error", []),
        "stats": {str(r.get("pid")): r.get("stats") for r in by_kind.get("stats", ())},
        "files": others,
        "skipped_lines": skipped,
    }


def _number(value: Any) -> int:
    return value if isinstance(value, int) else -1


def _records(directory: Path) -> tuple[list[dict[str, Any]], int]:
    """All trace records of all processes, and how many lines were no record (cut by a kill)."""
    records, skipped = [], 0
    for name in sorted(os.listdir(directory)):
        if not _TRACE.match(name):
            continue
        pid = int(name.split(".")[1])
        for line in (directory / name).read_text("utf-8", "replace").splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                record = None
            if isinstance(record, dict):
                records.append({"pid": pid, **record})
            else:
                skipped += 1
    return records, skipped


def _files(directory: Path) -> tuple[dict[int, dict[str, Any]], list[dict[str, Any]]]:
    """Module files by module number, and all others, each with its bytes."""
    modules: dict[int, dict[str, Any]] = {}
    others = []
    for name, size in _sizes(directory):
        row = {"name": name, "bytes": size}
        match = _MODULE.match(name)
        if match is None:
            others.append(row)
            continue
        number = int(match[1])
        modules.setdefault(number, {"id": number, "files": []})["files"].append(row)
    return modules, others


def _sizes(directory: Path) -> Iterator[tuple[str, int]]:
    with os.scandir(directory) as entries:
        for entry in sorted(entries, key=lambda e: e.name):
            if entry.is_file() and not entry.name.startswith("."):
                yield entry.name, entry.stat().st_size
