from __future__ import annotations

import base64
import gzip
import hashlib
import html.parser
import json
import random
import re
import shutil

import pytest

from tests.inspect import sample
from tests.inspect.pages import BLOCK, blocks, site, start, tab
from tfxla_inspect import graphs, report
from tfxla_inspect.reading import Reader
from tfxla_inspect.scan import scan

EVIL = '</script><script>alert(1)</script><img src=x onerror=alert(2)>" onload="alert(3)'


@pytest.fixture(scope="module")
def page(dump) -> str:
    return report.build(dump)


@pytest.mark.parametrize(
    "text",
    [
        "1 module compiled, 1 kernel generated.",
        "2 of 3 computing nodes (67 %)",
        "no-kernel",
        "no XLA kernel takes strings",
        "train.py:9",
        "dim 0 was 8, is 9",
        "Unique is not compiled yet",
        "--tf_xla_auto_jit=2",
        "tensorflow 2.21.0",
        "train.py --steps 10",
        "33.0 ms",
        "fallback_reasons: Unique",
        "1 internal error of tfxla_cluster",
        "__inference_step_7",
    ],
)
def test_start_page(page, text):
    assert text in html.unescape(start(page))


def test_pages(page):
    found = site(page)
    assert list(found) == ["findings", "m0", "g0", "recompiles", "trace"]
    assert [t["id"] for t in found["m0"]["tabs"]] == [
        "summary",
        "graph",
        "text",
        "fusion",
        "plan",
        "buffers",
        "memory",
        "kernels",
        "lines",
        "before",
        "graph_before",
        "passes",
        "changes",
        "files",
    ]
    assert all(t.get("b") for entry in found.values() for t in entry["tabs"])


def test_module_page(page):
    assert "__inference_step_7" in tab(page, "m0", "summary")
    times = tab(page, "m0", "summary").partition("Time of executions")[2]
    assert times.index("multiply_reduce_fusion") < times.index("75.0 %") < times.index("loop") < times.index("25.0 %")
    assert tab(page, "m0", "before").strip() == sample.BEFORE.strip()
    assert "multiply_reduce_fusion = f32[8]" in tab(page, "m0", "text")
    graph = json.loads(tab(page, "m0", "graph"))
    root = graph["nodes"]["name"].index("multiply_reduce_fusion")
    assert graph["nodes"]["note"][root] == "model/sum, model/mul"
    assert "sample.py:2" in graph["nodes"]["where"][root]
    assert graph["groups"][graph["nodes"]["group"][root]]["t"] == "fusion with reduction"
    assert [v["t"] for v in graph["views"]] == ["main"]
    assert set(graph["bodies"]) == {"sum", "fused", "main"}
    decisions = json.loads(tab(page, "m0", "fusion"))["rows"]
    symbol = "multiply_reduce_fusion_k0"
    assert [symbol, "wide", "reduce", "no", "", "reuse", "computed twice otherwise"] in decisions
    assert [symbol, "mul", "reduce", "yes", 2048, "", "one reader"] in decisions  # 8x32 floats written and read
    plan = json.loads(tab(page, "m0", "plan"))["rows"]
    assert [row[0] for row in plan] == ["0", "1", "1.condition.0", "1.body.0", "1.body.0.branch0.0"]
    assert plan[0][1] == {"t": "multiply_reduce_fusion_k0", "h": "m0/kernels/multiply_reduce_fusion_k0"}
    assert plan[0][5] == "n (now 8)"
    lines = json.loads(tab(page, "m0", "lines"))["rows"]
    assert {row[0] for row in lines} == {"sample.py:2", "sample.py:9"}
    assert "\n- " in tab(page, "m0", "changes")
    assert "\n+ " in tab(page, "m0", "changes")


def test_kernels(page):
    data = json.loads(tab(page, "m0", "kernels"))
    symbol = "multiply_reduce_fusion_k0"
    assert [t["t"] for t in data["texts"]] == ["LLVM IR as emitted", "LLVM IR", "Kernel IR", "Assembly"]
    assembly = next(t for t in data["texts"] if t["t"] == "Assembly")
    first, count = assembly["at"][symbol]
    assert "vmulps" in "\n".join(blocks(page)[assembly["key"]].split("\n")[first : first + count])
    facts = dict(data["facts"][symbol])
    assert data["of"] == dict.fromkeys(("wide", "mul", "zero", "reduce", "multiply_reduce_fusion"), symbol)
    row = dict(zip((c["t"] for c in data["table"]["cols"]), data["table"]["rows"][0]))
    assert (row["Steps"], row["Tasks"], row["Time ms"], row["One run us"]) == (1, 8, 3.0, 250.0)
    assert "x floor" not in row
    assert "sample.py:2" in data["lines"]["mul"]
    assert facts["Time"] == "0.2 ms a run (12 timed)"
    assert facts["Floor"] == "unknown"
    assert [line["h"] for line in facts["User lines"]] == ["m0/lines/sample.py%3A2", "m0/lines/sample.py%3A9"]


