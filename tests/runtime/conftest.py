"""What the launcher of GPUs is tested on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tfxla_cluster.runtime.gpu.driver import Driver

from .gpu_double import Library, double
from .gpu_plans import KERNELS


@pytest.fixture
def machine() -> Iterator[tuple[Driver, Library]]:
    driver, library = double(2)
    library.kernels |= KERNELS
    yield driver, library
    assert not library.errors, library.errors[0]
