"""Install and remove the hooks of must-compile functions (H and F); thread safe, at any time."""
from __future__ import annotations

from . import nested
from .fast_path import FAST_PATH
from .must_compile import HOOK


def install() -> None:
    """Route must-compile functions to native code from now on, those traced earlier too."""
    HOOK.install()
    FAST_PATH.install()


def remove() -> None:
    """Put TensorFlow's methods back and free what was compiled; calls under way finish."""
    FAST_PATH.remove()
    HOOK.remove()
    nested.forget()


def installed() -> bool:
    return HOOK.everything
