"""What functions that TensorFlow traced are called: the user's name, what all traces of one share, and our marks."""

from __future__ import annotations

import re

JIT_PREFIX = "tfxla_jit_"
"""In the names of functions that `jit` makes: they run natively without `enable()` too."""
STATIC_MARK = "dynamic_false__"
"""In the name of a function whose sizes each have an executable of their own."""
DYNAMIC_MARK = "dynamic_true__"
"""In the name of one whose first executable is for all sizes."""


def family_of(function: str) -> str:
    """The name that all traces of a function of the program share: TensorFlow numbers them, forwards and backwards."""
    return re.sub(r"(_\d+)+_?$", "", function)


def user_name(function: str) -> str:
    """What the user called a traced function."""
    name = family_of(function).removeprefix("__inference_").removeprefix(JIT_PREFIX)
    return name.removeprefix(STATIC_MARK).removeprefix(DYNAMIC_MARK)


def dynamic_of(name: str) -> bool | None:
    """What `jit` was told about the sizes of the function of this name."""
    return False if STATIC_MARK in name else True if DYNAMIC_MARK in name else None
