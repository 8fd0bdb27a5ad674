"""Functions with ops rewritten so that compiled they give TensorFlow's values (random_ops, op_forms, produced_forms),
fail where its kernels do (data_checks), and so that the bridge is done with them soon (repeated_ops)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing
from functools import partial
from typing import Any, TypeVar

from ...errors import LoweringError
from ...tf2xla import function_tree
from ...tf2xla.function_def import library
from ...tf2xla.repeated_ops import Repeated
from . import data_checks, op_forms, produced_forms, random_ops
from .produced_taint import Taint
from .random_normal import NORMALS

T = TypeVar("T")


def lowered(function: str, lower: Callable[[str], T], checks: bool) -> T:
    """What `lower` makes of the name of a registered function that, compiled, gives what TensorFlow's kernels give for
    `function`, and with `checks` fails where they do. LoweringErrors are those without ops that are lowered once: the
    bridge may have to look into one."""
    with closing(Repeated(function, library)) as repeated:
        try:
            with expanded(function, repeated, checks) as name:
                return lower(name)
        except LoweringError:
            if not repeated:
                raise
    with expanded(function, None, checks) as name:
        return lower(name)


def expanded(function: str, repeated: Repeated | None = None, checks: bool = False) -> AbstractContextManager[str]:
    """The name of such a function.

    As function_tree.rewritten, always a copy: it has no stack traces. Those of the original are under a mutex of
    theirs, and who reads one for the first time waits for the GIL, which lowering holds: where stock XLA compiles the
    same function on another thread, each would wait for the other for ever.
    """
    return function_tree.rewritten(function, partial(_rewrite, Taint(function, library), repeated, checks))


def _rewrite(
    taint: Taint, repeated: Repeated | None, checks: bool, definition: Any
) -> tuple[list[Any], Mapping[str, str]]:
    given = list(definition.node_def)
    readers = taint.readers(definition)
    given = (data_checks.expand(given) if checks else None) or given
    given = produced_forms.expand(given, readers) or given
    nodes = random_ops.expand(given, named=True, more=NORMALS)
    given = nodes if nodes is not None else given
    names = {} if nodes is None else random_ops.renamed(definition.node_def)
    given, others = op_forms.expand(given) or (given, {})
    if repeated is not None:  # in calls sizes that the run produces would be their bounds
        given = repeated.rewritten(definition, given, readers) or given
    return given, names | others
