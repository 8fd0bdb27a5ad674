"""`tfxla-inspect graph` (tfxla_inspect.drawing): what is drawn, and that hostile names and engines do no harm."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tfxla_cluster.errors import TfxlaError, VersionError
from tfxla_inspect import cli, drawing


def chain(length: int, extra: str = "") -> str:
    lines = ["  x = f32[4] parameter(0)", "  a0 = f32[4] tanh(x)"]
    lines += [f"  a{n} = f32[4] add(a{n - 1}, {'a0' if n % 3 else f'a{n - 1}'})" for n in range(1, length)]
    return "HloModule m\nENTRY e {\n" + "\n".join(lines) + f"\n{extra}  ROOT r = f32[4] negate(a{length - 1})\n}}\n"


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "m.hlo"
    path.write_text(chain(20))
    return path


def drawn(svg: bytes) -> int:
    return len(re.findall(rb'id="hlo_n\d+"', svg))


def test_svg_png_and_dot(module: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for suffix, begins in ((".svg", b"<?xml"), (".png", b"\x89PNG"), (".dot", b"digraph")):
        out = tmp_path / f"o{suffix}"
        assert cli.main(["graph", str(module), "-o", str(out)]) == 0
        assert out.read_bytes().startswith(begins)
    assert capsys.readouterr().out.count("22 instructions") == 3
    assert drawn((tmp_path / "o.svg").read_bytes()) == 22
    assert b"tanh" in (tmp_path / "o.svg").read_bytes()


def test_of_a_dump(dump: Path, tmp_path: Path) -> None:
    for stage, name in (("after", b"multiply_reduce_fusion"), ("before", b"broadcast")):
        assert cli.main(["graph", f"{dump}:0", "--stage", stage, "-o", str(tmp_path / "o.dot")]) == 0
        assert name in (tmp_path / "o.dot").read_bytes()
    words = ["graph", str(dump), "--stage", "before", "--computation", "sum", "-o", str(tmp_path / "o.dot")]
    assert cli.main(words) == 0
    assert (tmp_path / "o.dot").read_text().count("label=") == 3


def test_near_an_instruction_and_between_two(module: Path, tmp_path: Path) -> None:
    out = tmp_path / "o.dot"
    assert cli.main(["graph", str(module), "--around", "%a9", "--hops", "1", "-o", str(out)]) == 0
    assert sorted(re.findall(r'label="(\w+)\\n', out.read_text())) == ["a10", "a8", "a9"]
    for ends in (("a5", "a8"), ("a8", "a5")):
        assert cli.main(["graph", str(module), "--paths", *ends, "-o", str(out)]) == 0
        assert sorted(re.findall(r'label="(\w+)\\n', out.read_text())) == ["a5", "a6", "a7", "a8"]


def test_many_neighbours_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "m.hlo"
    path.write_text(chain(40))
    out = tmp_path / "o.dot"
    assert cli.main(["graph", str(path), "--around", "a0", "--hops", "1", "-o", str(out)]) == 0
    assert re.search(r"\+ \d+ neighbours", out.read_text())
    assert out.read_text().count("label=") <= 2 * 12 + 2


def test_long_edges_of_large_graphs_are_words(tmp_path: Path) -> None:
    path = tmp_path / "m.hlo"
    path.write_text(chain(600))
    out = tmp_path / "o.dot"
    assert cli.main(["graph", str(path), "-o", str(out)]) == 0
    assert "<- a0" in out.read_text()
    assert not re.search(r"^\tn1 -> n(?:\d\d+)", out.read_text(), re.MULTILINE)


def test_names_do_no_harm(tmp_path: Path) -> None:
    """Of a module and its instructions: no attribute of DOT, no link, no control character comes of them."""
    hostile = '  evil.URL = f32[4]{0} "x\\" URL=\\"javascript:alert(1)" custom-call(x), custom_call_target="<b>&"\n'
    path = tmp_path / "m.hlo"
    path.write_text(chain(3, hostile).replace("ENTRY e", "ENTRY e\x07"))
    (tmp_path / "n.hlo").write_text(chain(3).replace("f32[4] tanh", 'f32[4,/*\x01<i>\\N"*/] tanh'))
    for name in ("m", "n"):
        code = cli.main(["graph", str(tmp_path / f"{name}.hlo"), "-o", str(tmp_path / f"{name}.svg")])
        if code == 0:
            svg = (tmp_path / f"{name}.svg").read_bytes()
            assert b"<a " not in svg
            assert b"javascript:" not in svg.replace(b"&quot;", b'"') or b"xlink:href" not in svg
            assert not re.search(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]", svg)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["{tmp}/none.hlo", "-o", "{tmp}/o.svg"], 3, "cannot read"),
        (["{tmp}/m.hlo", "-o", "{tmp}/o.gif"], 2, "no such format"),
        (["{tmp}/m.hlo", "-o", "{tmp}/o.svg", "--around", "a"], 2, "no instruction a. Near: "),
        (["{tmp}/m.hlo", "-o", "{tmp}/o.svg", "--paths", "a3", "x", "--around", "a1"], 2, "not allowed"),
        (["{tmp}/m.hlo", "-o", "{tmp}/o.svg", "--computation", "q"], 2, "no computation q. It has: e"),
        (["{tmp}/junk.hlo", "-o", "{tmp}/o.svg"], 3, "it is no HLO text"),
        (["{tmp}/m.hlo", "-o", "{tmp}/no/o.svg"], 6, "cannot be written"),
    ],
)
def test_mistakes(
    words: list[str], code: int, message: str, module: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "junk.hlo").write_text("no HLO")
    try:
        found = cli.main(["graph", *(w.format(tmp=tmp_path) for w in words)])
    except SystemExit as exit_:
        found = exit_.code
    assert found == code
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_too_many_to_draw(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.hlo"
    path.write_text(chain(1600))
    assert cli.main(["graph", str(path), "-o", str(tmp_path / "o.svg")]) == 2
    assert "at most 1,500 are drawn" in capsys.readouterr().err


def test_engines_that_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing, failing, slow, or one that draws less than it was given."""
    engine = tmp_path / "dot"
    monkeypatch.setattr(drawing, "engine", lambda: str(engine))
    for script, message in (
        ("echo bad >&2; exit 3", "failed: bad"),
        ("echo '<svg><g id=\"hlo_n0\"/></svg>'", "drew 1 of 2 instructions"),
        ("sleep 9", "were not drawn in 1 s"),
    ):
        engine.write_text(f"#!/bin/sh\n{script}\n")
        engine.chmod(0o755)
        monkeypatch.setattr(drawing, "_TIMEOUT_S", 1.0)
        with pytest.raises(TfxlaError, match=message):
            drawing.render("digraph {}", "svg", 2)
    monkeypatch.undo()
    monkeypatch.setattr(drawing.shutil, "which", lambda name, path=None: None)
    with pytest.raises(VersionError, match="pip install graphviz-pure"):
        drawing.engine()
