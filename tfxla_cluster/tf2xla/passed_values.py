"""Values that loops and called functions only hand on, taken from where they come from.

TensorFlow's bridge makes copies of the functions of loops and branches with constants in the place of the arguments
that do not change, and puts these constants in the place of the loop's outputs too. A loop or branch that takes such an
output is made anew; where its own functions were copied before, the bridge looks for the copies in the wrong
library: `Cannot find body function ..._const_0`. With nobody who takes these outputs, nothing is made anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from ..errors import LoweringError
from .function_calls import CALLS, LOOPS
from .function_tree import Rewriting

_REFUSED = re.compile(r"Cannot find (body )?function \S+_const_\d+ for ")
_IDENTITIES = ("Identity", "IdentityN")
_RESOURCE = tf.resource.as_datatype_enum

Passed = Mapping[int, int]
"""Output of a function -> the argument that it is."""


def refused(error: LoweringError) -> bool:
    """The bridge did not find a copy that it had made."""
    return _REFUSED.search(str(error.__cause__)) is not None


def forwarded() -> Rewriting:
    """The rewriting after which no node takes a value from a loop or call that only hands it on.

    It has to see called functions before their callers, as function_tree does it.
    """
    passed: dict[str, Passed] = {}

    def rewrite(definition: Any) -> tuple[list[Any], Mapping[str, str]] | None:
        origins = {output: source for node in definition.node_def for output, source in _origins(node, passed)}
        passed[definition.signature.name] = _passed(definition, origins)
        identities = {node.name for node in definition.node_def if node.op in _IDENTITIES}
        names = {text: _origin(text, origins) for text in origins if text.partition(":")[0] not in identities}
        nodes = [_renamed(node, names) for node in definition.node_def]
        return (nodes, names) if names else None

    return rewrite


def _origins(node: Any, passed: Mapping[str, Passed]) -> Iterator[tuple[str, str]]:
    """(output, input) of a node for those of its outputs that are one of its inputs."""
    data = [text for text in node.input if not text.startswith("^")]
    for output, source in _handed_on(node, len(data), passed).items():
        yield f"{node.name}:output:{output}", data[source]


def _handed_on(node: Any, inputs: int, passed: Mapping[str, Passed]) -> Passed:
    """Output -> the input that it is; no handles of loops and calls: the order of reads and writes may hang on them."""
    if node.op in _IDENTITIES:
        return {k: k for k in range(inputs)}
    if node.op in LOOPS:
        body, kinds = passed.get(node.attr["body"].func.name, {}), node.attr["T"].list.type
        return {k: k for k in range(inputs) if body.get(k) == k and kinds[k] != _RESOURCE}
    if node.op in CALLS:
        callee, kinds = passed.get(node.attr["f"].func.name, {}), node.attr["Tin"].list.type
        return {k: arg for k, arg in callee.items() if kinds[arg] != _RESOURCE}
    return {}


def _passed(definition: Any, origins: Mapping[str, str]) -> Passed:
    args = {arg.name: k for k, arg in enumerate(definition.signature.input_arg)}
    results = (_origin(definition.ret[out.name], origins) for out in definition.signature.output_arg)
    return {k: args[source] for k, source in enumerate(results) if source in args}


def _origin(text: str, origins: Mapping[str, str]) -> str:
    while text in origins:
        text = origins[text]
    return text


def _renamed(node: Any, names: Mapping[str, str]) -> Any:
    if not any(text in names for text in node.input):
        return node
    copy = type(node)()
    copy.CopyFrom(node)
    for k, text in enumerate(node.input):
        copy.input[k] = names.get(text, text)
    return copy
