"""tfxla-demo: the acceptance figures that do not depend on timing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_demo(tmp_path):
    tool = Path(sys.executable).parent / "tfxla-demo"
    if not tool.exists():
        pytest.skip("the package is not installed in this environment")
    env = {k: v for k, v in os.environ.items() if k not in ("TFXLA_FLAGS", "TF_XLA_FLAGS", "XLA_FLAGS")}
    done = subprocess.run(
        [str(tool), "--json", "--rounds", "1"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["accuracy"] >= 0.97
    assert abs(result["accuracy"] - result["reference_accuracy"]) <= 0.01
    assert result["max_loss_gap"] <= 1e-3
    assert result["native_kernels"] == result["kernels"] > 0
    modules = json.loads((Path(result["dump_dir"]) / "manifest.json").read_text())["modules"]
    for field, total in (("kernels", result["kernels"]), ("native", result["native_kernels"])):
        assert sum(module["compile"][field] for module in modules) == total
    assert result["clustered_share"] >= 0.95
    assert result["clusters"] > 0
    assert Path(result["report"]).stat().st_size > 100_000
    assert Path(result["dump_dir"]).is_dir()


@pytest.mark.parametrize(("words", "code"), [(["--image-size", "x"], 2), (["--dump-to", "/proc/nowhere"], 6)])
def test_bad_input_is_one_line(words, code, capsys):
    from tfxla_cluster.cli import common, demo

    with pytest.raises(SystemExit) as ended:  # argparse's own, or with the command's code as its entry does
        sys.exit(common.run("tfxla-demo", demo.main, words))
    assert ended.value.code == code
    assert "Traceback" not in capsys.readouterr().err


def test_a_package_that_is_not_switched_on_is_said(monkeypatch, tmp_path, capsys):
    from tfxla_cluster.cli import common, demo

    class Stock:
        name = "stock"

        def __init__(self, *_):
            pass

        def ask(self, command):
            return {"losses": [1.0]} if command == "losses" else {}

        def close(self):
            pass

    monkeypatch.setattr(demo, "Child", Stock)
    assert common.run("tfxla-demo", demo.main, ["--dump-to", str(tmp_path)]) == 1
    assert "ran stock TensorFlow. tfxla_cluster.pth is missing" in capsys.readouterr().err
