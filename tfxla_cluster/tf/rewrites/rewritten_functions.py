"""Functions with ops rewritten so that compiled they give TensorFlow's values (random_ops, op_forms)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from ...tf2xla import function_tree
from . import op_forms, random_ops
from .random_normal import NORMALS


def expanded(function: str) -> AbstractContextManager[str]:
    """The name of a registered function that, compiled, gives what TensorFlow's kernels give for `function`.

    As function_tree.rewritten.
    """
    return function_tree.rewritten(function, _rewrite)


def _rewrite(definition: Any) -> tuple[list[Any], Mapping[str, str]] | None:
    nodes = random_ops.expand(definition.node_def, named=True, more=NORMALS)
    nodes = op_forms.expand(nodes if nodes is not None else definition.node_def) or nodes
    return None if nodes is None else (nodes, random_ops.renamed(definition.node_def))
