"""HloModuleProto and HloProto bytes, read and written without TensorFlow and without generated code."""

from __future__ import annotations

from .reader import decode, parameter_shapes, read, read_listed
from .snapshot import Snapshot, read_snapshot
from .writer import write

__all__ = ["Snapshot", "decode", "parameter_shapes", "read", "read_listed", "read_snapshot", "write"]
