"""What a report shows of dumps of stock XLA, from any frontend, by hand-made files of each kind; and damaged ones."""

from __future__ import annotations

import contextlib
import gzip
import html
import json
import random
import re
import shutil
import zipfile
from pathlib import Path

import pytest

from tests import oracle
from tests.inspect import sample
from tests.inspect.pages import blocks, site, start, tab
from tfxla_cluster.errors import InputFileError
from tfxla_inspect import report
from tfxla_inspect.parsers import options
from tfxla_inspect.scan import scan

# ruff: noqa: E501 (HLO text keeps its lines)
# The old printer: shapes before operands, no signatures, a comment, no schedule; PyTorch/XLA names the user's file so.
TORCH = """\
HloModule IrToHlo.8, entry_computation_layout={(f32[2,3]{1,0},f32[3]{0})->(f32[2,3]{1,0})}

ENTRY IrToHlo.8 {
  p0.1 = f32[3]{0} parameter(0), metadata={op_type="xla__device_data" op_name="xla__device_data" source_file="/home/me/train_torch.py" source_line=14}
  p1.2 = f32[2,3]{1,0} parameter(1), sharding={replicated}
  broadcast.3 = f32[2,3]{1,0} broadcast(f32[3]{0} p0.1), dimensions={1} // of the bias
  add.4 = f32[2,3]{1,0} add(f32[2,3]{1,0} p1.2, f32[2,3]{1,0} broadcast.3), metadata={op_type="aten__add" op_name="aten__add" source_file="/home/me/train_torch.py" source_line=15}
  ROOT tuple.5 = (f32[2,3]{1,0}) tuple(f32[2,3]{1,0} add.4)
}
"""
# Reactant.jl and Nx (EXLA) hand over MLIR; its locations become op_name and the line of a .jl or .ex file.
JULIA = """\
HloModule reactant_loss.9, is_scheduled=true, entry_computation_layout={(f64[4]{0:T(128)S(1)})->f64[]}, num_partitions=2

%region_0.3 (Arg_0.4: f64[], Arg_1.5: f64[]) -> f64[] {
  %Arg_0.4 = f64[] parameter(0)
  %Arg_1.5 = f64[] parameter(1)
  ROOT %add.6 = f64[] add(%Arg_0.4, %Arg_1.5)
}

ENTRY %main.9_spmd (param: f64[4]) -> f64[] {
  %param = f64[4]{0:T(128)S(1)} parameter(0), sharding={devices=[2]<=[2]}
  %constant.1 = f64[] constant(0)
  %all-reduce-start = f64[4]{0} all-reduce-start(%param), channel_id=1, replica_groups=[1,2]<=[2], to_apply=%region_0.3
  %all-reduce-done = f64[4]{0} all-reduce-done(%all-reduce-start)
  ROOT %reduce.8 = f64[] reduce(%all-reduce-done, %constant.1), dimensions={0}, to_apply=%region_0.3, metadata={op_name="sum" source_file="/home/me/Lux/loss.jl" source_line=7}
}
"""
FILES = {
    "cpu_after_optimizations-memory-usage-report.txt": "Total bytes used: 2539 (2.5KiB)\nthe largest of all",
    "cpu_after_optimizations-buffer-assignment.txt": "BufferAssignment:\nallocation 0: size 32, maybe-live-out:\n"
    " value: <4 multiply_reduce_fusion @0> (size=32,offset=0): f32[8]{0}\n\nTotal bytes used: 32 (32B)\n",
    "debug_options": 'xla_dump_to: "/home/me/x"\nxla_cpu_enable_fast_math: true\nxla_disable_hlo_passes: "a"\n'
    'xla_disable_hlo_passes: "b"\n',
    "thunk_sequence.txt": "000: kThunk kernel multiply_reduce_fusion",
    "autotune_results.pbtxt": 'version: 3\nresults { device: "CUDA: 9.0" hlo: "x" }',
    "gpu_target_config.pbtxt": "gpu_device_info { threads_per_block_limit: 1024 }",
    "config.pbtxt": "replica_count: 1",
    "metadata.textproto": "pass_metadata { pass_name: 'algsimp' }",
    "k-pre-optimization.mlir": "module { func.func @k() }",
    "k_kernel_module.ir-with-opt.ll": "define void @k() { ret void }",
    "ptx": ".version 8.3\n.entry multiply_reduce_fusion()",
    "0001.simplification.after_algsimp.before_cse.txt": sample.BEFORE,
    "execution_0000.hlo_unoptimized_snapshot.txt": "hlo_module { name: 'm' }",
}


