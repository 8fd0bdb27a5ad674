"""May this op, with these dtypes, be compiled? A Decision for each node, with the rule that said no.

The positive side is TensorFlow's own kernel registry (device XLA_CPU_JIT: the ops its bridge lowers). The rules
below take away from it: TensorFlow's for automatic clustering, and ours where a compiled op would give another
answer than the op itself. Must-compile functions ask for the registry and the callees only (`auto=False`).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field

from tensorflow.core.framework import function_pb2, types_pb2
from tensorflow.python.eager import context
from tensorflow.python.framework import dtypes, errors_impl, kernels, op_def_registry

from ...decision import YES, Decision, no
from ...tf2xla import function_calls
from .. import devices
from ..graph import list_groups
from ..graph import view as graphs
from ..graph.op_groups import GROUPS
from ..graph.view import NodeDef, attr
from ..rewrites import random_ops
from ..rewrites.whole_loops import CONTROL_OPS

JIT_DEVICE = "XLA_CPU_JIT"
MAX_CALL_DEPTH = 50

VARIABLE_READS = frozenset({"ReadVariableOp"})
VARIABLE_WRITES = frozenset({"AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"})
EFFECTS = frozenset({"Assert", "CheckNumerics"})


def _rule(rule: str, reason: str, ops: str) -> dict[str, Decision]:
    return {op: no(rule, reason) for op in ops.split()}


EXCLUDED: dict[str, Decision] = {
    **_rule("argument", "an argument or result of the graph", "_Arg _Retval _DeviceArg _DeviceRetval Placeholder"),
    **_rule(
        "control_flow",
        "routes values of lowered control flow, which stays TensorFlow's",
        " ".join(sorted(graphs.CONTROL_FLOW)) + " ControlTrigger",
    ),
    **_rule(
        "variable",
        "variables are read before and written after a cluster, by TensorFlow",
        " ".join(sorted(VARIABLE_READS | VARIABLE_WRITES)) + " VarHandleOp VariableV2 VariableShape VarIsInitializedOp",
    ),
    **_rule(
        "variable_update",
        "updates a variable in place, which TensorFlow does without a copy",
        "ResourceGather ResourceGatherNd ResourceScatterAdd ResourceScatterSub ResourceScatterMul "
        "ResourceScatterDiv ResourceScatterMax ResourceScatterMin ResourceScatterUpdate ResourceScatterNdAdd "
        "ResourceScatterNdSub ResourceScatterNdUpdate ResourceStridedSliceAssign ResourceApplyAdaMax "
        "ResourceApplyAdadelta ResourceApplyAdagrad ResourceApplyAdagradDA ResourceApplyAdagradV2 "
        "ResourceApplyAdam ResourceApplyAddSign ResourceApplyCenteredRMSProp ResourceApplyFtrl "
        "ResourceApplyFtrlV2 ResourceApplyGradientDescent ResourceApplyKerasMomentum ResourceApplyMomentum "
        "ResourceApplyPowerSign ResourceApplyProximalAdagrad ResourceApplyProximalGradientDescent "
        "ResourceApplyRMSProp",
    ),
    **_rule(
        "effect",
        "raises for the user: its condition is computed in the cluster, it runs after it",
        " ".join(sorted(EFFECTS)),
    ),
    **_rule(
        "stateful_random",
        "stateful random op: compiled, its values would differ and repeat",
        "RandomUniform RandomUniformInt RandomShuffle RandomStandardNormal TruncatedNormal Multinomial "
        "ParameterizedTruncatedNormal",
    ),
    **_rule(
        "generator_state",
        "advances a generator's state, which its kernel does under a lock",
        "RngReadAndSkip RngSkip StatefulUniform StatefulUniformInt StatefulUniformFullInt "
        "StatefulStandardNormalV2 StatefulTruncatedNormal",
    ),
    **_rule(
        "random_values",
        "compiled, this counter-based random op would give other values than TensorFlow's",
        "StatelessRandomUniform StatelessRandomNormal StatelessTruncatedNormal StatelessRandomUniformInt "
        "StatelessRandomUniformFullInt StatelessMultinomial StatelessParameterizedTruncatedNormal "
        "StatelessRandomUniformV2 StatelessRandomNormalV2 StatelessTruncatedNormalV2 "
        "StatelessRandomGetKeyCounter StatelessRandomGetKeyCounterAlg StatelessRandomGetAlg "
        "StochasticCastToInt",
    ),
    **_rule(
        "data_dependent_size",
        "the size of its result depends on values: later ops could see padding",
        "Where Unique UniqueV2 ListDiff DynamicPartition NonMaxSuppressionV3 NonMaxSuppressionV4",
    ),
    **_rule("stack", "Stack op", "StackV2 StackPushV2 StackPopV2 StackCloseV2"),
    **_rule(
        "tensor_array",
        "TensorArray op",
        "TensorArrayV3 TensorArrayGradV3 TensorArrayReadV3 TensorArrayWriteV3 TensorArrayGatherV3 "
        "TensorArrayScatterV3 TensorArrayConcatV3 TensorArraySplitV3 TensorArraySizeV3 TensorArrayCloseV3",
    ),
    **_rule("accuracy", "operation with numerical accuracy issues", "SelfAdjointEigV2 Svd"),
    **_rule("slow", "slow operation when compiled", "Qr MatrixInverse MatrixSolve ResizeBilinearGrad"),
    **_rule(
        "library",
        "TensorFlow's own FFT is as fast on CPUs, and faster on GPUs",
        "FFT FFT2D FFT3D IFFT IFFT2D IFFT3D RFFT RFFT2D RFFT3D IRFFT IRFFT2D IRFFT3D",
    ),
    **_rule(
        "collective",
        "a collective runs in TensorFlow's runtime",
        "CollectiveReduceV2 CollectiveAssignGroupV2 XlaAllReduce XlaReduceScatter XlaSend XlaRecv XlaReplicaId",
    ),
}
"""Op -> why automatic clustering leaves it alone though the bridge could lower it (or nothing could)."""

NOT_ON_GPUS: dict[str, Decision] = _rule(
    "slow_on_gpus", "the library that TensorFlow calls on GPUs is faster", "Cholesky MatrixTriangularSolve"
)
"""The same of nodes on GPUs."""

LISTS_LEAVE = no("variant", "a list of tensors that it makes or takes cannot lie in one cluster whole")
GROWING_LIST = no("growing_list", "a list of tensors grows, and compiled it keeps its size")
UNSAFE_LIST = no("unsafe_list", "a list of tensors has no bound, or an index into it is data, which is not checked")

MUST_COMPILE_TOO = frozenset({"control_flow", "stack"})
"""Rules of EXCLUDED that hold in a must-compile function as well; the others only for automatic clustering."""

_DTYPE_RULES: dict[int, Decision] = {
    types_pb2.DT_STRING: no("string", "strings are not compiled"),
    types_pb2.DT_RESOURCE: no("resource", "takes or returns a resource"),
}


@functools.cache
def _runtime_started() -> bool:
    """XLA's kernels are registered by the first eager op of a process."""
    context.context().ensure_initialized()
    with context.eager_mode():
        from tensorflow.python.ops import array_ops

        array_ops.zeros([])
    return True


