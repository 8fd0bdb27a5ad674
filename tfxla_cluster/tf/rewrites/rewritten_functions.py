"""Functions with ops rewritten so that compiled they give TensorFlow's values: random_ops, op_forms, produced_forms."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from ...tf2xla import function_tree
from ...tf2xla.function_def import library
from . import op_forms, produced_forms, random_ops
from .produced_taint import Taint
from .random_normal import NORMALS


def expanded(function: str) -> AbstractContextManager[str]:
    """The name of a registered function that, compiled, gives what TensorFlow's kernels give for `function`.

    As function_tree.rewritten, always a copy: it has no stack traces. Those of the original are under a mutex of
    theirs, and who reads one for the first time waits for the GIL, which lowering holds: where stock XLA compiles the
    same function on another thread, each would wait for the other for ever.
    """
    return function_tree.rewritten(function, partial(_rewrite, Taint(function, library)))


def _rewrite(taint: Taint, definition: Any) -> tuple[list[Any], Mapping[str, str]]:
    given = list(definition.node_def)
    given = produced_forms.expand(given, taint.readers(definition)) or given
    nodes = random_ops.expand(given, named=True, more=NORMALS)
    given = nodes if nodes is not None else given
    return op_forms.expand(given) or given, {} if nodes is None else random_ops.renamed(definition.node_def)
