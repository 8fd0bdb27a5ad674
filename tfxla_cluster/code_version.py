"""What tells one state of this package's own sources from another, for keys of what is kept between processes."""

from __future__ import annotations

import functools
import hashlib
import os


@functools.cache
def code_version() -> str:
    """A digest of the sources (size and time of each): a development tree changes without its version changing."""
    root = os.path.dirname(__file__)
    rows = [
        (os.path.relpath(e.path, root), e.stat().st_size, e.stat().st_mtime_ns)
        for folder, _, _ in os.walk(root)
        for e in os.scandir(folder)
        if e.name.endswith(".py")
    ]
    return hashlib.sha256(repr(sorted(rows)).encode()).hexdigest()[:16]
