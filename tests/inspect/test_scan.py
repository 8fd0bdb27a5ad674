from __future__ import annotations

from pathlib import Path

import pytest

from tests.inspect import sample
from tfxla_cluster.dump import schema
from tfxla_cluster.errors import InputFileError
from tfxla_inspect import file_kinds
from tfxla_inspect.scan import natural, scan

STOCK = "cluster_0__XlaCompiledKernel_true__XlaHasReferenceVars_false_.._.5"


@pytest.mark.parametrize(
    ("suffix", "kind", "groups"),
    [
        ("before_optimizations.txt", "before", {}),
        ("before_optimizations.hlo.pb.gz", "before_proto", {}),
        ("cpu_after_optimizations.txt", "after", {"target": "cpu"}),
        ("sm_9.0_gpu_after_optimizations.txt", "after", {"target": "sm_9.0_gpu"}),
        ("cpu_after_optimizations-buffer-assignment.txt", "buffers", {"target": "cpu"}),
        ("cpu_after_optimizations-memory-usage-report.txt", "memory", {"target": "cpu"}),
        (
            "0012.simplify.after_cse.before_dce.txt",
            "pass",
            {"step": "0012", "pipeline": "simplify", "after": "cse", "before": "dce"},
        ),
        ("add.1_kernel_module.ir-no-opt.ll", "llvm_before", {"kernel": "add.1_kernel_module"}),
        ("ir-with-opt.ll", "llvm", {}),
        ("obj-file.add.1_kernel_module.o", "object", {"kernel": "add.1_kernel_module"}),
        ("add-post-lowering.mlir", "mlir", {"kernel": "add"}),
        ("debug_options", "options", {}),
        ("kernels.json", "kernels", {}),
        ("s", "assembly", {}),
        ("surprise.xyz", "unknown", {}),
    ],
)
def test_module_files(tmp_path, suffix, kind, groups):
    (tmp_path / f"module_0003.{STOCK}.before_optimizations.txt").write_text("")
    (tmp_path / f"module_0003.{STOCK}.{suffix}").write_text("x")
    (module,) = scan(tmp_path).modules
    found = next(f for f in module.files if f.name.endswith("." + suffix))
    assert (module.id, module.name, found.kind, found.groups) == (3, STOCK, kind, groups)


def test_two_modules_with_one_number(tmp_path):
    for name in ("f", "f.2"):
        for suffix in ("before_optimizations.txt", "k.ir-with-opt.ll"):
            (tmp_path / f"module_0000.{name}.{suffix}").write_text("")
    assert sorted((m.name, len(m.files)) for m in scan(tmp_path).modules) == [("f", 2), ("f.2", 2)]


def test_graphs_traces_links_and_directories(tmp_path):
    for name in (
        "mark_for_compilation.pbtxt",
        "mark_for_compilation_10.pbtxt",
        "mark_for_compilation_9.pbtxt",
        "mark_for_compilation_annotated_1.pbtxt",
        "before_mark_for_compilation.pbtxt",
        "trace.77.jsonl",
    ):
        (tmp_path / name).write_text("")
    (tmp_path / "sub").mkdir()
    (tmp_path / "link.pbtxt").symlink_to("/etc/passwd")
    (tmp_path / ".tmp.1.2.3").write_text("half")
    found = scan(tmp_path)
    assert [f.name for f in found.all("graph")] == [
        "mark_for_compilation.pbtxt",
        "mark_for_compilation_9.pbtxt",
        "mark_for_compilation_10.pbtxt",
    ]
    assert found.all("trace")[0].groups == {"pid": "77"}
    assert found.problems == [("link.pbtxt", "a link: not followed")]


def test_every_file_that_the_package_documents_is_known(tmp_path):
    for kind in schema.FILE_KINDS:
        name = (
            kind.suffix.replace("NNNN", "0001")
            .replace("trace.*", "trace.12")
            .replace("*", "cpu" if kind.per_module else "")
        )
        (tmp_path / (f"module_0000.m.{name}" if kind.per_module else name)).write_text("x")
    found = scan(tmp_path)
    assert [f.name for m in found.modules for f in m.files if f.kind == "unknown"] == []
    assert [f.name for f in found.files if f.kind == "unknown"] == []


def test_every_file_that_the_package_writes_is_known(tmp_path):
    found = scan(sample.write(tmp_path))
    assert [f.name for f in found.files + found.modules[0].files if f.kind == "unknown"] == []


@pytest.mark.parametrize(("make", "said"), [("missing", "no such"), ("empty", "is empty")])
def test_one_line_errors(tmp_path, make, said):
    path = tmp_path / "d"
    path.mkdir() if make == "empty" else None
    with pytest.raises(InputFileError, match=said):
        scan(path)


def test_natural_order():
    assert sorted(["x_10", "x_9", "x"], key=natural) == ["x", "x_9", "x_10"]


def test_only_possible_kinds_are_searched():
    """Names of each kind, as its pattern and as others would have them: the first kind of the whole table is found."""
    words = ["cpu", "0012", "algsimp", "a-b", "fused.3", "module", "x_y", "1"]
    endings = (Path(__file__).parent / "dump_names.txt").read_text().split()
    names = [f"{word}.{ending}" for word in words for ending in endings] + endings
    names += [f"{name}.gz" for name in names]
    found = set()
    for name in names:
        searched = ((k, k.pattern.search(name)) for k in file_kinds.KINDS if k.per_module)
        first = next((k for k, match in searched if match), None)
        assert (file_kinds.of_module(name) or [None])[0] is first
        whole = ((k, k.pattern.fullmatch(name)) for k in file_kinds.KINDS if not k.per_module)
        outside = next((k for k, match in whole if match), None)
        assert (file_kinds.plain(name) or [None])[0] is outside
        found |= {k.name for k in (first, outside) if k}
    ours = {kind.suffix for kind in schema.FILE_KINDS}  # each has a test of its own
    assert found >= {k.name for k in file_kinds.KINDS if not any(k.pattern.search(suffix) for suffix in ours)} - {"log"}
