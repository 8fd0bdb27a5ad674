"""`tfxla-inspect replay` (tfxla_cluster.replay.rerun): any file with a module, references, edited kernels, failures."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.replay import planted
from tests.replay.modules import SMALL
from tfxla_cluster.errors import VersionError
from tfxla_cluster.ir import proto, text
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.ir.proto.schema import MESSAGES
from tfxla_cluster.ir.proto.shapes import write_literal
from tfxla_cluster.replay import arrays, edited, trials, xla
from tfxla_cluster.replay.module_file import load
from tfxla_inspect import cli

MODULE = text.parse(SMALL)


def snapshot() -> bytes:
    message = MESSAGES["HloSnapshot"]()
    message.hlo.hlo_module.ParseFromString(proto.write(MODULE))
    values = arrays.inputs(MODULE, (), 7)
    for value, shape in zip(values, MODULE.param_shapes):
        write_literal(value, shape, message.arguments.add())
    write_literal(tuple(evaluate(MODULE, values)), MODULE.entry.root.shape, message.result)
    return message.SerializeToString()


FILES = {
    "m.hlo": SMALL.encode(),
    "m.txt.gz": gzip.compress(SMALL.encode()),
    "m.hlo.pb": proto.write(MODULE),
    "m.pb.gz": gzip.compress(proto.write(MODULE)),
    "snapshot.1.pb": snapshot(),
}


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("name", FILES)
def test_any_file_that_holds_a_module(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / name).write_bytes(FILES[name])
    assert cli.main(["replay", str(tmp_path / name), "--repeat", "2"]) == 0
    out = capsys.readouterr().out
    assert out.count("agrees (largest error") == 2
    assert ("those of the snapshot" if "snapshot" in name else "random, seed 0") in out
    assert "2 kernels, 2 native" in out or "1 kernels, 1 native" in out


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("words", [("--backend", "xla"), ("--backend", "interpreter"), ("--reference", "xla")])
def test_backends_and_references(words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.hlo").write_text(SMALL)
    assert cli.main(["replay", str(tmp_path / "m.hlo"), "--json", *words]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ok"]
    assert [c["mismatches"] for c in report["compared"]] == [0, 0]


@pytest.mark.usefixtures("here")
def test_a_snapshots_results_are_a_reference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s.pb"
    path.write_bytes(snapshot())
    assert cli.main(["replay", str(path), "--reference", "snapshot"]) == 0
    assert cli.main(["replay", str(path), "--reference", "snapshot", "--inputs", "random"]) == 1
    out = capsys.readouterr().out
    assert out.count("agrees") == out.count("differs in") == 2
    assert "first at [0]" in out


@pytest.mark.usefixtures("here")
def test_inputs_that_were_saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.hlo").write_text(SMALL)
    words = ["replay", str(tmp_path / "m.hlo"), "--json"]
    assert cli.main([*words, "--seed", "3", "--save", str(tmp_path / "run")]) == 0
    assert cli.main([*words, "--inputs", str(tmp_path / "run")]) == 0
    one, two = map(json.loads, capsys.readouterr().out.splitlines())
    assert one["outputs"] == two["outputs"]


ELIDED = """HloModule e
ENTRY e { x = f32[20] parameter(0)
  c = f32[20] constant({...})
  ROOT r = f32[20] multiply(x, c) }
"""


@pytest.mark.usefixtures("here")
def test_elided_literals_are_said_and_the_same_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "e.hlo"
    path.write_text(ELIDED)
    assert cli.main(["replay", str(path)]) == 0
    out = capsys.readouterr().out
    assert "e.hlo:3:24 %c: the literal was elided; it has random values" in out
    assert "agrees" in out
    one, two = (load(str(path), seed).module.entry.root.operands[1].attrs["literal"] for seed in (0, 1))
    assert one.any()
    assert (one != two).any()


OPTIMISED = """HloModule o, is_scheduled=true
f { a = f32[4,3]{0,1} parameter(0)
  ROOT t = f32[4,3]{0,1} tanh(a) }
ENTRY e { x = f32[3,4]{1,0} parameter(0)
  b = f32[4,3]{0,1} bitcast(x)
  ROOT r = f32[4,3]{0,1} fusion(b), kind=kLoop, calls=f }
