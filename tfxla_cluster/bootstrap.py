"""Imported by the .pth where TFXLA_FLAGS is set: enables the package once tensorflow is imported.

Imports as little as it can: a program that never imports tensorflow pays one small module.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType


class _EnableAfter(Loader):
    """Runs the real loader, then `enable()`."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        from . import api
        from .errors import TfxlaError

        try:
            api.enable()
        except TfxlaError as error:
            # A wrong flag must stop the program: running on without the compiler would be silent.
            sys.stderr.write(f"tfxla_cluster: {error}\n")
            raise SystemExit(error.exit_code) from None


class TensorFlowWatch(MetaPathFinder):
    """Finds `tensorflow` through the other finders and wraps its loader; then leaves sys.meta_path."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """TensorFlow's own spec, with a loader that enables the package once TensorFlow is imported."""
        if fullname != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is None or spec.loader is None:
            return None
        spec.loader = _EnableAfter(spec.loader)
        return spec


def watch() -> None:
    """Install the watch (once); with tensorflow imported already there is nothing to wait for."""
    if "tensorflow" not in sys.modules and not any(isinstance(f, TensorFlowWatch) for f in sys.meta_path):
        sys.meta_path.insert(0, TensorFlowWatch())


watch()
