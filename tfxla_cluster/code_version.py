"""What tells one state of this package's own sources from another, for keys of what is kept between processes."""

from __future__ import annotations

import functools
import hashlib
import os


@functools.cache
def code_version() -> str:
    """A digest of the sources, the same wherever they are installed: a development tree changes without its version
    changing, and what one machine keeps another of its kind may load."""
    root, digest = os.path.dirname(__file__), hashlib.sha256()
    names = [os.path.join(folder, name) for folder, _, files in os.walk(root) for name in files if name.endswith(".py")]
    for path in sorted(names):
        with open(path, "rb") as file:
            data = file.read()
        digest.update(f"{path[len(root) + 1 :]} {len(data)} ".encode())
        digest.update(data)
    return digest.hexdigest()[:16]