"""


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("reference", ["evaluator", "xla"])
def test_what_xla_optimised_runs_as_it_is(reference: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "o.hlo").write_text(OPTIMISED)
    assert cli.main(["replay", str(tmp_path / "o.hlo"), "--reference", reference]) == 0
    out = capsys.readouterr().out
    assert "it is optimised already: no passes run" in out
    assert "agrees" in out


@pytest.fixture
def dumped(here: None, tmp_path: Path) -> tuple[Path, Path]:
    """A module, and the LLVM IR of its kernels as a dump has it."""
    (tmp_path / "m.hlo").write_text(SMALL)
    words = ["replay", str(tmp_path / "m.hlo"), f"--xla_dump_to={tmp_path / 'dump'}"]
    assert cli.main(words) == 0
    (kernels,) = (tmp_path / "dump").glob("*.ir-no-opt.ll")
    return tmp_path / "m.hlo", kernels


@pytest.mark.usefixtures("here")
def test_an_edited_kernel(dumped: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """As it is, wrong, refused by LLVM, and of another module; of one kernel alone too."""
    module, kernels = dumped
    words = ["replay", str(module), "--kernel", str(kernels)]
    assert cli.main(words) == 0
    assert "without the edit: fastest run" in capsys.readouterr().out
    original = kernels.read_text()
    kernels.write_text(original.replace(" fsub ", " fadd "))
    assert cli.main(words) == 1
    out = capsys.readouterr().out
    assert "differs in" in out
    assert "right; edited is" in out
    symbol, one = next(iter(edited.read(kernels).items()))
    kernels.write_text(one)
    assert edited.read(kernels) == {symbol: one}
    kernels.write_text(original.replace(" fsub ", " fsubb "))
    assert cli.main(words) == 3
    assert "LLVM rejects it" in capsys.readouterr().err
    kernels.write_text(original.replace(symbol, "another"))
    assert cli.main(words) == 2
    assert f"has no kernel another. Its kernels: {symbol}" in capsys.readouterr().err


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["{tmp}/none.hlo"], 3, "cannot read"),
        (["{tmp}/m.hlo", "--inputs", "snapshot"], 2, "it is no snapshot"),
        (["{tmp}/m.hlo", "--reference", "snapshot"], 2, "holds no results"),
        (["{tmp}/m.hlo", "--inputs", "{tmp}"], 3, "holds no input.0.npy"),
        (["{tmp}/m.hlo", "--kernel", "{tmp}/none"], 3, "cannot read"),
        (["{tmp}/m.hlo", "--kernel", "{tmp}/m.hlo"], 3, "defines no function"),
        (["{tmp}/m.hlo", "--repeat", "0"], 2, "less than 1"),
        (["{tmp}/m.hlo", "--backend", "evaluator", "--kernel", "{tmp}/k.ll"], 2, "no kernels to edit"),
        (["{tmp}/bad.hlo"], 4, "subtract"),
        (["{tmp}/m.hlo", "--xla_dump_too=x"], 2, "Did you mean"),
    ],
)
def test_mistakes_are_one_line_and_a_code(
    words: list[str], code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.hlo").write_text(SMALL)
    (tmp_path / "bad.hlo").write_text(SMALL.replace("d = f32[6,10]", "d = f32[6,11]"))
    (tmp_path / "k.ll").write_text("define void @k() {\n ret void\n}\n")
    try:
        found = cli.main(["replay", *(w.format(tmp=tmp_path) for w in words)])
    except SystemExit as exit_:
        found = exit_.code
    assert found == code
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error


@pytest.mark.parametrize(("fault", "said"), [("crash", "the process dies: SIGSEGV"), ("hang", "does not end: stopped")])
def test_a_process_that_dies_or_hangs(
    fault: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED", fault)
    monkeypatch.setattr(trials, "EXEC", planted.PROGRAM)
    monkeypatch.setattr(trials, "TIMEOUT_S", 6.0)
    (tmp_path / "m.hlo").write_text(SMALL)
    assert cli.main(["replay", str(tmp_path / "m.hlo")]) == 1
    assert said in capsys.readouterr().out


def test_without_jax_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(VersionError, match="pip install jax"):
        xla.prepare(MODULE)


def test_messages_are_the_same_up_to_names_and_numbers() -> None:
    one = trials.Outcome(trials.ERROR, "%fusion.3: no kernel for 'f8' of [3, 4] elements")
    other = trials.Outcome(trials.ERROR, "%fusion.17: no kernel for 'f4' of [1] elements")
    third = trials.Outcome(trials.ERROR, "%fusion.17: another thing")
    assert trials.same(one, other)
    assert not trials.same(one, third)
    assert not trials.same(trials.Outcome(trials.CRASH, "SIGSEGV"), trials.Outcome(trials.CRASH, "SIGABRT"))


def test_the_first_difference_is_named() -> None:
    found = arrays.compare(np.array([[1.0, 2.0], [3.0, np.nan]], np.float32), np.array([[1.0, 2.0], [4.0, 5.0]], "f"))
    assert found["mismatches"] == 2
    assert found["first"] == {"at": [1, 0], "is": "3.0", "expected": "4.0"}
