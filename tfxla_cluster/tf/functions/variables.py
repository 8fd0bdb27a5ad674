"""Variables of a function: which it reads and writes, and a function that reads and assigns them around the op.

The native op sees tensors only. A function with variables becomes: ReadVariableOp of each -> TfxlaRun ->
AssignVariableOp of each written one. All reads come before the op, so a failure leaves no variable changed.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from ...tf2xla import function_calls, must_be_constant
from ...tf2xla.function_calls import Library
from ..native_op.op import Program
from . import origins, python_ints

RESOURCE = tf.resource.as_datatype_enum
# Ops that only look at a variable. Any other op that takes one is taken to write it.
READERS = frozenset({"ReadVariableOp", "VariableShape", "VarIsInitializedOp", "ResourceGather", "ResourceGatherNd"})
_FORWARDERS = frozenset({"Identity", "IdentityN"})
# Ops whose variable is a generator's state.
_GENERATOR_OPS = frozenset(
    {
        "RngReadAndSkip",
        "RngSkip",
        "StatefulUniform",
        "StatefulUniformInt",
        "StatefulUniformFullInt",
        "StatefulStandardNormalV2",
        "StatefulTruncatedNormal",
        "StatefulRandomBinomial",
    }
)
ARGUMENT, VARIABLE = "argument", "variable"
MAX_DEPTH = 50  # of calls looked into
_VALUE_ATTRS = ("dtype", "T")


@dataclass(frozen=True)
class Interface:
    """How a FunctionDef becomes an op on tensors.

    function: the FunctionDef's name. args: TF dtype number per argument (of a variable: of its value).
    resources: arguments that are variables. outputs: dtype number per function output that is no resource.
    updated: variables whose new value the op returns after the outputs. names: of the arguments, for messages.
    inputs: arguments the op takes, in order (of variables their values); all, unless some variable is never
    used. handles: function output that is a resource -> the argument it is. kinds: of the arguments in a word, where
    there is more to say than that a resource is a variable.
    """

    function: str
    args: tuple[int, ...]
    resources: frozenset[int]
    outputs: tuple[int, ...]
    updated: tuple[int, ...]
    names: tuple[str, ...] = ()
    inputs: tuple[int, ...] = None  # type: ignore[assignment]  # __post_init__ fills it from args
    handles: Mapping[int, int] = field(default_factory=dict)
    kinds: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.inputs is None:
            object.__setattr__(self, "inputs", tuple(range(len(self.args))))

    def name(self, arg: int) -> str:
        """The user's name of an argument, its number where it has none."""
        return self.names[arg] if arg < len(self.names) else str(arg)

    def is_integer(self, arg: int) -> bool:
        """It stands for a Python integer."""
        return bool(self.kinds) and self.kinds[arg] == python_ints.KIND

    def words(self, arg: int) -> str:
        """What an argument is: `variable 'dense/kernel'`."""
        kind = self.kinds[arg] if self.kinds else VARIABLE if arg in self.resources else ARGUMENT
        return f"{kind} '{self.name(arg)}'"

    @property
    def input_types(self) -> tuple[int, ...]:
        return tuple(self.args[i] for i in self.inputs)

    @property
    def output_types(self) -> tuple[int, ...]:
        return self.outputs + tuple(self.args[i] for i in self.updated)

    @property
    def is_pure(self) -> bool:
        """No argument and no output is a resource: the op alone is the function."""
        return not self.resources and not self.handles


@dataclass
class Use:
    """What a function does with a resource argument: the `dtype` number of its value if some op tells."""

    dtype: int = 0
    used: bool = False
    written: bool = False

    def merge(self, other: Use) -> None:
        """Take over what `other` knows or does."""
        self.dtype = self.dtype or other.dtype
        self.used, self.written = self.used or other.used, self.written or other.written


def interface(function: Any, library: Library, dtypes: Mapping[int, int] | None = None) -> Interface:
    """The interface of a FunctionDef. `library(name)` gives a called FunctionDef or None; `dtypes` the value
    types of resource arguments where known (from handles), by argument."""
    signature, library = function.signature, functools.cache(library)  # asked for the op of each node
    uses = resource_uses(function, library)
    known = dtypes or {}
    args = tuple(
        (known.get(i) or uses[i].dtype or tf.float32.as_datatype_enum) if a.type == RESOURCE else a.type
        for i, a in enumerate(signature.input_arg)
    )
    types = {i: known.get(i) or use.dtype for i, use in uses.items()}
    inputs = tuple(i for i in range(len(args)) if i not in uses or (uses[i].used and types[i]))
    integers = python_ints.of_definition(function)
    scope = _Scope(function, library)
    return Interface(
        function=signature.name,
        names=tuple(origins.told_apart([_user_name(function, i) for i in range(len(args))])),
        args=args,
        resources=frozenset(uses),
        kinds=tuple(
            python_ints.KIND if i in integers else VARIABLE if i in uses else ARGUMENT for i in range(len(args))
        ),
        inputs=inputs,
        outputs=tuple(o.type for o in signature.output_arg if o.type != RESOURCE),
        updated=tuple(i for i in sorted(uses) if uses[i].written and i in inputs),
        handles={
            k: found
            for k, o in enumerate(signature.output_arg)
            if o.type == RESOURCE
            for found in (scope.argument(function.ret[o.name]),)
            if found is not None
        },
    )


def _user_name(function: Any, arg: int) -> str:
    known = origins.of(function.signature.name).names
    if arg in known:
        return known[arg]
    attrs = function.arg_attr[arg].attr if arg in function.arg_attr else {}
    named = attrs["_user_specified_name"].s.decode() if "_user_specified_name" in attrs else ""
    return named if named not in ("", "resource") else function.signature.input_arg[arg].name


