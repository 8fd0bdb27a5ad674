"""Algorithms of a library of the GPU as choices: other libraries, failures, graphs, tuning and files of it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from tests.close import assert_near
from tests.codegen.triton.library_cases import (
    CASES,
    ByLibrary,
    WithLibrary,
    calls,
    first_algorithm,
    library_dot,
    opened,
)
from tests.hlo_case import Case, module
from tfxla_cluster import compiler, trace
from tfxla_cluster.backends import gpu
from tfxla_cluster.codegen.kernel.choice import Choice
from tfxla_cluster.codegen.kernel.library import NO_LIBRARIES, Libraries, NoLibrary
from tfxla_cluster.codegen.kernel.library_product import CUDA_TYPES, chosen
from tfxla_cluster.codegen.kernel.lower import gpu as lower
from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.errors import TfxlaError, UnsupportedError
from tfxla_cluster.ir import text
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.ir.node import Module
from tfxla_cluster.options import CompileOptions, TuningOptions
from tfxla_cluster.runtime.gpu.executable import Executable
from tfxla_cluster.tuning import session, tuner
from tfxla_cluster.tuning.gpu_trial import GpuTrial
from tfxla_cluster.tuning.persisted import files, results
from tfxla_cluster.tuning.tables import Tables

pytestmark = pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")


@pytest.fixture
def backend() -> Iterator[WithLibrary]:
    with opened() as found:
        yield found


def test_an_algorithm_of_another_library_is_refused(backend: WithLibrary) -> None:
    algorithm = first_algorithm(backend)
    other = replace(algorithm, version=120900)
    with pytest.raises(UnsupportedError, match=r"cuBLASLt 12\.9\.0, and this is 13\.1\.0"):
        backend.lower(library_dot(), other.choice())
    wrong = replace(algorithm, words=(77, *algorithm.words[1:]))
    with pytest.raises(UnsupportedError, match="does not multiply these matrices"):
        backend.lower(library_dot(), wrong.choice())
    with pytest.raises(UnsupportedError, match="result has another type"):
        backend.lower(library_dot("f64 nn"), algorithm.choice())
    with pytest.raises(UnsupportedError, match="does not multiply these matrices"):
        backend.lower(library_dot("f64 nn"), replace(algorithm, result=CUDA_TYPES["f64"]).choice())
    for nonsense in (1 << 60, -256):
        with pytest.raises(UnsupportedError, match=f"{nonsense} bytes are no workspace"):
            backend.lower(library_dot(), replace(algorithm, workspace=nonsense).choice())
    small = replace(first_algorithm(backend, 1), workspace=0)
    with pytest.raises(UnsupportedError, match="takes 4096 bytes of workspace, not 0"):
        backend.lower(library_dot(), small.choice())
    with pytest.raises(UnsupportedError, match="the library is not here: the machine is only described"):
        lower.lower(library_dot(), backend.target, algorithm.choice(), NO_LIBRARIES)


def test_without_a_library_the_candidates_are_ours(backend: WithLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(trace, "record", lambda kind, **fields: told.append(fields["reason"]))
    assert not gpu.Gpu(backend.target).candidates(library_dot()).others
    assert not told
    missing = Libraries(NoLibrary("none", said=True), NO_LIBRARIES.convolutions)
    assert not gpu.Gpu(backend.target, 0, missing).candidates(library_dot()).others
    assert told == ["none"]
    backend.library[1].failing["cublasLtMatmulAlgoGetHeuristic"] = 15
    assert not backend.candidates(library_dot()).others


def test_a_product_that_fails_is_an_error(backend: WithLibrary) -> None:
    case = Case("f32 nn", module(CASES["f32 nn"]))
    made = compiler.compile_module(text.parse(case.text), backend, choices=ByLibrary(backend, 0))
    backend.library[1].failing["cublasLtMatmul"] = 13
    with pytest.raises(TfxlaError, match="cuBLAS status 13, CUBLAS_STATUS_EXECUTION_FAILED"):
        made.executable.run(case.args())


def test_products_are_captured(backend: WithLibrary) -> None:
    """The library's call is made while the stream is captured, and replayed after."""
    case = Case("followed", module(CASES["followed"]))
    parsed, args = text.parse(case.text), case.args()
    options = CompileOptions(least_graph=2)
    made = compiler.compile_module(parsed, backend, options, choices=ByLibrary(backend, 0))
    executable: object = made.executable
    assert isinstance(executable, Executable)
    assert executable.captured
    with executable.prepare(args) as prepared:
        for _ in range(5):
            prepared.launch()
            (got,) = prepared.results()
            assert_near(got, np.asarray(evaluate(parsed, args)[0]), 1e-5)
    assert executable.graphs()["made"] == 1
    assert executable.graphs()["replayed"] == 2
    assert backend.library[1].calls["cublasLtMatmul"] == 3


def test_descriptors_are_given_back(backend: WithLibrary) -> None:
    case = Case("f32 nn", module(CASES["f32 nn"]))
    made = compiler.compile_module(text.parse(case.text), backend, choices=ByLibrary(backend, 0))
    assert len(backend.library[1].things) == 4
    del made
    gc.collect()
    assert not backend.library[1].things


def test_an_algorithm_as_knobs(backend: WithLibrary) -> None:
    for other in backend.candidates(library_dot()).others:
        found = chosen(Choice(dict(other)))
        assert found is not None
        assert found.choice() == other
        assert results.spelled(other) == str(found)
        assert str(found).startswith("cuBLASLt 13.1.0, algorithm ")
    assert results.spelled(Choice({"rows": 64})) == "rows=64"
    assert chosen(Choice({"rows": 64})) is None
    assert chosen(Choice({**first_algorithm(backend).choice(), "rows": 64})) is None


def test_tuning_finds_the_library_and_a_file_keeps_it(backend: WithLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is fastest; the next process takes the same algorithm from the file, and one of another version is
    a miss that is named."""
    monkeypatch.setattr(tuner, "search", lambda cands, evaluate, stop: evaluate([cands[0], *cands.others]))
    monkeypatch.setattr(GpuTrial, "seconds", lambda self, count: 1e-4 if calls(self._executable.plan) else 2e-4)
    parsed = text.parse(module(CASES["f64 nn"]))
    tables, options = Tables(), TuningOptions(use=True, progress=False)
    tuned = session.choices(backend, CompileOptions(), replace(options, tune=True), tables)
    made = compiler.compile_module(parsed, backend, choices=tuned)
    (entry,) = tables.known().values()
    assert entry.choice in backend.candidates(parsed.entry.root).others
    assert [m.failure for m in entry.measured] == [""] * 4
    kept = files.parse(files.serialised(results.of([entry]), text=True), text=True)
    second = _from_results(parsed, backend, kept)
    assert calls(second.plan) == calls(made.plan) != []
    (name,) = (c.source for c in second.chosen.values())
    assert name == "given"
    algorithm = chosen(entry.choice or Choice())
    assert algorithm is not None
    older = replace(entry, choice=replace(algorithm, version=120900).choice())
    third = _from_results(parsed, backend, results.of([older]))
    assert not calls(third.plan)
    (reason,) = (c.reason for c in third.chosen.values())
    assert "it is an algorithm of cuBLASLt 12.9.0, and this is 13.1.0" in reason


def _from_results(parsed: Module, backend: WithLibrary, known: results.Results) -> compiler.Compiled[Executable]:
    tables = Tables()
    with tables.overlaid(known):
        loaded = session.choices(backend, CompileOptions(), TuningOptions(use=True, progress=False), tables)
        return compiler.compile_module(parsed, backend, choices=loaded)