def test_tensorflow_graph(page):
    picture = tab(page, "g0", "clusters")
    assert "<svg" in picture
    assert "hsl(" in picture
    assert "cluster_0: 2 nodes" in picture
    graph = json.loads(tab(page, "g0", "graph"))
    assert [g["t"] for g in graph["groups"]] == ["in no cluster", "cluster_0"]
    assert graph["nodes"]["group"] == [0, 1, 1, 0]
    assert json.loads(tab(page, "g0", "left"))["rows"] == [
        ["text/as_string", "AsString", "", "no-kernel: no XLA kernel takes strings", "train.py:9"]
    ]


def test_policy_holds_the_script_and_nothing_from_outside(page):
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1]
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(scripts) == 1
    assert "</script" not in scripts[0]
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert not re.search(r"""(?:src|href)\s*=\s*["']?(?:https?:)?//|url\((?!#)|@import""", page)


class _Tags(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict]] = []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def test_hostile_names_are_text(tmp_path):
    name = EVIL.replace('"', '\\"')
    made = report.build(sample.write(tmp_path / EVIL.replace("/", "_"), left=name))
    for text in [made, *(b for b in blocks(made).values() if b.startswith("<"))]:
        parser = _Tags()
        parser.feed(text)
        for tag_, attributes in parser.found:
            assert tag_ not in ("img", "iframe", "object", "embed", "form", "base")
            assert not any(key.startswith("on") for key in attributes)
            assert attributes.get("href", "#").startswith("#")
    assert made.count("<script>") == 1


def test_same_dump_same_report(dump, page):
    assert report.build(dump) == page


def test_stock_dumps_say_unknown(tmp_path):
    (tmp_path / "module_0001.cluster_3__XlaCompiledKernel_true_.7.before_optimizations.txt").write_text(sample.BEFORE)
    (tmp_path / "module_0001.cluster_3__XlaCompiledKernel_true_.7.cpu_after_optimizations.txt").write_text(sample.AFTER)
    (tmp_path / "module_0001.cluster_3__XlaCompiledKernel_true_.7.mul_kernel_module.ir-with-opt.ll").write_text(
        "define"
    )
    (tmp_path / "mark_for_compilation_2.pbtxt").write_text(sample.GRAPH.format(left="left"))
    made = report.build(tmp_path)
    assert site(made)["m1"]["title"] == "cluster_3"
    notes = {t["id"]: t["m"] for t in site(made)["m1"]["tabs"] if t["k"] == "note"}
    assert all("unknown: stock XLA" in notes[name] for name in ("fusion", "plan", "lines"))
    assert "unknown: stock XLA" in json.loads(tab(made, "g0", "left"))["rows"][0][3]


def test_nothing_compiled_says_why(tmp_path):
    sample.write(tmp_path)
    for file in tmp_path.glob("module_*"):
        file.unlink()
    text = html.unescape(start(report.build(tmp_path)))
    assert "No module was compiled" in text
    assert "no-kernel (1 nodes)" in text


def test_size_limit_leaves_pages_out_and_says_so(dump):
    made = report.build(dump, limit=3000)
    tabs = [t for entry in site(made).values() for t in entry["tabs"]]
    assert any("size limit" in t.get("m", "") for t in tabs)
    assert "left out of the report" in start(made)
    assert sum(len(data) for _, data in BLOCK.findall(made)) < 3000 + 4000


def test_a_graph_too_large_to_lay_out_is_still_there(dump, monkeypatch):
    monkeypatch.setattr(graphs, "LAYOUT_LIMIT", 2)
    graph = json.loads(tab(report.build(dump), "m0", "graph"))
    assert graph["views"] == []
    assert len(graph["nodes"]["name"]) == 12


def corrupt(data: bytes, dice: random.Random) -> bytes:
    kind = dice.randrange(6)
    if kind == 0:
        return data[: dice.randrange(len(data) + 1)]
    if kind == 1:
        return b""
    if kind == 2:
        return dice.randbytes(200)
    if kind == 3:
        return data.replace(b"=", b"{" * 3000, 3)
    if kind == 4:
        return json.dumps(
            dice.choice([[], {}, 7, [1, "x", None], {"steps": 3}, [[{}]], {"phases": {"a": "b"}}])
        ).encode()
    bits = bytearray(data)
    for _ in range(20):
        if bits:
            bits[dice.randrange(len(bits))] ^= 1 << dice.randrange(8)
    return bytes(bits)


