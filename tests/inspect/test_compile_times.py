"""Where the time of compilations went: shares of clusters, sums that agree, and what is unknown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.inspect import sample
from tfxla_inspect import compile_times
from tfxla_inspect.compile_times import Compilation
from tfxla_inspect.model import Module, load
from tfxla_inspect.reading import Reader
from tfxla_inspect.scan import scan

PHASES = {"trace": 10.0, "passes": 5.0, "odd <b>": 1.0, "other": 0.5}


def modules(directory: Path, *records: dict[str, Any]) -> dict[str, Module]:
    lines = [json.dumps({"time": 1.0, "thread": 1, **record}) for record in records]
    (directory / "trace.7.jsonl").write_text("\n".join(lines) + "\n")
    return {m.title: m for m in load(scan(directory), Reader()).modules}


def compiled(number: int, cluster: str, **more: Any) -> dict[str, Any]:
    return {"kind": "compile", "id": number, "cluster": cluster, "what": "cluster", "hit": "", **more}


def test_clusters_share_the_time_of_their_graph(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"module_000{number}.m.kernels.json").write_text("[]")
    graph = {"kind": "phase", "name": "graph", "function": "f"}
    found = modules(
        tmp_path,
        *({**graph, "ms": ms} for ms in (30.0, 10.0)),
        *({"kind": "cluster", "name": f"cluster_{n}", "function": "f"} for n in range(2)),
        {"kind": "cluster", "name": "cluster_2", "function": "g"},
        *(compiled(n, f"tfxla_cluster_{n}", phases={"passes": 5.0, "load": 1.0}) for n in range(3)),
    )
    assert found["cluster_0"].phases == found["cluster_1"].phases == {"cluster": 20.0, "passes": 5.0, "load": 1.0}
    assert found["cluster_0"].milliseconds == 26.0
    assert found["cluster_2"].phases == {"passes": 5.0, "load": 1.0}


def test_one_that_was_killed_has_what_it_had_done(tmp_path: Path) -> None:
    sample.write(tmp_path)
    (tmp_path / "trace.4711.jsonl").unlink(missing_ok=True)
    for path in tmp_path.glob("trace.*.jsonl"):
        path.unlink()
    (module, *_) = load(scan(tmp_path), Reader()).modules
    assert module.phases == {"lowering": 4.0, "passes": 7.5, "codegen": 20.0, "other": 1.5}
    assert module.milliseconds == pytest.approx(33.0)


def test_the_tables_add_up() -> None:
    made = [
        Compilation("f", "cluster_0", "m0", PHASES, {"dce": 3.0, "cse": 2.0}),
        Compilation("f", "cluster_1", "m1", PHASES, {}),
        Compilation("g", "g", "m2", {"trace": 100.0}, {}),
        Compilation("h", "h", "m3", {}, {}),
    ]
    text = compile_times.overview(made)
    assert text is not None
    assert "133.0 ms were waited for 3 modules" in text
    assert "<b>odd" not in text
    assert "odd &lt;b&gt;" in text
    assert text.index("#m2/summary") < text.index("#m0/summary")  # the longest first
    assert "90.2 %" in text  # of the trace: 120 of 133
    assert compile_times.overview(made[3:]) is None


def test_many_passes_are_cut() -> None:
    text = compile_times.phase_table({"passes": 100.0}, {f"pass-{n}": float(n) for n in range(30)})
    assert "pass-29" in text
    assert "pass-2<" not in text
    assert "and 18 more, 153.0 ms" in text
