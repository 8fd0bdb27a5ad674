"""The node behind a compiled function's op that looks at each of its executions, and what is said of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context, record
from tensorflow.python.ops import script_ops

from ... import flags, trace
from ...tf2xla.function_calls import Library
from . import op_by_op
from .difference import Difference, between, has_no_number, is_comparable, shake
from .locate import Parting, locate
from .watched import Draws, Watched, array, read

_thread = threading.local()
_HOW = "set --tfxla_watch_numerics=false to run without the comparison"


def is_asked_for() -> bool:
    """Functions that are compiled from now on are watched: not those that a watcher compiles itself."""
    return bool(flags.get("tfxla_watch_numerics")) and not getattr(_thread, "looking", False)


class Watcher:
    """Looks at executions of the op of one function or cluster.

    title: its name for the user. inputs: the arguments that the op takes, of variables the values. updated: the
    variables whose new values it gives after the results. The others: as Watched.
    """

    def __init__(
        self,
        title: str,
        definition: Any,
        inputs: Sequence[int],
        updated: Sequence[int] = (),
        variables: Mapping[int, int] | None = None,
        library: Library = lambda name: None,
        line_of: Callable[[str, str], str] = lambda function, node: "",
    ) -> None:
        self.title, self.inputs, self.updated = title, tuple(inputs), tuple(updated)
        self.watched = Watched(definition, variables or {}, library, line_of)
        self.results = [definition.ret[out.name] for out in definition.signature.output_arg if out.type != tf.resource]
        self.token = script_ops._py_funcs.insert(self)  # noqa: SLF001 - there is no other way; it holds it weakly

    def add_to(self, function: Any, run: str, inputs: Sequence[str]) -> str:
        """Adds the node behind the TfxlaRun node `run` of a FunctionDef; what its outputs are called in front of their
        numbers. They are those of `run`."""
        native = next(node for node in function.node_def if node.name == run)
        given, results = native.attr["Tin"].list.type, native.attr["Tout"].list.type
        node = function.node_def.add(name=f"{run}/watch", op="PyFunc", input=inputs)
        node.input.extend(f"{run}:results:{k}" for k in range(len(results)))
        node.attr["token"].s = self.token.encode()
        node.attr["Tin"].list.type.extend([*given, *results])
        node.attr["Tout"].list.type.extend(results)
        return f"{node.name}:output"

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray]:
        values, compiled = dict(zip(self.inputs, arrays)), list(arrays[len(self.inputs) :])
        _thread.looking = True
        try:
            with context.eager_mode(), record.stop_recording(), self.watched.registered():
                self._look(values, compiled)
        except (tf.errors.OpError, op_by_op.CannotRunError, NotImplementedError, TypeError, ValueError) as error:
            why = str(getattr(error, "message", error)).splitlines()[0]
            self._say("unwatched", None, "", f"cannot be run op by op in eager TensorFlow: {why}")
        finally:
            _thread.looking = False
        return compiled

    def _look(self, values: Mapping[int, Any], compiled: Sequence[np.ndarray]) -> None:
        draws = Draws()

        def visit(step: op_by_op.Step) -> None:
            draws.visit(step)
            self._look_for_numbers(step)

        eager = self._results(values, visit)
        compared = {k: array(x) for k, x in enumerate(eager) if is_comparable(x.dtype) and not draws.has(x)}
        parted = [k for k, one in compared.items() if between(one, compiled[k])]
        if not parted:
            return
        shaken = self._results({i: shake(value) for i, value in values.items()})
        found = {k: between(compared[k], compiled[k], array(shaken[k])) for k in parted}
        differences = {k: difference for k, difference in found.items() if difference is not None}
        if differences:
            self._tell_parting(values, differences)

    def _results(self, values: Mapping[int, Any], visit: op_by_op.Visit = lambda step: None) -> op_by_op.Values:
        """What the function returns op by op, but for handles, and the new values of variables."""
        watched = self.watched
        args = watched.arguments(values)
        results = op_by_op.run(watched.definition, args, watched.library, visit)
        updates = [read(args[i], watched.variables[i]) for i in self.updated]
        return [value for value in results if value.dtype != tf.resource] + updates

    def _tell_parting(self, values: Mapping[int, Any], parted: Mapping[int, Difference]) -> None:
        own = [self.results[k] for k in parted if k < len(self.results) and ":" in self.results[k]]
        found: Parting | None = locate(self.watched, values, own or _written(self.watched.definition))
        if found is not None:
            return self._say("parts", found.node, found.function, f"the compiled value {found.difference}")
        number, difference = next(iter(parted.items()))
        whole = f"compiled, result {number} {difference}; no op alone gives another value: bisect the dumped module"
        return self._say("parts", None, "", whole)

    def _look_for_numbers(self, step: op_by_op.Step) -> None:
        if step.node.op in op_by_op.ENTERED:  # what is in it was looked at
            return
        found = next(filter(None, map(_has_no_number, step.outputs)), "")
        if found and step.inputs and not any(map(_has_no_number, step.inputs)):
            self._say("nonfinite", step.node, step.function, f"{found} appears here first, in eager TensorFlow too")

    def _say(self, event: str, node: Any, function: str, message: str) -> None:
        """Once a node."""
        name, op = (node.name, node.op) if node is not None else ("", "")
        where = self.watched.line_of(function, name) if name else ""
        place = f"op {op} (node '{name}'{f', {where}' if where else ''}): " if name else ""
        if trace.once(f"numerics:{self.title}:{event}:{name}", f"numerics of {self.title}: {place}{message}. {_HOW}"):
            trace.record("numerics", function=self.title, event=event, op=op, node=name, where=where, message=message)


def _has_no_number(value: Any) -> str:
    return has_no_number(array(value)) if value.dtype.is_floating or value.dtype.is_complex else ""


def _written(definition: Any) -> list[str]:
    """What the function assigns to variables: where an update parts, it is among these."""
    writes = [n for n in definition.node_def if n.op.startswith("Assign") and n.op.endswith("VariableOp")]
    return [r for n in writes for r in op_by_op.data_inputs(n)[1:] if ":" in r]
