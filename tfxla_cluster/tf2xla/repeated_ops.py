"""Ops that TensorFlow's bridge takes milliseconds for, lowered once for all nodes that are alike.

Most ops take the bridge 0.1 to 0.3 ms a node. Those of `SLOW` have no form of their own in it: each node becomes a
module of MLIR, which passes made for whole models lower, in 6 to 10 ms. A function that may not be inlined is lowered
once for all its calls with arguments of the same types and shapes, so that

    a = Tanh(x)                    a = once(x, label)            def once(x, label): return Tanh(x)
    b = Mul(a, a)            -->   b = Mul(a, a)
    c = Tanh(b)                    c = once(b, label_1)

and in the module the calls are written out again (`repeated_calls`), each under the name of its node: the bridge gives
calls none, so that an argument tells it, which nothing reads. The module computes what it does without.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import function_pb2
from tensorflow.python.framework import op_def_registry

from . import function_calls, must_be_constant
from .function_calls import Library
from .function_def import fresh_name, register, remove

MARK = "tfxla_once"
"""In the names of functions that are lowered once, the target of the calls that stand for labels."""
LABEL = "/tfxla_label"
"""Behind the name of a node in that of its label."""
_SLOW = """
    Abs Acos Acosh Asin Asinh Atan Atanh AvgPool3D Betainc BiasAddGrad Ceil ComplexAbs Cos Cosh Digamma Einsum Erfc Exp
    Expm1 FakeQuantWithMinMaxArgs FFT FFT2D FFT3D Floor FusedBatchNorm FusedBatchNormGrad FusedBatchNormGradV2
    FusedBatchNormGradV3 FusedBatchNormV2 FusedBatchNormV3 IFFT IFFT2D IFFT3D Igamma Igammac Imag IsFinite IsInf IsNan
    Lgamma Log1p LogSoftmax MatrixBandPart MatrixDiagPartV3 MaxPool3DGrad Polygamma Real Reciprocal Relu Relu6 ReluGrad
    Rsqrt Select Sigmoid Sign Sinh Softmax Sqrt Tanh Zeta
"""
SLOW = frozenset(_SLOW.split())
"""Ops that take it a millisecond and more a node: `python -m tests.tf2xla.op_costs`."""
_OURS = "/tfxla_"  # in the names of nodes made of another, behind that one's


class Repeated:
    """The functions that stand for the nodes of a function and of those it calls; registered until `close`.

    Nodes that are alike no other stay, what constants are computed from that the bridge has to know (it does not look
    for them in calls), and what has constant inputs alone, which it computes itself.
    """

    def __init__(self, root: str, library: Library) -> None:
        definitions = list(function_calls.reachable([root], library))
        self._made: dict[bytes, str] = {}
        self._alike = _alike(definitions)
        self._left = _left(definitions, library) if self._alike else {}

    def __bool__(self) -> bool:
        """Something is lowered once."""
        return bool(self._made)

    def rewritten(self, definition: Any, nodes: Sequence[Any], excluded: Container[str]) -> list[Any] | None:
        """`nodes`, made of those of a FunctionDef, with calls of what is lowered once; None where there is none.

        `excluded`: names of nodes of the FunctionDef that stay.
        """
        left = self._left.get(definition.signature.name)
        if left is None:
            return None
        result: list[Any] = []
        for node in nodes:
            name = node.name.partition(_OURS)[0]
            key = _key(node) if node.op in SLOW and name not in left and name not in excluded else None
            result += self._call(node, key) if key in self._alike and key is not None else [node]
        return result if len(result) > len(nodes) else None

    def close(self) -> None:
        """Take the functions out of the eager context."""
        for name in self._made.values():
            remove(name)
        self._made.clear()

    def _call(self, node: Any, key: bytes) -> list[Any]:
        """The node's label and the call; its results keep their names."""
        name = self._made.get(key)
        if name is None:
            body = _body(node)
            if body is None:
                return [node]
            register(body)
            name = self._made[key] = body.signature.name
        label = tf.compat.v1.NodeDef(name=f"{node.name}{LABEL}", op="XlaCustomCall", device=node.device)
        label.attr["target_name"].s, label.attr["backend_config"].s = MARK.encode(), b""
        label.attr["dtype"].type = tf.int32.as_datatype_enum
        label.attr["shape"].shape.SetInParent()
        label.attr["T"].list.SetInParent()
        data, control = _inputs(node)
        call = tf.compat.v1.NodeDef(name=node.name, op=name, device=node.device)
        call.input.extend([*data, f"{label.name}:output:0", *control])
        for made in (label, call):
            made.experimental_debug_info.CopyFrom(node.experimental_debug_info)
        return [label, call]


