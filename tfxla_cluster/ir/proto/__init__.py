"""HloModuleProto and HloProto bytes, read and written without TensorFlow and without generated code."""

from __future__ import annotations

from .reader import read
from .writer import write

__all__ = ["read", "write"]
