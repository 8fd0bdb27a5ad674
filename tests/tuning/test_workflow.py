"""Results of a test suite: dumped to its outputs, kept in the repository, loaded by path or from the workspace, each
under pytest-xdist. `suite.py` is the suite.

To renew the file after kernels changed (VERSION in tuning/persisted/results.py):
TFXLA_FLAGS=--xla_gpu_dump_autotune_results_to=tests/data/autotune_results.txt pytest tests/tuning/suite.py
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tuning.suite import BODIES, TARGET
from tfxla_cluster.runtime.cpu import host
from tfxla_cluster.tuning.devices import device_text
from tfxla_cluster.tuning.persisted import files

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "tests/data/autotune_results.txt"
pytestmark = pytest.mark.skipif(host.target().vector_bits < 256, reason="the suite's kernels need AVX2")


def run_suite(flags: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "tests/tuning/suite.py"]
    env = {**os.environ, "TFXLA_FLAGS": flags, "PYTHONPATH": f"{ROOT}:{ROOT / 'inspect'}", **environment}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300, check=False)


def test_dump_to_the_test_outputs(tmp_path: Path) -> None:
    """One cache of all tests, whichever worker ran them; the file in the repository is of the same kernels."""
    done = run_suite(
        "--xla_gpu_dump_autotune_results_to=TEST_UNDECLARED_OUTPUTS_DIR/autotune_results.txt",
        TEST_UNDECLARED_OUTPUTS_DIR=str(tmp_path),
    )
    assert done.returncode == 0, done.stdout[-2000:]
    dumped, kept = files.read(str(tmp_path / "autotune_results.txt")), files.read(str(KEPT))
    assert dumped.keys() == kept.keys()
    assert len(dumped) >= len(BODIES)
    assert {key.device for key in dumped} == {device_text(TARGET)}
    assert [path.name for path in tmp_path.iterdir()] == ["autotune_results.txt"]


def digests(path: str, folder: Path, **environment: str) -> dict[str, str]:
    """Of what each test of the suite computed with results from `path`, when a missing one is an error."""
    done = run_suite(
        f"--xla_gpu_load_autotune_results_from={path} --xla_gpu_require_complete_aot_autotune_results",
        SUITE_DIGESTS=str(folder),
        **environment,
    )
    assert done.returncode == 0, done.stdout[-2000:]
    return {file.name: file.read_text() for file in folder.iterdir()}


@pytest.fixture(scope="module")
def loaded_by_path(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return digests(str(KEPT), tmp_path_factory.mktemp("digests"))


def test_load_by_path(loaded_by_path: dict[str, str]) -> None:
    """Every kernel has a result there, and none is tuned."""
    assert loaded_by_path.keys() == BODIES.keys()


def test_load_from_the_test_workspace(loaded_by_path: dict[str, str], tmp_path: Path) -> None:
    """And a second run with the same choices is the same to the last bit."""
    again = digests("TEST_WORKSPACE/tests/data/autotune_results.txt", tmp_path, TEST_WORKSPACE=str(ROOT))
    assert again == loaded_by_path
