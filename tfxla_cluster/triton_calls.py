"""`triton_call`: a user's own Triton kernel as an op, called eagerly or in a tf.function."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops
from tensorflow.python.eager import record

from . import api, user_kernels
from .errors import UserKernelError
from .kernel_source import TritonKernel, literal, triton_kernel
from .user_kernels import KernelCall, KernelSource

Grid = int | Sequence[int]
_MOST = (2**31 - 1, 65535, 65535)  # blocks of a CUDA grid along each axis
_CACHED = 1000  # functions of calls that were made eagerly
# Python and NumPy scalars among the arguments -> the type that the kernel sees.
_NUMBERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")
_SCALARS: dict[type, str] = {np.dtype(name).type: f"tl.{name}" for name in _NUMBERS}
_SCALARS |= {np.bool_: "tl.int1", bool: "tl.int1", float: "tl.float32"}
_WORDS = {"bool": "int1", "float8_e4m3fn": "float8e4nv", "float8_e5m2": "float8e5"}  # Triton's own of dtypes
_INT32 = range(-(2**31), 2**31)
_POWERS = {"num_warps": (1, 2, 4, 8, 16, 32), "num_ctas": (1, 2, 4, 8, 16)}  # a block has 1024 threads, a cluster 16


def triton_call(
    kernel: TritonKernel | Callable[..., Any] | str,
    *args: Any,
    out_shape: Any,
    grid: Grid | Callable[[Mapping[str, Any]], Grid],
    num_warps: int = 4,
    num_stages: int = 3,
    num_ctas: int = 1,
    enable_fp_fusion: bool = True,
    input_output_aliases: Mapping[int, int] | None = None,
    **constexprs: Any,
) -> Any:
    """What a Triton kernel writes: tensors of `out_shape`, in its structure (tf.TensorSpec, or whatever has a shape
    and a dtype). Compiled always: alone where it is called eagerly, with the rest of a must-compile function.

    kernel: a function marked `triton_kernel` (or one that could be), or "FILE.py:FUNCTION".
    args: tensors and NumPy arrays, which it gets as pointers, and Python or NumPy numbers, as scalars (int: 32 bits
    where it fits, float: 32). Its parameters are the args, then a pointer to each output, then `constexprs` by name.
    grid: programs along one to three axes, or a function from the constexprs to that.
    input_output_aliases: number among the args -> number of the output that is one buffer with it; the kernel's
    parameters stay, both point there, and the caller's tensor keeps its value.

    Raises tf.errors.InvalidArgumentError for arguments that do not fit, at the call, and for a kernel that Triton
    rejects, at the execution, with Triton's message and the line of the kernel. It has no gradient: give one by
    tf.custom_gradient.
    """
    try:
        source = triton_kernel(kernel).source
        outputs = [_output(source, spec) for spec in tf.nest.flatten(out_shape)]
        numbers = [n for n, arg in enumerate(args) if _scalar(arg) is None]
        tensors = [_tensor(source, n, args[n]) for n in numbers]
        _check_options(source, num_warps=num_warps, num_stages=num_stages, num_ctas=num_ctas)
        call = KernelCall(
            user_kernels.register(source),
            source.function,
            _bound(source, args, len(outputs), constexprs),
            _constexprs(source, constexprs),
            _programs(source, grid, constexprs),
            num_warps,
            num_stages,
            num_ctas,
            bool(enable_fp_fusion),
            _aliases(source, numbers, tensors, outputs, input_output_aliases or {}),
        )
        _check_known(source, outputs)
    except UserKernelError as error:
        raise tf.errors.InvalidArgumentError(None, None, str(error)) from None
    run = _function(call.to_json(), tuple((tuple(o.shape), o.dtype) for o in outputs), source.function)
    results = run(*tensors)
    return tf.nest.pack_sequence_as(out_shape, results)


# --- what is launched -------------------------------------------------------------------------


def _output(source: KernelSource, spec: Any) -> tf.TensorSpec:
    try:
        return tf.TensorSpec(spec.shape, spec.dtype)
    except (AttributeError, TypeError, ValueError):
        raise _misfit(
            source,
            f"is asked for the output {spec!r}. out_shape is tf.TensorSpec(shape, dtype), or a structure of those",
        ) from None


def _tensor(source: KernelSource, number: int, arg: Any) -> tf.Tensor:
    if isinstance(arg, tf.RaggedTensor | tf.SparseTensor):
        raise _misfit(source, f"is given a {type(arg).__name__} as argument {number}: pass the tensors it is made of")
    try:
        return tf.convert_to_tensor(arg)
    except (TypeError, ValueError) as error:
        raise _misfit(source, f"is given no tensor as argument {number}: {error}") from None


def _check_options(source: KernelSource, **options: Any) -> None:
    for name, value in options.items():
        known = _POWERS.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or (value not in known if known else value < 1):
            wanted = f"one of {', '.join(map(str, known))}" if known else "an integer from 1"
            raise _misfit(source, f"is given {name}={value!r}, which has to be {wanted}")


def _bound(source: KernelSource, args: Sequence[Any], outputs: int, constexprs: Mapping[str, Any]) -> dict[str, str]:
    """Parameter -> what it is given, as KernelCall has it."""
    unknown = [name for name in constexprs if name not in source.parameters]
    if unknown:
        raise _misfit(source, f"has no parameter '{unknown[0]}'")
    free = [name for name in source.parameters if name not in constexprs]
    given = len(args) + outputs
    if given > len(free) or not source.optional.issuperset(free[given:]):
        wanted = [name for name in free if name not in source.optional]
        raise _misfit(
            source,
            f"takes {', '.join(wanted) or 'nothing'}; it was given {len(args)} arguments and {outputs} outputs, "
            "in this order. Constexprs are given by name",
        )
    texts, pointers = [], 0
    for arg in args:
        scalar = _scalar(arg)
        texts.append(f"in {pointers}" if scalar is None else scalar)
        pointers += scalar is None
    return dict(zip(free, [*texts, *(f"out {n}" for n in range(outputs))]))


def _scalar(arg: Any) -> str | None:
    """The Triton text of a Python or NumPy number; None for what is a tensor."""
    kind = type(arg)
    if kind is int:
        return f"tl.full([], {arg}, tl.{'int32' if arg in _INT32 else 'int64'})"
    if kind not in _SCALARS:
        return None
    text = literal(float(arg) if _SCALARS[kind].startswith("tl.float") else int(arg))
    return f"tl.full([], {text}, {_SCALARS[kind]})"


def _constexprs(source: KernelSource, constexprs: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in constexprs.items():
        text = f"tl.{_WORDS.get(value.name, value.name)}" if isinstance(value, tf.DType) else literal(value)
        if text is None:
            raise _misfit(source, f"is given a {type(value).__name__} as the constexpr '{name}'")
        found[name] = text
    return found


def _programs(source: KernelSource, grid: Any, constexprs: Mapping[str, Any]) -> tuple[int, int, int]:
    try:
        found = grid(constexprs) if callable(grid) else grid
    except KeyError as error:
        raise _misfit(source, f"has a grid function that asks for {error}, which is no constexpr of the call") from None
    axes = tuple(found) if isinstance(found, Sequence) else (found,)
    if not 1 <= len(axes) <= 3 or not all(isinstance(n, int | np.integer) and n >= 0 for n in axes):
        raise _misfit(source, f"is given the grid {found}, not one to three numbers of programs")
    x, y, z = (*map(int, axes), 1, 1)[:3]
    if x > _MOST[0] or y > _MOST[1] or z > _MOST[2]:
        raise _misfit(source, f"is given the grid {found}: at most {_MOST} programs start")
    return x, y, z


def _aliases(
    source: KernelSource,
    numbers: Sequence[int],
    tensors: Sequence[tf.Tensor],
    outputs: Sequence[tf.TensorSpec],
    aliases: Mapping[int, int],
) -> tuple[tuple[int, int], ...]:
    """(operand, result) pairs: `numbers` says which args are operands."""
    found: list[tuple[int, int]] = []
    if not isinstance(aliases, Mapping):
        raise _misfit(source, f"is given input_output_aliases={aliases!r}, not a mapping from arguments to outputs")
    for arg, output in sorted(aliases.items(), key=str):
        if arg not in numbers or output not in range(len(outputs)):
            raise _misfit(source, f"has no tensor {arg} or no output {output} to be one buffer")
        operand, spec = tensors[numbers.index(arg)], outputs[output]
        if operand.dtype != spec.dtype or not operand.shape.is_compatible_with(spec.shape):
            raise _misfit(source, f"cannot write output {output}, {spec}, over argument {arg}, {operand.shape}")
        if output in (taken for _, taken in found):
            raise _misfit(source, f"has two arguments that are to be one buffer with output {output}")
        found.append((numbers.index(arg), output))
    return tuple(found)


def _check_known(source: KernelSource, outputs: Sequence[tf.TensorSpec]) -> None:
    for spec in outputs:
        if not spec.shape.is_fully_defined():
            raise _misfit(
                source,
                f"is asked for an output of shape {spec.shape}, whose size is not known while tracing: leave the "
                "sizes of the function's arguments to TensorFlow (no None in its input_signature)",
            )


def _misfit(source: KernelSource, what: str) -> UserKernelError:
    return UserKernelError(f"triton_call: kernel {source.function} {what}", where=source.where)


# --- the op -----------------------------------------------------------------------------------


@functools.lru_cache(_CACHED)
def _function(config: str, outputs: tuple[tuple[tuple[int, ...], tf.DType], ...], name: str) -> Callable[..., Any]:
    """Compiled: the same for equal calls, so that a loop of eager ones traces once for each set of shapes."""

    def triton(*tensors: tf.Tensor) -> Any:
        return gen_xla_ops.xla_custom_call_v2(
            tensors,
            call_target_name=user_kernels.TARGET,
            backend_config=config,
            has_side_effect=False,
            result_dtypes=[dtype for _, dtype in outputs],
            result_shapes=[shape for shape, _ in outputs],
        )

    triton.__name__ = f"triton_{name}"
    compiled = api.jit(triton)

    def run(*tensors: tf.Tensor) -> tuple[Any, Callable[..., Any]]:
        with record.stop_recording():
            results = compiled(*tensors)
        return results, _no_gradient

    def _no_gradient(*_: Any) -> Any:
        raise tf.errors.InvalidArgumentError(
            None, None, f"triton_call: kernel {name} has no gradient. Give it one by tf.custom_gradient around the call"
        )

    called: Callable[..., Any] = tf.custom_gradient(run)
    return called
