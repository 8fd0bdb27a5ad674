"""Counter-based random ops in forms whose compiled values are TensorFlow's own.

Compiled, `StatelessRandomGetKeyCounter` and the float ops give other numbers than TensorFlow's kernels, the integer
ops with the Philox algorithm the same. So the others are written with these:

    key, counter = get_key_counter(seed)   -->  Philox bits of the seed, as the kernel scrambles it
    uniform(shape, key, counter, auto)     -->  bitcast(bits & mantissa | exponent of one) - 1
    normal(shape, key, counter, auto)      -->  in `random_normal`, where all of it is compiled

`alg` 3 (auto select) is Philox on every device TensorFlow has a kernel for. Graphs and FunctionDefs alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from tensorflow.core.framework import graph_pb2, types_pb2
from tensorflow.python.framework import tensor_util

from .. import devices
from ..graph.view import NodeDef, attr

PHILOX, AUTO_SELECT = 1, 3
PHILOX_ATTR = "_tfxla_philox"
"""Marks a random op whose algorithm is known to be Philox."""

INTEGER_OPS = frozenset({"StatelessRandomUniformFullIntV2", "StatelessRandomUniformIntV2"})
_UNIFORM, _KEY_COUNTER, _GET_ALG = "StatelessRandomUniformV2", "StatelessRandomGetKeyCounter", "StatelessRandomGetAlg"
_SCRAMBLE_KEY = 0x02461E293EC8F720  # as tensorflow/core/kernels/stateless_random_ops.cc

_F32, _F64, _F16, _BF16 = types_pb2.DT_FLOAT, types_pb2.DT_DOUBLE, types_pb2.DT_HALF, types_pb2.DT_BFLOAT16
_U16, _U32, _U64 = types_pb2.DT_UINT16, types_pb2.DT_UINT32, types_pb2.DT_UINT64
_ARGUMENTS = frozenset({_KEY_COUNTER, _GET_ALG, _UNIFORM}) | INTEGER_OPS


@dataclass
class Builder:
    """Adds nodes beside one original node. `named`: inputs in FunctionDef style (`node:output:index`). `moved`: outputs
    but the first that another node has now."""

    original: NodeDef
    named: bool
    nodes: list[NodeDef]
    moved: dict[str, str] = field(default_factory=dict)

    def add(self, suffix: str, op: str, inputs: Iterable[str], out: str = "z", **types: int | list[int]) -> str:
        """A node `original/tfxla_SUFFIX` (or, for suffix '', the original's name); the name of its first output."""
        name = f"{self.original.name}/tfxla_{suffix}" if suffix else self.original.name
        node = NodeDef(name=name, op=op, device=self.original.device, input=list(inputs))
        node.input.extend(text for text in self.original.input if text.startswith("^"))
        for key, value in types.items():
            if isinstance(value, bool):
                node.attr[key].b = value
            elif isinstance(value, list):
                node.attr[key].list.type.extend(value)
            elif key == "N":
                node.attr[key].i = value
            else:
                node.attr[key].type = value
        node.experimental_debug_info.original_node_names.append(self.original.name)
        self.nodes.append(node)
        return f"{name}:{out}:0" if self.named else name

    def constant(self, suffix: str, value: np.ndarray | np.generic) -> str:
        """A Const node; the name of its output."""
        text = self.add(suffix, "Const", [], "output")
        tensor = tensor_util.make_tensor_proto(value)
        self.nodes[-1].attr["dtype"].type = tensor.dtype
        self.nodes[-1].attr["value"].tensor.CopyFrom(tensor)
        return text

    def bits(self, suffix: str, shape: str, key: str, counter: str, dtype: int, shape_type: int) -> str:
        """Philox integers: the one random op that is compiled."""
        alg = self.constant(f"{suffix}_alg", np.int32(PHILOX))
        text = self.add(
            suffix,
            "StatelessRandomUniformFullIntV2",
            [shape, key, counter, alg],
            "output",
            dtype=dtype,
            Tshape=shape_type,
        )
        self.nodes[-1].attr[PHILOX_ATTR].b = True
        return text


Rewriting = Callable[[Builder], None]


def expand(
    nodes: Iterable[NodeDef], named: bool, more: Mapping[tuple[str, int], Rewriting] | None = None
) -> list[NodeDef] | None:
    """The nodes with random ops rewritten as above; None where there is none to rewrite.

    The rewritten nodes keep their names; outputs are renamed where `named` (FunctionDefs): see `renamed`.
    `more`: how float ops of other names and dtypes are rewritten too.
    """
    found = list(nodes)
    floats = {**_UNIFORMS, **(more or {})}
    if not any(node.op in _ARGUMENTS or (node.op, attr(node, "dtype")) in floats for node in found):
        return None
    chosen = algorithms(found)
    result: list[NodeDef] = []
    for node in found:
        builder = Builder(node, named, [])
        # A FunctionDef is compiled whole, wherever its nodes ask to be.
        rewritten = (named or devices.decide(node.device)) and _rewrite(builder, chosen, floats)
        result.extend(builder.nodes if rewritten else [node])
    names = renamed(found) if named else {}
    return [with_inputs(node, names) for node in result] if names else result


def renamed(nodes: Iterable[NodeDef]) -> dict[str, str]:
    """Outputs of a FunctionDef's nodes whose names change: old -> new."""
    names: dict[str, str] = {}
    for node in nodes:
        if node.op == _KEY_COUNTER:
            names.update(
                {f"{node.name}:key:0": f"{node.name}:output:0", f"{node.name}:counter:0": f"{node.name}:output:1"}
            )
        elif node.op == _GET_ALG:
            names[f"{node.name}:alg:0"] = f"{node.name}:output:0"
    return names


def with_inputs(node: NodeDef, renamed: Mapping[str, str]) -> NodeDef:
    """The node, or a copy of it that reads the new names."""
    if any(text in renamed for text in node.input):
        copy = NodeDef()
        copy.CopyFrom(node)
        copy.input[:] = [renamed.get(text, text) for text in node.input]
        return copy
    return node


def algorithms(nodes: Iterable[NodeDef]) -> dict[str, int]:
    """Name of a node -> the algorithm number it gives, for constants and the op that asks for the device's."""
    found: dict[str, int] = {}
    for node in nodes:
        if node.op == _GET_ALG:
            found[node.name] = AUTO_SELECT
        elif node.op == "Const" and attr(node, "dtype") == types_pb2.DT_INT32:
            value = tensor_util.MakeNdarray(node.attr["value"].tensor)
            if value.ndim == 0:
                found[node.name] = int(value)
    return found


def is_philox(node: NodeDef, algorithms: Mapping[str, int]) -> bool:
    """Of a random op."""
    name = node.input[3].partition(":")[0]
    return algorithms.get(name) in (PHILOX, AUTO_SELECT)


def _rewrite(b: Builder, algorithms: Mapping[str, int], floats: Mapping[tuple[str, int], Rewriting]) -> bool:
    """Fill the builder with what stands for its node; False to leave the node as it is."""
    node = b.original
    if node.op == _KEY_COUNTER:
        _key_counter(b)
    elif node.op == _GET_ALG:
        b.constant("", np.int32(PHILOX))
    elif node.op in INTEGER_OPS and PHILOX_ATTR not in node.attr and is_philox(node, algorithms):
        copy = NodeDef()
        copy.CopyFrom(node)
        b.nodes.append(copy)
        copy.input[3] = b.constant("alg", np.int32(PHILOX))
        copy.attr[PHILOX_ATTR].b = True
    elif (node.op, attr(node, "dtype")) in floats and is_philox(node, algorithms):
        floats[node.op, attr(node, "dtype")](b)
    else:
        return False
    return True


def _key_counter(b: Builder) -> None:
    key = b.constant("key", np.array([_SCRAMBLE_KEY], np.uint64))
    counter = b.add(
        "counter",
        "Cast",
        [b.original.input[0]],
        "y",
        SrcT=attr(b.original, "Tseed", types_pb2.DT_INT64),
        DstT=_U64,
        Truncate=False,
    )
    four = b.constant("four", np.array([4], np.int32))
    mix = b.bits("mix", four, key, counter, _U32, types_pb2.DT_INT32)
    pairs = b.add(
        "pairs",
        "Reshape",
        [mix, b.constant("pair_shape", np.array([2, 2], np.int32))],
        "output",
        T=_U32,
        Tshape=types_pb2.DT_INT32,
    )
    words = b.add("words", "Bitcast", [pairs], "output", T=_U32, type=_U64)
    first = _slice(b, "first", words, [0])
    second = _slice(b, "second", words, [1])
    zero = b.constant("zero", np.array([0], np.uint64))
    axis = b.constant("axis", np.int32(0))
    counters = b.add("counters", "ConcatV2", [zero, second, axis], "output", N=2, T=_U64, Tidx=types_pb2.DT_INT32)
    b.add("", "IdentityN", [first, counters], "output", T=[_U64, _U64])


def _slice(b: Builder, suffix: str, words: str, begin: list[int]) -> str:
    start = b.constant(f"{suffix}_begin", np.array(begin, np.int32))
    size = b.constant(f"{suffix}_size", np.array([1], np.int32))
    return b.add(suffix, "Slice", [words, start, size], "output", T=_U64, Index=types_pb2.DT_INT32)


def _random_bits(b: Builder, dtype: int) -> str:
    shape, key, counter = b.original.input[:3]
    return b.bits("bits", shape, key, counter, dtype, attr(b.original, "Tshape", types_pb2.DT_INT32))


def _result(b: Builder, value: str, dtype: int) -> None:
    """`value` under the name of the original node."""
    b.add("", "Identity", [value], "output", T=dtype)


def _one_to_two(
    b: Builder, mantissa: str, exponent: np.generic, bits: int, dtype: int, one: np.ndarray | np.generic
) -> str:
    """mantissa | exponent is a float in [1, 2); minus one."""
    whole = b.add("whole", "BitwiseOr", [mantissa, b.constant("exponent", exponent)], T=bits)
    number = b.add("number", "Bitcast", [whole], "output", T=bits, type=dtype)
    return b.add("unit", "Sub", [number, b.constant("one", one)], T=dtype)


def unit_f32(b: Builder, bits: str) -> str:
    """u32 bits -> [0, 1)."""
    mantissa = b.add("mantissa", "BitwiseAnd", [bits, b.constant("mask", np.uint32(0x7FFFFF))], T=_U32)
    return _one_to_two(b, mantissa, np.uint32(127 << 23), _U32, _F32, np.float32(1))


def unit_f64(b: Builder, bits: str) -> str:
    """u64 bits -> [0, 1). The kernel takes the high part of the mantissa from the first word, here the low half."""
    high = b.add("masked", "BitwiseAnd", [bits, b.constant("mask", np.uint64(0xFFFFF))], T=_U64)
    shift = b.constant("shift", np.uint64(32))
    high = b.add("high", "LeftShift", [high, shift], T=_U64)
    low = b.add("low", "RightShift", [bits, shift], T=_U64)
    mantissa = b.add("mantissa", "BitwiseOr", [high, low], T=_U64)
    return _one_to_two(b, mantissa, np.uint64(1023 << 52), _U64, _F64, np.float64(1))


def _uniform_f32(b: Builder) -> None:
    _result(b, unit_f32(b, _random_bits(b, _U32)), _F32)


def _uniform_f64(b: Builder) -> None:
    _result(b, unit_f64(b, _random_bits(b, _U64)), _F64)


def _uniform_bf16(b: Builder) -> None:
    import ml_dtypes  # comes with TensorFlow

    bits = b.add("narrow", "Cast", [_random_bits(b, _U32)], "y", SrcT=_U32, DstT=_U16, Truncate=False)
    mantissa = b.add("mantissa", "BitwiseAnd", [bits, b.constant("mask", np.uint16(0x7F))], T=_U16)
    _result(b, _one_to_two(b, mantissa, np.uint16(127 << 7), _U16, _BF16, np.array(1, ml_dtypes.bfloat16)), _BF16)


def _uniform_f16(b: Builder) -> None:
    bits = b.add("narrow", "Cast", [_random_bits(b, _U32)], "y", SrcT=_U32, DstT=_U16, Truncate=False)
    mantissa = b.add("mantissa", "BitwiseAnd", [bits, b.constant("mask", np.uint16(0x3FF))], T=_U16)
    _result(b, _one_to_two(b, mantissa, np.uint16(15 << 10), _U16, _F16, np.float16(1)), _F16)


_UNIFORMS: dict[tuple[str, int], Rewriting] = {
    (_UNIFORM, _F32): _uniform_f32,
    (_UNIFORM, _F64): _uniform_f64,
    (_UNIFORM, _BF16): _uniform_bf16,
    (_UNIFORM, _F16): _uniform_f16,
}


def expand_graph(graph_def: graph_pb2.GraphDef) -> graph_pb2.GraphDef:
    """A GraphDef with its random ops rewritten; the same object where there is none."""
    nodes = expand(graph_def.node, named=False)
    if nodes is None:
        return graph_def
    result = graph_pb2.GraphDef()
    result.library.CopyFrom(graph_def.library)
    result.versions.CopyFrom(graph_def.versions)
    result.node.extend(nodes)
    return result
