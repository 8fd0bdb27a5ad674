"""Which arrays of a function may have sizes that a run produces: all that is computed from what makes such sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...tf2xla import function_calls
from ..graph.view import NodeDef

SIZED_BY_DATA = frozenset(
    [
        *("Where", "Unique", "UniqueV2", "ListDiff", "DynamicPartition"),
        *("NonMaxSuppressionV3", "NonMaxSuppressionV4", "NonMaxSuppressionV5"),
    ]
)
"""TensorFlow's ops whose result is as long as the data say."""
MAKERS = SIZED_BY_DATA | {"XlaSetDynamicDimensionSize"}


class Taint:
    """Of the functions that `root` calls, as they are registered; nothing where none of them makes such a size."""

    def __init__(self, root: str, library: Callable[[str], Any]) -> None:
        self._library = library
        self._arguments: dict[str, bool] = {}  # of which functions arguments may be of such sizes
        self._making: set[str] = set()
        definitions = {d.signature.name: d for d in function_calls.reachable([root], library)}
        direct = {name for name, d in definitions.items() if any(node.op in MAKERS for node in d.node_def)}
        if direct:
            self._making = self._callers(definitions, direct)
            self._hand_on(definitions, root)

    def readers(self, definition: Any) -> frozenset[str]:
        """Names of a function's nodes that may read an array of such a size."""
        name = definition.signature.name
        if name not in self._making and not self._arguments.get(name):
            return frozenset()
        return self._readers(definition, self._arguments.get(name, False))

    def _callers(self, definitions: Mapping[str, Any], making: set[str]) -> set[str]:
        """Functions that make such sizes, by what they call too."""
        found = set(making)
        while True:
            more = {
                name for name, d in definitions.items() if any(self._calls(node, found) for node in d.node_def)
            } - found
            if not more:
                return found
            found |= more

    def _calls(self, node: NodeDef, functions: set[str]) -> bool:
        return any(name in functions for name in function_calls.called(node, self._library))

    def _hand_on(self, definitions: Mapping[str, Any], root: str) -> None:
        waiting = [(root, False)]
        for name, given in waiting:  # grows while it is walked
            if self._arguments.get(name, False) or (name in self._arguments and not given):
                continue
            self._arguments[name] = given
            definition = definitions[name]
            readers = self._readers(definition, given)
            for node in definition.node_def:
                callees = function_calls.called(node, self._library)
                waiting += [(callee, node.name in readers) for callee in callees if callee in definitions]

    def _readers(self, definition: Any, given: bool) -> frozenset[str]:
        users: dict[str, list[str]] = {}
        for node in definition.node_def:
            for text in node.input:
                if not text.startswith("^"):
                    users.setdefault(text.partition(":")[0], []).append(node.name)
        making = [node.name for node in definition.node_def if node.op in MAKERS or self._calls(node, self._making)]
        waiting = [*making, *((arg.name for arg in definition.signature.input_arg) if given else ())]
        found: set[str] = set()
        while waiting:
            for user in users.get(waiting.pop(), ()):
                if user not in found:
                    found.add(user)
                    waiting.append(user)
        return frozenset(found)