@functools.cache
def registrations(op: str) -> tuple[dict[str, frozenset[int]], ...]:
    """The kernels of an op for XLA's CPU device, each as attribute -> allowed dtypes."""
    _runtime_started()
    return tuple(
        {c.name: frozenset(c.allowed_values.list.type) for c in kernel.constraint}
        for kernel in kernels.get_registered_kernels_for_op(op).kernel
        if kernel.device_type == JIT_DEVICE
    )


@functools.cache
def _constrained(op: str) -> tuple[str, ...]:
    return tuple(sorted({name for kernel in registrations(op) for name in kernel}))


@functools.cache
def _default_types(op: str) -> Mapping[str, int]:
    definition = op_def_registry.get(op)
    return {a.name: a.default_value.type for a in definition.attr} if definition else {}


def _attr_types(node: NodeDef, name: str) -> tuple[int, ...]:
    if name not in node.attr:
        return (_default_types(node.op).get(name, 0),)
    value = node.attr[name]
    return tuple(value.list.type) if value.WhichOneof("value") == "list" else (value.type,)


def kernel(node: NodeDef) -> Decision:
    """Has XLA's bridge a kernel for this op with these dtypes?"""
    return _kernel(node.op, tuple(_attr_types(node, name) for name in _constrained(node.op)))


@functools.cache
def _kernel(op: str, types: tuple[tuple[int, ...], ...]) -> Decision:
    found = registrations(op)
    if not found:
        return no("no_kernel", f"no compiled form of {op} exists")
    given = dict(zip(_constrained(op), types))
    for candidate in found:
        if all(set(given[name]) <= allowed for name, allowed in candidate.items()):
            return YES
    shown = ", ".join(f"{name}={'/'.join(_dtype_name(t) for t in kinds)}" for name, kinds in given.items())
    return no("dtype", f"no compiled form of {op} for {shown}")


def _dtype_name(value: int) -> str:
    try:
        return dtypes.as_dtype(value).name
    except TypeError:
        return str(value)


def resolve_ops(text: str) -> frozenset[str] | None:
    """The ops of a comma-separated list of groups and op names; None for '' (no restriction).

    Raises InvalidArgumentError (TensorFlow's wording) for a name that XLA has no op for.
    """
    names = [word.strip() for word in text.split(",") if word.strip()]
    if not names:
        return None
    chosen: set[str] = set()
    for name in names:
        if name not in GROUPS and not (op_def_registry.get(name) is not None and registrations(name)):
            raise errors_impl.InvalidArgumentError(
                None, None, f"The operation '{name}' passed to --tf_xla_ops_to_cluster is not supported by XLA."
            )
        chosen |= GROUPS.get(name, {name})
    return frozenset(chosen)