def _inputs(node: Any) -> tuple[list[str], list[str]]:
    """Data and control inputs."""
    control = [text for text in node.input if text.startswith("^")]
    return list(node.input)[: len(node.input) - len(control)], control


def _alike(definitions: Sequence[Any]) -> frozenset[bytes]:
    """The keys of which there are several nodes; one in a called function counts as several, for calls, loops and
    branches may lower it several times."""
    counts: Counter[bytes] = Counter()
    for number, definition in enumerate(definitions):
        for node in definition.node_def:
            if node.op in SLOW:
                counts[_key(node)] += 2 if number else 1
    return frozenset(key for key, count in counts.items() if count > 1)


def _key(node: Any) -> bytes:
    """What nodes of equal bodies share: the op and its attributes."""
    attrs = sorted(name for name in node.attr if not name.startswith("_"))
    parts = [node.op.encode(), *(p for a in attrs for p in (a.encode(), _bytes(node.attr[a])))]
    return b"".join(len(part).to_bytes(4, "little") + part for part in parts)


def _bytes(message: Any) -> bytes:
    return bytes(message.SerializeToString(deterministic=True))


def _left(definitions: Sequence[Any], library: Library) -> dict[str, frozenset[str]]:
    """Name of a function -> its nodes that stay; no functions whose results the bridge may have to know."""
    feeding = must_be_constant.feeding(definitions, library)
    read: list[str] = []
    found = {}
    for definition in definitions:
        name = definition.signature.name
        found[name] = feeding[name] | _known(definition)
        read += [f for node in definition.node_def if node.name in feeding[name] for f in _called(node, library)]
    for definition in function_calls.reachable(read, library):
        found.pop(definition.signature.name, None)
    return found


def _called(node: Any, library: Library) -> list[str]:
    return function_calls.called(node, library) if node.op not in SLOW else []


def _known(definition: Any) -> frozenset[str]:
    """Names of the nodes whose values follow from constants and sizes."""
    users: dict[str, list[Any]] = {}
    missing = {}
    for node in definition.node_def:
        data = [] if node.op in must_be_constant.METADATA_OPS else _inputs(node)[0]
        missing[node.name] = len(data)
        for text in data:
            users.setdefault(text.partition(":")[0], []).append(node)
    waiting = [n.name for n in definition.node_def if n.op == "Const" or n.op in must_be_constant.METADATA_OPS]
    found = set(waiting)
    while waiting:
        for user in users.get(waiting.pop(), ()):
            missing[user.name] -= 1
            if not missing[user.name]:
                found.add(user.name)
                waiting.append(user.name)
    return frozenset(found)


def _body(node: Any) -> Any:
    """The FunctionDef that computes such a node from its inputs and a label; None where its types are not told."""
    op_def = op_def_registry.get(node.op)
    types, results = _types(node, op_def.input_arg), _types(node, op_def.output_arg)
    if types is None or results is None or len(results) != len(op_def.output_arg):
        return None
    body = function_pb2.FunctionDef()
    body.signature.name = fresh_name(f"{MARK}_{node.op}")
    body.attr["_noinline"].b = True
    copy = body.node_def.add(name=node.op, op=node.op)
    for number, kind in enumerate(types):
        body.signature.input_arg.add(name=f"x{number}", type=kind)
        copy.input.append(f"x{number}")
    body.signature.input_arg.add(name="label", type=tf.int32.as_datatype_enum)
    for name in node.attr:
        if not name.startswith("_"):
            copy.attr[name].CopyFrom(node.attr[name])
    for arg, kind in zip(op_def.output_arg, results):
        body.signature.output_arg.add(name=arg.name, type=kind)
        body.ret[arg.name] = f"{node.op}:{arg.name}:0"
    return body


def _types(node: Any, args: Iterable[Any]) -> list[int] | None:
    """The types of the tensors that a node takes or gives; None where it leaves out attributes that tell."""
    found: list[int] = []
    for arg in args:
        needed = [name for name in (arg.type_attr, arg.number_attr) if name]
        if arg.type_list_attr or not all(name in node.attr for name in needed):
            return None
        count = node.attr[arg.number_attr].i if arg.number_attr else 1
        found += [node.attr[arg.type_attr].type if arg.type_attr else arg.type] * count
    return found
