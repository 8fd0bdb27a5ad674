"""The device's table of library products, on doubles of the driver and the library."""

from __future__ import annotations

import dataclasses

import pytest

from tests.codegen.triton.test_library_products import WithLibrary
from tests.device.library_times import HEADER, SHAPES, Row, measured, product, products, updated
from tests.runtime.cublaslt_double import WORKSPACES
from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.ir import verifier
from tfxla_cluster.tuning import check


def test_cases_are_modules_of_names_of_their_own() -> None:
    cases = list(products())
    assert len({case.name for case in cases}) == len(cases) > sum(map(len, SHAPES.values()))
    for case in cases:
        verifier.verify(case.module())


@pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True)])
def test_a_row(turned: tuple[bool, bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """The double's events are half a millisecond apart."""
    backend = WithLibrary()
    case = product("f64", (2, 13, 21, 9), turned)
    row = measured(backend, case)
    assert (row.wrong, len(row.library)) == ("", len(WORKSPACES))
    assert 1.0 in {round(t / row.ours, 2) for t in row.library}
    assert row.line().split()[-2:] == ["1.00", "1.00"]
    monkeypatch.setattr(check, "difference", lambda *args: "off")
    assert "off" in measured(backend, case).wrong
    assert not backend.machine_double[1].errors


@pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")
def test_an_update() -> None:
    """Each algorithm also with a product in bf16."""
    backend = WithLibrary()
    row = measured(backend, updated(product("bf16", (0, 13, 40, 9), (True, False))))
    assert (row.wrong, len(row.library)) == ("", 2 * len(WORKSPACES))


def test_lines() -> None:
    row = Row("f64 2x2x2 nn", 4.0, (2.0, 1.0), "")
    assert row.line().split()[3:] == ["4.0", "2.0", "1.0", "0.50", "0.25"]
    assert "no algorithm" in dataclasses.replace(row, library=()).line()
    assert len(HEADER.split()) == 12
