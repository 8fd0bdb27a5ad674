"""Files that are no module, or only part of one, given to the commands that read modules."""

from __future__ import annotations

import gzip
import os
import random
from pathlib import Path

import pytest

from tfxla_cluster.cli import common, opt
from tfxla_cluster.cli import exec as exec_
from tfxla_cluster.errors import TfxlaError
from tfxla_cluster.ir import proto, text

DATA = Path(__file__).parents[1] / "data"
PROTO = (DATA / "softmax.hlo.pb").read_bytes()
TEXT = text.render(proto.read(PROTO)).encode()
GARBAGE = random.Random(3).randbytes(1000)
SHORT = b"HloModule m\nENTRY e {\n x = f32[2]{0} parameter(0)\n ROOT r = f32[2] negate(x)\n}\n"
TOOLS = {"tfxla-opt": opt.main, "tfxla-exec": exec_.main}

# File name, contents, exit code, what is said beside the file's name.
FILES: list[tuple[str, bytes, int, str]] = [
    ("empty.hlo", b"", 3, "this is not HLO text"),
    ("empty.hlo.pb", b"", 3, "not an HloModuleProto"),
    ("empty.hlo.pb.gz", b"", 3, "not an HloModuleProto"),
    ("cut.hlo", TEXT[:300], 3, "found the end of the text"),
    ("cut.hlo.pb", PROTO[:200], 3, "not an HloModuleProto"),
    ("cut.hlo.pb.gz", gzip.compress(PROTO)[:100], 3, "is not whole"),
    ("damaged.hlo.pb.gz", gzip.compress(PROTO)[:60] + GARBAGE, 3, "is not whole"),
    ("garbage.hlo", GARBAGE, 3, "neither HLO text nor named .pb"),
    ("garbage.hlo.pb", GARBAGE, 3, "not an HloModuleProto"),
    ("garbage.hlo.pb.gz", b"\x1f\x8b" + GARBAGE, 3, "is not whole"),
    ("text.hlo.pb", TEXT, 3, "not an HloModuleProto"),
    ("proto.hlo", PROTO, 3, "neither HLO text"),
    ("deep.hlo", b"HloModule m\nENTRY e {\n p = " + b"(" * 100_000, 3, "nested too deep"),
    ("number.hlo", SHORT.replace(b"r = f32[2]", b"r = f32[2]{,}"), 3, "number.hlo:4:"),
    ("line.hlo", SHORT.replace(b"(x)", b"(x), metadata={source_line=12#}"), 3, "cannot be read"),
    (
        "huge.hlo",
        SHORT.replace(b"negate(x)", b"constant({1, 99999999999999999999999})").replace(b"f32", b"s32"),
        3,
        "huge.hlo:4:",
    ),
    ("invalid.hlo", SHORT.replace(b"ROOT r = f32[2]", b"ROOT r = f32[3]"), 4, "negate"),
]


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(("name", "data", "code", "said"), FILES, ids=[f[0] for f in FILES])
def test_a_file_that_is_no_module(
    tool: str, name: str, data: bytes, code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(data)
    assert common.run(tool, TOOLS[tool], [str(tmp_path / name)]) == code
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert said in error
    assert code == 4 or name in error, error


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("missing.hlo", "No such file"),
        ("directory.hlo", "Is a directory"),
        ("file/below.pb", "Not a directory"),
        ("nul\0.hlo", "null"),
        ("secret.hlo", "Permission denied"),
    ],
)
def test_a_file_that_cannot_be_read(
    tool: str, name: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if name == "secret.hlo" and os.geteuid() == 0:
        pytest.skip("permissions do not bind root")
    (tmp_path / "directory.hlo").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "secret.hlo").touch(0o000)
    assert common.run(tool, TOOLS[tool], [f"{tmp_path}/{name}"]) == 3
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert said in error
    assert "cannot read" in error


@pytest.mark.parametrize("tool", TOOLS)
def test_gzipped_modules_of_a_dump_are_read(tool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, data in (("m.hlo.pb.gz", PROTO), ("m.txt.gz", TEXT)):
        (tmp_path / name).write_bytes(gzip.compress(data))
        assert common.run(tool, TOOLS[tool], [str(tmp_path / name)]) == 0, capsys.readouterr().err


@pytest.mark.parametrize("seed", range(4))
def test_damage_is_an_error_of_ours_or_a_module(seed: int, tmp_path: Path) -> None:
    """Cuts, flipped bits and holes in protos and text: nothing but a TfxlaError comes out of reading them."""
    dice = random.Random(seed)
    for _ in range(60):
        data = bytearray(dice.choice((PROTO, TEXT)))
        at = dice.randrange(len(data))
        match dice.randrange(3):
            case 0:
                del data[at:]
            case 1:
                data[at] ^= 1 << dice.randrange(8)
            case _:
                del data[at : at + dice.randrange(1, 60)]
        path = tmp_path / ("m.pb" if data[:20] != TEXT[:20] else "m.hlo")
        path.write_bytes(data)
        assert _exit_code([str(path), "-o", str(tmp_path / "out"), "--strict"]) in (0, 3, 4, 5)


def _exit_code(argv: list[str]) -> int:
    """tfxla-opt's own answer; any other exception than TfxlaError passes through."""
    try:
        return opt.main(argv)
    except TfxlaError as error:
        return error.exit_code
