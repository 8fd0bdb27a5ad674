"""Functions rewritten whole: a function and all that it calls, as copies that live as long as they are needed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ..errors import LoweringError
from . import sources
from .function_calls import called, functions
from .function_def import fresh_name, library, register, remove

Rewriting = Callable[[Any], "tuple[list[Any], Mapping[str, str]] | None"]
"""FunctionDef -> its new NodeDefs and the outputs of nodes whose names changed (old -> new); None: it stays."""


@contextmanager
def rewritten(function: str, rewriting: Rewriting) -> Iterator[str]:
    """The name of a registered function like `function` with `rewriting` done in it and in those it calls.

    It is `function` itself where nothing changes, else a copy that lives as long as the block. A LoweringError raised
    in the block names the functions that were copied, and the user's line of the node there.
    """
    tree = _Tree(rewriting)
    try:
        yield tree.copy(function)
    except LoweringError as error:
        raise tree.renamed(error, function) from error.__cause__
    finally:
        for old, new in tree.made.items():
            if new != old:
                remove(new)


class _Tree:
    def __init__(self, rewriting: Rewriting) -> None:
        self.rewriting = rewriting
        self.made: dict[str, str] = {}

    def copy(self, name: str) -> str:
        """The new name of a function (its own where it stays); `made` holds those of all seen.

        Callees first, without recursion: functions may nest deeper than Python's stack.
        """
        stack = list(self._opened(name))
        while stack:
            definition, names, rest = stack[-1]
            fresh = next((opened for c in rest if c not in self.made for opened in self._opened(c)), None)
            if fresh is None:
                self._finish(definition, names)
                stack.pop()
            else:
                stack.append(fresh)
        return self.made[name]

    def _opened(self, name: str) -> Iterator[tuple[Any, list[str], Iterator[str]]]:
        """The FunctionDef of that name, if there is one, what it calls, and what of that is still to be seen.

        The function stays unless `_finish` changes it (one that calls itself stays)."""
        self.made[name] = name
        definition = library(name)
        if definition is not None:
            known = functools.cache(library)  # asked for the op of each node, of which there are few
            names = [callee for node in definition.node_def for callee in called(node, known)]
            yield definition, names, iter(names)

    def _finish(self, definition: Any, names: Sequence[str]) -> None:
        """The function's copy, if something in it or in what it calls (`names`) changes."""
        copies = {callee: self.made[callee] for callee in names}
        changed = self.rewriting(definition)
        if changed is not None or any(old != new for old, new in copies.items()):
            made = _copy(definition, changed, copies)
            register(made)
            self.made[definition.signature.name] = made.signature.name

    def renamed(self, error: LoweringError, root: str) -> LoweringError:
        """The error with the functions' own names in it; copies have no stack traces, so lines are found by `root`."""
        message = error.message
        for old, new in self.made.items():
            message = message.replace(new, old)
        where = error.where or sources.line_of(root, error.node)
        return type(error)(message, error.remedy, where, error.op, error.node)


def _copy(definition: Any, changed: tuple[list[Any], Mapping[str, str]] | None, called: Mapping[str, str]) -> Any:
    copy = type(definition)()
    copy.CopyFrom(definition)
    copy.signature.name = fresh_name(definition.signature.name)
    if changed is not None:
        nodes, names = changed
        del copy.node_def[:]
        copy.node_def.extend(nodes)
        for key, source in list(copy.ret.items()):
            copy.ret[key] = names.get(source, source)
    for node in copy.node_def:
        node.op = called.get(node.op, node.op)
        for value in node.attr.values():
            for function in functions(value):
                function.name = called.get(function.name, function.name)
    return copy