def stock(directory: Path) -> Path:
    """A dump of one module with a file of each kind that is a text, and frontend files beside it."""
    directory.mkdir()
    (directory / "module_0007.jit_f.before_optimizations.txt").write_text(sample.BEFORE)
    (directory / "module_0007.jit_f.cpu_after_optimizations.txt").write_text(sample.AFTER)
    (directory / "module_0007.jit_f.cpu_after_optimizations.hlo.pb.gz").write_bytes(
        gzip.compress(oracle.proto(sample.AFTER))
    )
    for name, text in FILES.items():
        (directory / f"module_0007.jit_f.{name}").write_text(text)
    own = directory / "module_0007.jit_f"
    own.mkdir()
    (own / "module.mlir").write_text("module @jit_f {}")
    (own / "compile_options.pb").write_bytes(b"\x0a\x03abc")
    (directory / "mark_for_compilation.pbtxt").write_text(sample.GRAPH.format(left=sample.LEFT))
    return directory


def test_every_text_of_a_module_is_somewhere_in_its_page(tmp_path: Path) -> None:
    made = report.build(stock(tmp_path / "d"))
    assert "Not read" not in start(made)
    shown = "\n".join(blocks(made).values())
    for text in FILES.values():
        words = [part for part in re.split(r"[^\w:]+", text.splitlines()[-1]) if len(part) > 3]
        assert all(part in shown for part in words[:4]), text
    other = tab(made, "m7", "texts")
    assert "module @jit_f {}" in other
    assert '1: "abc"' in other
    assert "==== Memory report: module_0007.jit_f.cpu_after_optimizations-memory-usage-report.txt ====" in other


def test_options_of_a_dump_without_records(tmp_path: Path) -> None:
    made = report.build(stock(tmp_path / "d"))
    flags = "--xla_cpu_enable_fast_math=true --xla_disable_hlo_passes=a,b"
    assert flags in html.unescape(start(made))
    assert flags in html.unescape(tab(made, "m7", "summary"))
    assert options.parse("nonsense\nxla_dump_to: 1\n{\n") == {}


@pytest.mark.parametrize(
    ("text", "line", "count"), [(TORCH, "train_torch.py:15", 5), (JULIA, "loss.jl:7", 8)], ids=["torch", "julia"]
)
def test_text_of_another_frontend(text: str, line: str, count: int, tmp_path: Path) -> None:
    """A file attached to an issue: named as the reporter liked."""
    (tmp_path / "from the issue.txt").write_text(text)
    made = report.build(tmp_path)
    assert "Not read" not in start(made)
    shown = site(made)["m0"]
    graph = next(t["id"] for t in shown["tabs"] if t["k"] == "graph")
    nodes = json.loads(tab(made, "m0", graph))["nodes"]
    assert len(nodes["name"]) == count
    assert line in nodes["where"]
    assert line in {row[0] for row in json.loads(tab(made, "m0", "lines"))["rows"]}


def test_several_dumps_in_one_archive(tmp_path: Path) -> None:
    for rank in range(3):
        stock(tmp_path / f"rank{rank}")
    out = Path(shutil.make_archive(str(tmp_path / "all"), "zip", tmp_path))
    made = report.build(out)
    assert "3 modules compiled" in start(made)
    assert {"m7", "m7x1", "m7x2"} <= set(site(made))


