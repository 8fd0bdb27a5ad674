"""HloModuleProto and HloProto bytes, read and written without TensorFlow and without generated code."""

from __future__ import annotations

from .reader import decode, parameter_shapes, read, read_listed
from .writer import write

__all__ = ["decode", "parameter_shapes", "read", "read_listed", "write"]
