"""A constexpr of a user's kernel that varies, through the real service: what the records, log lines and the report say
of it. The backend is a double: GPU plans whose kernels Triton's interpreter runs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfxla_cluster
from tests.inspect.test_recompiles import shown
from tests.tf.interpreted_gpu import Backend
from tfxla_cluster import flags, triton_calls
from tfxla_cluster.backends import registry
from tfxla_cluster.codegen.triton import workers
from tfxla_inspect import report

tl, triton_kernel = tfxla_cluster.tl, tfxla_cluster.triton_kernel
pytestmark = pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")


@triton_kernel
def scale(x, factor, n, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * factor, mask=at < n)


@pytest.fixture(autouse=True)
def dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setitem(registry.FOR_DEVICES, "CPU", lambda number, any_order: Backend())
    monkeypatch.setenv("TFXLA_LOGS", "recompiles")
    tfxla_cluster.clear_cache()
    triton_calls._function.cache_clear()
    with flags.patch(xla_dump_to=str(tmp_path / "dump"), tfxla_must_compile_fallback="raise"), tfxla_cluster.enable():
        yield tmp_path / "dump"
    tfxla_cluster.clear_cache()
    triton_calls._function.cache_clear()


def compilations(dump: Path) -> list[dict[str, Any]]:
    found = map(json.loads, (dump / f"trace.{os.getpid()}.jsonl").read_text().splitlines())
    return [record for record in found if record["kind"] == "compile" and not record["hit"]]


X = tf.constant(np.arange(40, dtype=np.float32))


def called(block: int) -> Any:
    """A kernel's block that Python takes from outside of the function."""

    def step(x: Any) -> Any:
        grid = -(-x.shape[0] // block)
        return tfxla_cluster.triton_call(scale, x, 3.0, int(x.shape[0]), out_shape=x, grid=grid, BLOCK=block) + 1.0

    return tf.function(step, jit_compile=True)(X)


def test_a_constexpr_is_a_cause_of_its_own(dump: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for block in (16, 32, 16):
        np.testing.assert_allclose(called(block), X.numpy() * 3.0 + 1.0)
    first, second = compilations(dump)
    assert first["reason"] == "first compilation of this function"
    assert second["closest"] == first["id"]
    assert [(c["kind"], c["of"], c["was"], c["now"]) for c in second["changed"]] == [
        ("constexpr", "constexpr 'scale.BLOCK'", "16", "32")
    ]
    assert "constexpr 'scale.BLOCK': was 16, is 32" in second["reason"]
    (remedy,) = [r for r in second["remedies"] if "scale.BLOCK" in r]
    assert remedy.startswith("pass 'scale.BLOCK' to the kernel as an argument")
    assert second["serves"]["process"]["scale.BLOCK"] == "32"
    assert "constexpr 'scale.BLOCK': was 16, is 32" in capfd.readouterr().err
    page = shown(report.build(dump))
    assert "constexpr of a kernel against 0/0" in page
    assert "constexpr 'scale.BLOCK' 16 | 32" in page
