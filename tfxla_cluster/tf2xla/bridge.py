"""TensorFlow's own tf2xla bridge as a function: a registered FunctionDef at given sizes -> HloModuleProto.

No op is lowered by us: coverage is TensorFlow's. Arguments whose values the bridge needs are found by
`constants` and become Const nodes of a copy; variables are stood for by dummies of equal shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context

from ..errors import LoweringError, NoConstantError
from . import (
    few_boxes,
    function_tree,
    list_checks,
    must_be_constant,
    passed_values,
    pool_maxima,
    prefix_sums,
    refusal,
    repeated_calls,
    tensor_lists,
    whole_windows,
    wire,
)
from . import known_values as known
from .function_def import library as library
from .function_def import register, remove, specialise

DEVICE = "CPU:0"
_STAGE = "hlo_serialized"
# An argument that may turn out to be a shape: small and integral (a retry makes all of them constants).
SMALL = 64
_NOT_LOWERED = (tf.string.as_datatype_enum, tf.variant.as_datatype_enum)


@dataclass(frozen=True)
class Arg:
    """One FunctionDef argument: TF `dtype` number and `dims`; of a variable, those of its value and
    `is_resource`. `value()` gives the value where lowering has to know it (None: it cannot be had)."""

    dtype: int
    dims: tuple[int, ...]
    is_resource: bool = False
    value: Callable[[], np.ndarray] | None = None

    def known(self) -> np.ndarray:
        assert self.value is not None, self
        return np.asarray(self.value())


@dataclass(frozen=True)
class Lowered:
    """A lowered function.

    proto: HloModuleProto bytes; name: the module's name. parameters: which argument the k-th HLO parameter
    is. constants: arguments baked in, with the bytes of their values. outputs: which function output the
    k-th HLO result is (outputs that are resources are no results). updates: (argument, HLO result) of each
    variable whose new value is a result.
    """

    proto: bytes
    name: str
    parameters: tuple[int, ...]
    constants: dict[int, bytes]
    outputs: tuple[int, ...]
    updates: tuple[tuple[int, int], ...]


def known_values(args: Sequence[Arg]) -> list[known.Value]:
    """What is known of arguments before the function runs."""
    return [known.Variable(arg.dtype, arg.dims) if arg.is_resource else known.Tensor(arg.dims) for arg in args]


def function_def(name: str | bytes) -> Any:
    """The FunctionDef registered in the eager context; LoweringError when there is none."""
    found = library(name if isinstance(name, str) else name.decode())
    if found is None:
        raise LoweringError(f"function {name!r} is not registered in the eager context")
    return found


def lower(function: str | bytes, args: Sequence[Arg]) -> Lowered:
    """Lower a registered function at the sizes of `args` (one per FunctionDef argument, in order).

    Executes nothing and leaves random state alone; holds the GIL (0.1 ms an HLO instruction). May be called
    in a kernel's compute function. Raises LoweringError with op, node and reason where the bridge refuses.
    """
    name = function if isinstance(function, str) else function.decode()
    try:
        return _lower_with_lists(name, args)
    except LoweringError as error:
        if passed_values.refused(error):
            rewriting = passed_values.forwarded()
        elif few_boxes.refused(error, name):
            rewriting = few_boxes.padded()
        else:
            raise
    with function_tree.rewritten(name, rewriting) as copy:
        return _lower_with_lists(copy, args)


def _lower_with_lists(name: str, args: Sequence[Arg]) -> Lowered:
    """As `lower`, with the writes into tensor lists sliced that it refuses."""
    writes: dict[str, tensor_lists.Write] = {}
    while True:
        try:
            if not writes:
                return _lower_function(name, args)
            with function_tree.rewritten(name, tensor_lists.sliced(writes)) as copy:
                return _lower_function(copy, args)
        except LoweringError as error:
            refused = tensor_lists.refused(error)
            if refused is None or refused.node in writes:
                raise
            if not tensor_lists.is_right(refused, list_checks.writes(name, known_values(args), library)):
                raise
            writes[refused.node] = refused


def _lower_function(name: str, args: Sequence[Arg]) -> Lowered:
    definition = function_def(name)
    expected = len(definition.signature.input_arg)
    if len(args) != expected:  # the bridge would end the process
        raise LoweringError(f"{definition.signature.name} takes {expected} arguments, {len(args)} were given")
    _check_dtypes(definition, args)
    needed = [i for i in sorted(must_be_constant.constant_args(definition, library)) if args[i].value is not None]
    try:
        return _lower(definition, args, needed)
    except NoConstantError:
        wider = sorted({*needed, *(i for i, a in enumerate(args) if _may_be_shape(a))})
        if wider == needed:
            raise
        return _lower(definition, args, wider)


def _check_dtypes(definition: Any, args: Sequence[Arg]) -> None:
    for arg, declared in zip(args, definition.signature.input_arg):
        if arg.dtype in _NOT_LOWERED:
            kind = tf.dtypes.as_dtype(arg.dtype).name
            raise LoweringError(
                f"argument '{declared.name}' of {definition.signature.name} has dtype {kind}, which cannot be compiled",
                "Keep it outside the compiled function",
                op="_Arg",
                node=declared.name,
            )


def _may_be_shape(arg: Arg) -> bool:
    kind = tf.dtypes.as_dtype(arg.dtype)
    return arg.value is not None and (kind.is_integer or kind.is_bool) and int(np.prod(arg.dims)) <= SMALL


def _lower(definition: Any, args: Sequence[Arg], needed: Sequence[int]) -> Lowered:
    values = {i: args[i].known() for i in needed}
    flat = [i for i, a in enumerate(args) if not a.is_resource and i not in values]
    resources = [i for i, a in enumerate(args) if a.is_resource]
    order = flat + resources
    specs = [tf.TensorSpec(args[i].dims, tf.dtypes.as_dtype(args[i].dtype)) for i in flat]
    kinds = {i: args[i].dtype for i in resources}
    with _registered(definition, values, order, kinds) as name, context.eager_mode():
        handles = [_dummy(args[i]) for i in resources]
        proto = _call_bridge(name, definition, specs, handles)
    module, pairs = wire.aliases(proto)
    written = pool_maxima.over_numbers(repeated_calls.written_out(proto))
    outputs = tuple(i for i, o in enumerate(definition.signature.output_arg) if o.type != tf.resource.as_datatype_enum)
    return Lowered(
        proto=whole_windows.in_single_steps(prefix_sums.in_windows(written)),
        name=module,
        parameters=tuple(order),
        outputs=outputs,
        constants={i: v.tobytes() for i, v in values.items()},
        updates=tuple((order[parameter], result) for result, parameter in pairs),
    )


@contextmanager
def _registered(
    definition: Any, values: dict[int, np.ndarray], order: Sequence[int], kinds: dict[int, int]
) -> Iterator[str]:
    """The name of the function to lower: the original where its arguments already fit (its nodes keep
    their stack traces), else a copy that lives as long as the block."""
    if not values and list(order) == sorted(order):
        yield definition.signature.name
        return
    copy = specialise(definition, values, order, kinds)
    register(copy)
    try:
        yield copy.signature.name
    finally:
        remove(copy.signature.name)


def _call_bridge(name: str, definition: Any, specs: Sequence[tf.TensorSpec], handles: Sequence[Any]) -> bytes:
    ctx = context.context()
    ctx.ensure_initialized()
    try:
        # device_name: without it TensorFlow draws from the eager generator.
        return ctx.get_compiler_ir(DEVICE, None, name.encode(), list(specs), list(handles), _STAGE)
    except (ValueError, RuntimeError, tf.errors.OpError) as error:
        raise refusal.explain(str(error), name, definition) from error


def _dummy(arg: Arg) -> Any:
    """The handle of a variable of the same type and shape, with undefined content; it dies with the handle."""
    kind = tf.dtypes.as_dtype(arg.dtype)
    with tf.device(DEVICE):
        handle = tf.raw_ops.VarHandleOp(dtype=kind, shape=arg.dims, shared_name=context.anonymous_name())
        tf.raw_ops.AssignVariableOp(resource=handle, value=_empty(arg.dims, kind))
    return handle


def _empty(dims: tuple[int, ...], kind: tf.DType) -> tf.Tensor:
    """A tensor of undefined content; of types that TensorFlow makes none of, one of zeros."""
    try:
        return tf.raw_ops.Empty(shape=tf.constant(dims, tf.int32), dtype=kind, init=False)
    except (tf.errors.InvalidArgumentError, tf.errors.NotFoundError):
        return tf.constant(np.zeros(dims, kind.as_numpy_dtype), kind)
