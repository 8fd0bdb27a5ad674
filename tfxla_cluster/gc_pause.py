"""Python's garbage collector, paused while many nodes are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """No collection inside: modules have no cycles, and walking thousands of new nodes again and again
    costs half the time of reading or simplifying them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