@dataclass
class Checker:
    """Decides for the nodes of one graph. `functions`: the library its nodes call into.

    `auto`: automatic clustering (all rules), else must-compile. `only` and `excluded`: the flags
    --tf_xla_ops_to_cluster (None: any op) and --tf_xla_cluster_exclude_ops.
    """

    functions: Mapping[str, function_pb2.FunctionDef]
    auto: bool = True
    only: frozenset[str] | None = None
    excluded: frozenset[str] = frozenset()
    _callees: dict[str, Decision] = field(default_factory=dict)

    def node(self, node: NodeDef) -> Decision:
        """May this node be compiled?"""
        decision = self._by_name(node, called=False)
        if self.auto and devices.place_of(node.device).target != devices.HOST:
            decision = decision and _on_accelerator(node)
        return decision and devices.decide(node.device) and self._by_type(node) and self._by_callees(node, 0)

    def _by_name(self, node: NodeDef, called: bool) -> Decision:
        if attr(node, "_XlaCompile") is False and self.auto:
            return no("xla_compile_false", "the program marks it _XlaCompile=false")
        rule = EXCLUDED.get(node.op)
        if rule is not None and (self.auto or rule.rule in MUST_COMPILE_TOO):
            if called and rule.rule.startswith("variable"):
                return no("resource_in_function", "resource variable op in called function")
            return rule
        if self.auto and node.op == "TensorListSetItem" and attr(node, "resize_if_index_out_of_bounds"):
            return GROWING_LIST
        if self.auto and node.op in random_ops.INTEGER_OPS and random_ops.PHILOX_ATTR not in node.attr:
            return no("random_values", "its algorithm is not known to be the one that gives TensorFlow's values")
        if node.op in self.excluded:
            return no("excluded_by_flag", f"{node.op} is listed in --tf_xla_cluster_exclude_ops")
        if self.only is not None and node.op not in self.only and attr(node, "_XlaCompile") is not True:
            return no("not_in_ops_to_cluster", f"{node.op} is not listed in --tf_xla_ops_to_cluster")
        return YES

    def _by_type(self, node: NodeDef) -> Decision:
        if self.auto and node.op != "Const":
            for dtype in graphs.data_types(node):
                if dtype in _DTYPE_RULES:
                    return _DTYPE_RULES[dtype]
                if dtype > 100:
                    return no("reference", "takes a reference to a variable")
        elif node.op == "Const" and attr(node, "dtype") == types_pb2.DT_STRING:
            return _DTYPE_RULES[types_pb2.DT_STRING]
        if node.op in self.functions:
            return YES
        return kernel(node)

    def _by_callees(self, node: NodeDef, depth: int) -> Decision:
        if not node.attr:
            return YES
        for name in function_calls.in_attributes(node):
            inner = self.function(name, depth + 1)
            if not inner:
                return no(inner.rule, f"it calls {name}: {inner.reason}")
        return self.function(node.op, depth + 1) if node.op in self.functions else YES

    def function(self, name: str, depth: int = 0) -> Decision:
        """May every node of a library function be compiled (recursively, at most 50 deep)?"""
        if depth > MAX_CALL_DEPTH:
            return no("call_depth", f"calls nest deeper than {MAX_CALL_DEPTH}")
        if name not in self._callees:
            self._callees[name] = no("recursive", f"{name} calls itself")
            self._callees[name] = self._function(name, depth)
        return self._callees[name]

    def _function(self, name: str, depth: int) -> Decision:
        fdef = self.functions.get(name)
        if fdef is None:
            return no("missing_function", f"the library lacks {name}")
        nodes = {node.name: node for node in fdef.node_def}
        for node in fdef.node_def:
            decision = self._by_name(node, called=True)
            if self.auto and decision and list_groups.is_unsafe(node, nodes):
                decision = UNSAFE_LIST
            if decision or decision.rule == "argument":
                # Without a device of its own it runs where the call does.
                placed = devices.decide(node.device) if node.device else YES
                decision = placed and self._by_type(node) and self._by_callees(node, depth)
            if not decision:
                return no(decision.rule, f"node {node.name} ({node.op}): {decision.reason}")
        return YES


def _on_accelerator(node: NodeDef) -> Decision:
    """What automatic clustering leaves alone on an accelerator only."""
    if node.op in CONTROL_OPS:
        return no("whole_loop", "loops and branches on an accelerator are taken apart, and their bodies clustered")
    if types_pb2.DT_VARIANT in graphs.data_types(node):
        return no("variant", "lists of tensors on an accelerator stay TensorFlow's")
    return NOT_ON_GPUS.get(node.op, YES)
