"""The routine that checks data: machine code against Python, with drawn values of every width."""

from __future__ import annotations

import llvmlite.ir as ll
import numpy as np
import pytest

from tfxla_cluster import compiler
from tfxla_cluster.backends import cpu, interpreter
from tfxla_cluster.codegen.kernel import library_check as layout
from tfxla_cluster.codegen.kernel.lower import data_check
from tfxla_cluster.data_checks import MAX_COLUMNS, SHOWN, TARGET, Check
from tfxla_cluster.errors import DataError, TfxlaError, UnsupportedError
from tfxla_cluster.ir import text
from tfxla_cluster.options import CompileOptions
from tfxla_cluster.runtime import check_reports
from tfxla_cluster.runtime.cpu import check_routine
from tfxla_cluster.runtime.plan import count_kernels

BACKENDS = (cpu.this_machine(), interpreter.this_machine())
KINDS = {
    "s8": ("in range", "GatherV2"),
    "s16": ("below", "UnsortedSegmentSum"),
    "s32": ("in range", "GatherV2"),
    "s64": ("below", "UnsortedSegmentSum"),
    "u8": ("not zero", "FloorDiv"),
    "u64": ("not zero", "FloorDiv"),
    "f16": ("finite", "CheckNumerics"),
    "bf16": ("finite", "CheckNumerics"),
    "f32": ("finite", "CheckNumerics"),
    "f64": ("finite", "CheckNumerics"),
}


def module(kind: str, dims: str, check: Check, limits: str = "") -> str:
    config = check.to_json().replace('"', '\\"')
    given = f"  limits = s32[{limits.count(',') + 1}] constant({{{limits}}})\n" if limits else ""
    return (
        f"HloModule checked\nENTRY e {{ x = {kind}[{dims}] parameter(0)\n{given}"
        f'  check = () custom-call(x{", limits" if limits else ""}), custom_call_target="{TARGET}", '
        f'custom_call_has_side_effect=true, backend_config="{config}"\n  ROOT y = {kind}[{dims}] copy(x) }}'
    )


def results(source: str, x: np.ndarray) -> list[str]:
    """What each backend says, '' for nothing."""
    found = []
    for backend in BACKENDS:
        loaded = compiler.compile_module(text.parse(source), backend, CompileOptions()).executable
        try:
            np.testing.assert_array_equal(loaded.run([x])[0], x)
            found.append("")
        except DataError as error:
            found.append(f"{error.node}: {error.message}")
        assert count_kernels(loaded.plan).kernels <= 1, "a check is no kernel"
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_machine_code_finds_what_python_finds(kind: str) -> None:
    rng = np.random.default_rng(7)
    name, op = KINDS[kind]
    for size in (0, 1, 3, 32, 33, 100):
        source = module(kind, str(size), Check(name, op, "n", "m"), "5" if name in ("in range", "below") else "")
        dtype = text.parse(source).entry.params[0].shape.element_type.numpy
        for _ in range(6):
            x = rng.integers(1, 5, size).astype(dtype)
            bad = rng.integers(0, size, rng.integers(0, 3)) if size else []
            for at in bad:
                edges = [np.nan, np.inf, -np.inf] if name == "finite" else [0] if name == "not zero" else [5, 100, -1]
                x[at] = edges[rng.integers(0, len(edges))]
            native, python = results(source, x)
            assert native == python
            wrong = not np.isfinite(x.astype(np.float64)).all() if name == "finite" else (x == 0).any()
            wrong = (
                (x >= 5).any() or (name == "in range" and (x < 0).any())
                if op in ("GatherV2", "UnsortedSegmentSum")
                else wrong
            )
            assert bool(native) == bool(wrong)


@pytest.mark.parametrize("bad", [None, (0, 0), (3, 1), (4, 2)])
def test_indices_of_several_dimensions(bad: tuple[int, int] | None) -> None:
    source = module("s32", "5,3", Check("in range", "GatherNd", "node/a"), "4,5,6,7")
    x = np.arange(15, dtype=np.int32).reshape(5, 3) % 4
    if bad is not None:
        x[bad] = -7
    native, python = results(source, x)
    row = "" if bad is None else ", ".join(map(str, x[bad[0]]))
    words = f"node/a: indices[{(bad or [0])[0]}] = [{row}] does not index into param shape [4,5,6,7], node name: node/a"
    assert native == python == ("" if bad is None else words)


def test_what_cannot_be_read_is_refused() -> None:
    source = module("s32", "3", Check("in range", "GatherV2", "n"), "3").replace("in range", "no such kind")
    with pytest.raises(UnsupportedError, match="no such kind"):
        compiler.compile_module(text.parse(source), BACKENDS[0], CompileOptions())


def test_too_many_columns_are_refused() -> None:
    source = module("s32", "5,3", Check("in range", "GatherNd", "n"), "4,5")
    (check,) = (i for i in text.parse(source).entry.instrs if i.opcode == "custom-call")
    with pytest.raises(UnsupportedError, match="by 2 limits"):
        data_check.lower(check, BACKENDS[0].target)


def test_a_report_holds_what_is_said_of_it() -> None:
    assert layout.ROW_BYTES == 8 * MAX_COLUMNS
    assert layout.LIMIT_BYTES == 4 * MAX_COLUMNS
    assert layout.HEAD_BYTES == 8 * SHOWN
    assert layout.SIZES_AT - layout.FURTHER == layout.PROBES - 1


def test_the_routine_is_emitted_with_its_slots() -> None:
    emitted = ll.Module("checks")
    check_routine.emit(emitted)
    names = {f.name for f in emitted.functions}
    assert {"tfxla_check", "check_reports"} <= names


def test_other_failures_are_no_data() -> None:
    assert issubclass(DataError, TfxlaError)
    assert [check_reports.error(status) for status in (-2, -1, 1, 77)] == [None] * 4
