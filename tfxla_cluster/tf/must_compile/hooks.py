"""Install and remove the hooks of must-compile functions (H and F); thread safe, at any time."""

from __future__ import annotations

from . import nested
from .fast_path import FAST_PATH
from .hook import HOOK


def install() -> None:
    """Route must-compile functions to native code from now on, those traced earlier too."""
    HOOK.install()
    nested.forget_removed()
    FAST_PATH.install()


def remove() -> None:
    """Put TensorFlow's methods back and free what was compiled for direct calls; calls under way finish.

    What graphs name stays until TensorFlow removes its function: a graph may be on its way to execution.
    """
    FAST_PATH.remove()
    HOOK.remove()


def installed() -> bool:
    return HOOK.everything