@dataclass
class _Scope:
    """A FunctionDef's references resolved to the resource arguments they are."""

    function: Any
    library: Library
    depth: int = 0
    handed: dict[tuple[str, int], int | None] = field(default_factory=dict)  # shared with the scopes of callees
    producers: dict[str, Any] = field(init=False)
    args: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.producers = {n.name: n for n in self.function.node_def}
        self.args = {a.name: i for i, a in enumerate(self.function.signature.input_arg) if a.type == RESOURCE}

    def argument(self, ref: str) -> int | None:
        """The resource argument that `ref` ("arg" or "node:output:port") is, through forwarding nodes."""
        seen = 0
        while ref not in self.args:
            node = self.producers.get(ref.split(":")[0])
            seen += 1
            if node is None or seen > MAX_DEPTH:
                return None
            position = self._forwarded(node, int(ref.rpartition(":")[2]) if ":" in ref else 0)
            if position is None:
                return None
            ref = node.input[position]
        return self.args[ref]

    def _forwarded(self, node: Any, port: int) -> int | None:
        """The input position that output `port` of a node hands on unchanged, if it does."""
        if node.op in _FORWARDERS or node.op in ("While", "StatelessWhile"):
            return port
        for callee in function_calls.passing(node, self.library):
            if self.depth < MAX_DEPTH and port < len(callee.signature.output_arg):
                key = callee.signature.name, port
                if key not in self.handed:
                    inner = _Scope(callee, self.library, self.depth + 1, self.handed)
                    self.handed[key] = inner.argument(callee.ret[callee.signature.output_arg[port].name])
                found = self.handed[key]
                if found is not None:
                    return found + (node.op in must_be_constant.SELECTOR_FIRST)
        return None


Known = dict[str, dict[int, Use]]


def resource_uses(function: Any, library: Library, depth: int = 0, known: Known | None = None) -> dict[int, Use]:
    """What the function and those it calls do with each of its resource arguments; `known`: of functions seen."""
    known = {} if known is None else known
    if function.signature.name not in known:
        known[function.signature.name] = _resource_uses(function, library, depth, known)
    return known[function.signature.name]


def _resource_uses(function: Any, library: Library, depth: int, known: Known) -> dict[int, Use]:
    scope = _Scope(function, library, depth)
    uses = {i: Use() for i in scope.args.values()}
    for node in function.node_def:
        if node.op in _FORWARDERS or not uses:
            continue
        for position, ref in enumerate(node.input):
            arg = None if ref.startswith("^") else scope.argument(ref)
            if arg is not None:
                uses[arg].merge(_use(node, position, library, depth, known))
    return uses


def _use(node: Any, position: int, library: Library, depth: int, known: Known) -> Use:
    """What one node does with the variable it takes at `position`."""
    callees = function_calls.passing(node, library)
    if callees and depth < MAX_DEPTH:
        total = Use()
        for callee in callees:
            inner = resource_uses(callee, library, depth + 1, known)
            total.merge(inner.get(position - (node.op in must_be_constant.SELECTOR_FIRST), Use()))
        return total
    if node.op in _GENERATOR_OPS:
        return Use(tf.int64.as_datatype_enum, True, True)
    found = [node.attr[name].type for name in _VALUE_ATTRS if name in node.attr]
    return Use(found[0] if found else 0, True, node.op not in READERS)


def wrap(function: Any, iface: Interface, program: Program, name: str, device: str = "") -> Any:
    """The FunctionDef `name`, called as `function` is: reads, op (on `device`), assignments.

    Reads and assignments are not placed: TensorFlow puts them where the variables are.
    """
    new = type(function)()
    new.signature.CopyFrom(function.signature)
    new.signature.name, new.signature.is_stateful = name, True
    for i, attrs in function.arg_attr.items():
        new.arg_attr[i].CopyFrom(attrs)
    args = [a.name for a in function.signature.input_arg]
    taken = {*args}
    op = free_name("tfxla", taken)
    refs = read_inputs(new, iface, args, taken)
    new.node_def.append(program.node(op, refs))
    new.node_def[-1].device = device
    results = program.watcher.add_to(new, op, refs) if program.watcher else f"{op}:results"
    finals = [results.partition(":")[0]]
    for k, i in enumerate(iface.updated, len(iface.outputs)):
        assign = _node(
            new, free_name(f"assign_{args[i]}", taken), "AssignVariableOp", [args[i], f"{results}:{k}"], iface.args[i]
        )
        finals.append(assign.name)
    _returns(new, function, iface, args, results)
    del new.signature.control_output[:]
    new.signature.control_output.extend(finals)
    for final in finals:
        new.control_ret[final] = final
    return new


def read_inputs(new: Any, iface: Interface, args: list[str], taken: set[str]) -> list[str]:
    """References of the op's inputs in the FunctionDef `new`: its arguments, and reads (added) of variables."""
    refs = []
    for i in iface.inputs:
        if i in iface.resources:
            read = _node(new, free_name(f"read_{args[i]}", taken), "ReadVariableOp", [args[i]], iface.args[i])
            refs.append(f"{read.name}:value:0")
        else:
            refs.append(args[i])
    return refs


def _returns(new: Any, function: Any, iface: Interface, args: list[str], results: str) -> None:
    numbers = iter(range(len(iface.outputs)))
    for k, out in enumerate(function.signature.output_arg):
        new.ret[out.name] = args[iface.handles[k]] if k in iface.handles else f"{results}:{next(numbers)}"


def free_name(name: str, taken: set[str]) -> str:
    """`name`, made different from those taken; it is then taken too."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _node(function: Any, name: str, op: str, inputs: list[str], dtype: int) -> Any:
    node = function.node_def.add(name=name, op=op, input=inputs)
    node.attr["dtype"].type = dtype
    return node
