"""A function and what it is called with, in the one form that benchmarks take: tensors in, tensors out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ..errors import UsageError
from .fill import Filler, Init

Tensors = list[Any]
Standard = Callable[..., Any]

MODES = ("forward", "forward_res", "vjp", "forward_and_vjp")


def standardize_function(
    f: Callable[..., Any],
    *args: Any,
    kwargs: Mapping[str, Any] | None = None,
    mode: str = "forward",
    seed: int | None = 0,
    init: Init = None,
) -> tuple[Standard, Tensors]:
    """(f_std, tensors): `f_std(tensors)`, also `f_std(*tensors)`, is `f(*args, **kwargs)` as `mode` says.

    Tensors, NumPy arrays and tf.TensorSpecs anywhere in the nested `args` and `kwargs` become `tensors`, in order;
    everything else (Python numbers, text, models, variables) is closed over. A TensorSpec is filled with random data
    drawn from `seed`, or with `init(spec)`; with seed=None it stays as it is, for what only traces.

    mode: 'forward'. 'forward_res' also returns all that the backward half reads. 'vjp' is the backward half alone:
    the forward half has run, its results are closed over, and `tensors` are the cotangents, one of each floating
    result, filled as a TensorSpec. 'forward_and_vjp' runs both, the results being their own cotangents.
    Gradients are those of the floating and complex among the tensors and of the trainable variables that `f` reads;
    what depends on none of the results is left out.

    Raises UsageError for another mode, for a size of a TensorSpec that is not known, and where nothing has a gradient.
    """
    if mode not in MODES:
        raise UsageError(f"mode is {mode!r}, which has to be one of {', '.join(MODES)}")
    flat = tf.nest.flatten((args, dict(kwargs or {})), expand_composites=False)
    places = [number for number, value in enumerate(flat) if _is_tensor(value)]
    filler = None if seed is None else Filler(seed, init)
    tensors = [_tensor(flat[number], f"input {at}", filler) for at, number in enumerate(places)]

    def forward(*given: Any) -> Any:
        values = list(flat)
        for number, tensor in zip(places, _listed(given)):
            values[number] = tensor
        called, named = tf.nest.pack_sequence_as((args, dict(kwargs or {})), values)
        return f(*called, **named)

    if mode == "forward":
        return forward, tensors
    if mode == "forward_and_vjp":
        return _forward_and_vjp(forward), tensors
    if filler is None:
        raise UsageError(f"mode {mode!r} runs the function, which needs data", "Give a seed, not None")
    halves = _Halves(forward, tensors)
    return (halves.forward, tensors) if mode == "forward_res" else (halves.vjp(), halves.cotangents(filler))


def _is_tensor(value: Any) -> bool:
    return isinstance(value, (tf.Tensor, np.ndarray, np.generic, tf.TensorSpec))


def _tensor(value: Any, what: str, filler: Filler | None) -> Any:
    if not isinstance(value, tf.TensorSpec):
        return tf.convert_to_tensor(value)
    return value if filler is None else filler.value(value, what)


def _listed(given: Sequence[Any]) -> Sequence[Any]:
    """The tensors of f_std(tensors) and of f_std(*tensors)."""
    if len(given) == 1 and isinstance(given[0], (list, tuple)):
        return given[0]
    return given


def _differentiable(values: Sequence[Any]) -> list[Any]:
    return [v for v in values if v is not None and (v.dtype.is_floating or v.dtype.is_complex)]


def _gradients(tape: tf.GradientTape, results: list[Any], given: Sequence[Any], cotangents: Sequence[Any]) -> Tensors:
    sources = [*_differentiable(given), *tape.watched_variables()]
    found = [g for g in tape.gradient(results, sources, cotangents) if g is not None]
    if not found:
        raise UsageError("no gradient: no floating result depends on a floating input or a trainable variable")
    return found


def _forward_and_vjp(forward: Standard) -> Standard:
    def both(*given: Any) -> Any:
        listed = _listed(given)
        with tf.GradientTape() as tape:
            tape.watch(_differentiable(listed))
            out = forward(*listed)
        results = _differentiable(tf.nest.flatten(out))
        return out, _gradients(tape, results, listed, results)

    return both


class _Halves:
    """The forward and the backward half of a function, cut where TensorFlow cuts it: the gradient of a called graph
    function is a second function, which reads further results of the first."""

    def __init__(self, forward: Standard, tensors: Tensors) -> None:
        inner = tf.function(forward, autograph=False)
        specs = [tf.TensorSpec(t.shape, t.dtype) for t in tensors]
        results = _differentiable(tf.nest.flatten(inner.get_concrete_function(*specs).structured_outputs))
        self._tensors = tensors
        self._cotangents = [tf.TensorSpec(t.shape, t.dtype) for t in results]

        def both(given: Tensors, cotangents: Tensors) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(_differentiable(given))
                flat = tf.nest.flatten(inner(*given))
            return flat, _gradients(tape, _differentiable(flat), given, cotangents)

        self._both = tf.compat.v1.wrap_function(both, [specs, self._cotangents])
        flat, self._gradients = self._both.structured_outputs
        (call,) = {t.op for t in flat if t is not None}
        self._halfway = list(call.outputs)
        self._forward = self._both.prune(self._both.inputs[: len(specs)], self._halfway)

    def forward(self, *given: Any) -> Any:
        """The results, then what the backward half reads."""
        return self._forward(*_listed(given))

    def vjp(self) -> Standard:
        """Gradients from cotangents, at what the forward half gives for the tensors."""
        first = len(self._tensors)
        cotangents = self._both.inputs[first : first + len(self._cotangents)]
        backward = self._both.prune([*cotangents, *self._halfway], self._gradients)
        halfway = self._forward(*self._tensors)
        return lambda *given: backward(*_listed(given), *halfway)

    def cotangents(self, filler: Filler) -> Tensors:
        """One of each floating result."""
        return [filler.value(spec, f"cotangent {at}") for at, spec in enumerate(self._cotangents)]