@pytest.mark.parametrize("seed", range(200))
def test_corrupt_copies_never_abort(dump, tmp_path, seed):
    dice = random.Random(seed)
    copy = tmp_path / "copy"
    shutil.copytree(dump, copy)
    files = sorted(copy.iterdir())
    for file in dice.sample(files, dice.randrange(1, len(files))):
        file.write_bytes(corrupt(file.read_bytes(), dice))
    made = report.build(copy)
    for text in blocks(made).values():
        assert isinstance(text, str)
    site(made)


@pytest.mark.parametrize(
    ("record"),
    [
        {
            "kind": kind,
            "id": value,
            "phases": value,
            "guards": value,
            "nodes": value,
            "ops": value,
            "stats": value,
            "failed": value,
            "name": value,
            "graph": value,
            "versions": value,
            "flags": value,
            "argv": value,
            "host": value,
            "time": value,
            "ms": value,
            "inputs": value,
            "kernels": value,
            "native": value,
            "hit": value,
            "what": value,
            "reason": value,
            "changed": value,
            "apart": value,
            "remedies": value,
            "closest": value,
            "family": value,
            "key": value,
            "count": value,
            "timed": value,
            "steps": value if isinstance(value, str) else [{"instr": "wide", "count": value, "ms": value}, value],
            "module": value,
            "device": "GPU:0",
            "internal": value,
        }
        for kind in (
            "run",
            "compile",
            "function",
            "cluster",
            "unclustered",
            "recompile",
            "lowering",
            "stats",
            "fallback",
            "execution",
            "graph",
            "limit",
            "error",
            "new",
        )
        for value in (
            None,
            0,
            1.5,
            float("nan"),
            float("-inf"),
            10**400,
            "x",
            [],
            [1, None, {}],
            {},
            {"a": [1]},
            {"a": {"b": 1}},
            True,
        )
    ],
)
def test_records_of_any_type(tmp_path, record):
    compiled = {"kind": "compile", "id": 0, "device": "GPU:0", "kernels": 3}
    (tmp_path / "trace.1.jsonl").write_text(json.dumps(record) + "\n" + json.dumps(compiled) + "\n")
    (tmp_path / "module_0000.m.before_optimizations.txt").write_text(sample.BEFORE)
    for text in blocks(report.build(tmp_path)).values():
        if text.startswith(("{", "[")):
            json.loads(text, parse_constant=pytest.fail)


def test_a_file_that_cannot_be_read_is_a_row(dump, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(dump, copy)
    (copy / "module_0000.cluster_0.before_optimizations.txt").write_bytes(b"\0\1\2")
    (copy / "module_0000.cluster_0.cpu_after_optimizations.txt.gz").write_bytes(b"\x1f\x8bno gzip")
    (copy / "module_0000.cluster_0.cpu_after_optimizations.txt").unlink()
    (copy / "strange.bin").write_bytes(b"x")
    text = start(report.build(copy))
    assert "binary data" in text
    assert "cannot be read" in text
    assert "of no known kind" in text


def test_a_gzip_bomb_is_cut(tmp_path):
    (tmp_path / "module_0000.m.before_optimizations.txt.gz").write_bytes(gzip.compress(b" " * 10_000_000))
    reader = Reader(limit=1000)
    assert len(reader.text(scan(tmp_path).modules[0].files[0])) == 1000
    assert "only its first" in reader.problems[0][1]


# --- code for a machine that is not here ---


def test_code_for_another_machine_is_told_apart(dump, tmp_path) -> None:
    """Eight kernels of the sample ran; the same module for sm_90 has one kernel and lacks one."""
    sample.write(tmp_path)
    for suffix, text in (
        ("before_optimizations.txt", sample.BEFORE),
        ("kernels.json", json.dumps([{"symbol": "k", "instr": "sum"}])),
        ("fusion_decisions.json", json.dumps([{"a": "odd", "ok": False, "rule": "no-kernel", "reason": "no s4"}])),
    ):
        (tmp_path / f"module_0007.m.sm_90.{suffix}").write_text(text)
    crossed = {"kind": "cross_compile", "id": 7, "module": "m", "arch": "sm_90", "ms": 12.0}
    (tmp_path / "trace.5.jsonl").write_text(json.dumps(crossed) + "\n")
    before, found = report.build(dump), report.build(tmp_path)
    said = re.search(r"[\d,]+ modules? compiled, [\d,]+ kernels? generated\.", html.unescape(start(before)))[0]
    assert f"{said} Code only, for sm_90: 1 module, 1 kernel." in html.unescape(start(found))
    summary = html.unescape(tab(found, "m7", "summary"))
    for words in ("sm_90: code only, nothing of it ran", "odd (no s4)", "as module m", "12.0 ms"):
        assert words in summary
    assert "stock XLA" not in summary
