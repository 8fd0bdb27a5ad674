"""Every program of the catalogue: the same numbers as stock TensorFlow, with nothing handed back to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.compared import AUTO, FIT, MUST_COMPILE_ONLY, NAMES, Answers, compare, results, run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    return run(dict.fromkeys(NAMES, False), None, tmp_path_factory.mktemp("stock") / "out")


@pytest.fixture(scope="module")
def must(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    return run(
        dict.fromkeys(NAMES, True), "--tfxla_must_compile_fallback=raise", tmp_path_factory.mktemp("must") / "out"
    )


@pytest.fixture(scope="module")
def auto(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    jobs = {name: "auto" if name in FIT else None for name in NAMES}
    return run(jobs, AUTO, tmp_path_factory.mktemp("auto") / "out")


@pytest.mark.parametrize("name", NAMES)
def test_must_compile(name: str, must: Answers, stock: Answers) -> None:
    found, stats = results(must, name)
    compare(name, found, results(stock, name)[0])
    assert stats["fallbacks"] == 0, stats["fallback_reasons"]
    assert stats["compilations"] > 0
    assert stats["native_kernels"] == stats["kernels"] > 0


@pytest.mark.parametrize("name", NAMES)
def test_auto_clustering(name: str, auto: Answers, stock: Answers) -> None:
    found, stats = results(auto, name)
    compare(name, found, results(stock, name)[0])
    assert stats["fallbacks"] == 0, stats["fallback_reasons"]
    assert stats["ops_clustered"] > 0 or name in MUST_COMPILE_ONLY
    assert stats["native_kernels"] == stats["kernels"] > 0


def test_keras_jit_compile_false_still_clusters(stock: Answers, tmp_path: Path) -> None:
    answers = run(dict.fromkeys(FIT, False), AUTO, tmp_path / "out")
    for name in FIT:
        found, stats = results(answers, name)
        compare(name, found, results(stock, name)[0])
        assert stats["ops_clustered"] > 0


def test_saved_by_stock_and_served_here(tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    saved.mkdir()
    job = {"saved_model": True}
    expected, _ = results(run(job, None, tmp_path / "stock", TFXLA_TEST_SAVED=str(saved)), "saved_model")
    found, stats = results(run(job, "", tmp_path / "ours", TFXLA_TEST_SAVED=str(saved)), "saved_model")
    compare("saved_model", found, expected)
    assert stats["executions"] >= 2
    assert stats["fallbacks"] == 0


def test_saved_here_and_served_by_stock(tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    saved.mkdir()
    job = {"saved_model": True}
    expected, _ = results(run(job, AUTO, tmp_path / "ours", TFXLA_TEST_SAVED=str(saved)), "saved_model")
    assert b"Tfxla" not in (saved / "saved_model.pb").read_bytes()
    found, _ = results(run(job, None, tmp_path / "stock", TFXLA_TEST_SAVED=str(saved)), "saved_model")
    compare("saved_model", found, expected)
