"""A dump directory made by hand, once a test module."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.inspect import sample


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample.write(tmp_path_factory.mktemp("dump"))