# --- damaged copies ---

EVIL = "<img src=x onerror=alert(1)>\"'&.txt"


def _damaged(data: bytes, dice: random.Random) -> bytes:
    how = dice.randrange(5)
    at = dice.randrange(len(data) + 1)
    if how == 0:
        return data[:at]
    if how == 1:
        flipped = bytearray(data)
        for _ in range(dice.randrange(1, 40)):
            if flipped:
                flipped[dice.randrange(len(flipped))] ^= 1 << dice.randrange(8)
        return bytes(flipped)
    if how == 2:
        return data[:at] + dice.randbytes(dice.randrange(300)) + data[at:]
    if how == 3:
        return gzip.compress(data)[: dice.randrange(20, 4000)]
    return data.replace(b"module", b"</script><b>").replace(b"%", b"<%")


def _tricked(path: Path, dice: random.Random, directory: Path) -> None:
    """A zip archive of the dump with members that are no part of one."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(p for p in directory.rglob("*") if p.is_file()):
            name = dice.choice(["../" * dice.randrange(4), "/", "a/../", "", "x" * 100 + "/"]) + file.name
            archive.writestr(name, file.read_bytes())
        archive.writestr(EVIL.replace("/", "_"), b"HloModule <b>\n")
        archive.writestr(f"module_0001.{EVIL}.before_optimizations.txt", sample.BEFORE)
        if dice.random() < 0.1:
            archive.writestr("module_0009.bomb.before_optimizations.txt", b"\n" * 70 * 2**20)
    if dice.random() < 0.5:
        path.write_bytes(_damaged(path.read_bytes(), dice) or b"PK")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stock(tmp_path_factory.mktemp("stock") / "d")


@pytest.mark.parametrize("seed", range(200))
def test_damaged_copies(whole: Path, tmp_path: Path, seed: int) -> None:
    """A report, with what cannot be read as rows, and nothing of a name or text as markup; never anything else."""
    dice = random.Random(seed)
    copy = tmp_path / "copy"
    shutil.copytree(whole, copy)
    if seed % 4:
        files = sorted(p for p in copy.rglob("*") if p.is_file())
        for file in dice.sample(files, dice.randrange(1, len(files))):
            file.write_bytes(_damaged(file.read_bytes(), dice))
            if dice.random() < 0.1:
                file.rename(file.with_name(EVIL.replace("/", "_") if dice.random() < 0.5 else file.name + ".gz"))
    else:
        archive = tmp_path / "copy.zip"
        _tricked(archive, dice, copy)
        copy = archive
    before = sorted(tmp_path.rglob("*"))
    made = ""
    # An archive as a whole may be unreadable.
    with contextlib.suppress(InputFileError) if seed % 4 == 0 else contextlib.nullcontext():
        made = report.build(copy)
    if not made:
        return
    page = start(made)
    assert "<img" not in page
    assert "<b>" not in re.sub(r"<b>[\d.,]+( [\w%]+)?</b>", "", page)
    for entry in site(made).values():
        for one in entry["tabs"]:
            assert one["t"]
    assert sorted(tmp_path.rglob("*")) == before


def test_the_scan_of_a_damaged_copy_says_what_is_wrong(whole: Path, tmp_path: Path) -> None:
    copy = tmp_path / "d"
    shutil.copytree(whole, copy)
    proto = copy / "module_0007.jit_f.cpu_after_optimizations.hlo.pb.gz"
    (copy / "module_0007.jit_f.cpu_after_optimizations.txt").unlink()
    proto.write_bytes(gzip.compress(gzip.decompress(proto.read_bytes())[:100]))
    (copy / "broken.zip").write_bytes(b"PK")
    found = html.unescape(start(report.build(copy)))
    assert "neither an HloProto nor an HloModuleProto, or cut off" in found
    assert "an archive that cannot be read: File is not a zip file" in found
    assert len(scan(copy).modules) == 1
