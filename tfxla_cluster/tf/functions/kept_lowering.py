"""Functions that are lowered once: what a function at some sizes lowered to, found again by what the function is.

In the same process where it is traced again, and in others through the store of executables: they need neither the
bridge nor the check of shapes, which said yes to the same function before.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import tensorflow as tf

from ... import trace
from ...code_version import code_version
from ...decision import Decision
from ...flag_options import are_data_checked
from ...ir import guard
from ...tf2xla import bridge, function_key, must_be_constant, sources
from ...tf2xla.bridge import Arg, Lowered
from ..compiler_port import Compiler

Values = Mapping[int, bytes]


def lower(
    compiler: Compiler, function: str, args: Sequence[Arg], device: str, make: Callable[[Sequence[Arg]], Lowered]
) -> Lowered:
    """What `make(args)` gives or gave for a registered function, which depends on nothing else."""
    args = [arg if arg.value is None else replace(arg, value=functools.cache(arg.value)) for arg in args]
    kept = _Kept(compiler, function, args, device)
    found = kept.load()
    if found is None:
        found = make(args)
        kept.save(found)
    return found


class _Kept:
    """`args`: their values are read where the bridge would read them."""

    def __init__(self, compiler: Compiler, function: str, args: Sequence[Arg], device: str) -> None:
        self._compiler, self._args, self._device = compiler, args, device
        functions = list(sources.reachable(function))
        self._about = {"function": function, "inputs": ", ".join(map(_words, args))}
        self._keepable: Decision = function_key.keepable(functions, bridge.library)
        if self._keepable:
            needed = must_be_constant.constant_args(functions[0], bridge.library)
            self._needed = [i for i in sorted(needed) if i < len(args) and args[i].value is not None]
            self._facts = {
                "function": function_key.digest(functions),
                "args": " ".join(map(_text, args)),
                "code": code_version(),
                "checks": str(are_data_checked(device)),
                **function_key.settings(),
            }

    def load(self) -> Lowered | None:
        """None where it was not lowered at these sizes and values, or cannot be kept."""
        if not self._keepable:
            return None
        values = self._values(self._needed)
        found = self._recall(values)
        try:
            if found is not None and "more" in found:
                values = self._values(json.loads(found["more"]))
                found = self._recall(values)
            return None if found is None else _lowered(found, values)
        except (KeyError, ValueError, TypeError, IndexError) as error:
            trace.record("store", event="unusable", reason=f"a lowered function cannot be read: {error!r}")
            return None

    def save(self, lowered: Lowered) -> None:
        """Under the values that lowering used; where it took more than it needs at least, that is said under those."""
        if not self._keepable:
            return
        used = sorted(lowered.constants)
        if used != self._needed:
            self._keep(self._values(self._needed), {"more": json.dumps(used).encode()})
        self._keep(lowered.constants, _sections(lowered))

    def _values(self, arguments: Sequence[int]) -> Values:
        return {i: self._args[i].known().tobytes() for i in arguments}

    def _recall(self, values: Values) -> Mapping[str, bytes] | None:
        return self._compiler.recall(self._key(values), self._device)

    def _keep(self, values: Values, sections: Mapping[str, bytes]) -> None:
        self._compiler.keep(self._key(values), self._device, sections, self._about)

    def _key(self, values: Values) -> tuple[guard.Guard, ...]:
        text = hashlib.sha256()
        for number, value in sorted(values.items()):
            text.update(f"{number} {len(value)} ".encode())
            text.update(value)
        return guard.facts({**self._facts, "values": text.hexdigest()})


def _text(arg: Arg) -> str:
    return f"{'variable ' if arg.is_resource else ''}{arg.dtype}{list(arg.dims)}"


def _words(arg: Arg) -> str:
    return f"{'variable ' if arg.is_resource else ''}{tf.dtypes.as_dtype(arg.dtype).name}{list(arg.dims)}"


def _sections(lowered: Lowered) -> dict[str, bytes]:
    rest = {
        "name": lowered.name,
        "parameters": lowered.parameters,
        "outputs": lowered.outputs,
        "updates": lowered.updates,
    }
    return {"proto": lowered.proto, "lowered": json.dumps(rest).encode()}


def _lowered(sections: Mapping[str, bytes], values: Values) -> Lowered:
    rest = json.loads(sections["lowered"])
    return Lowered(
        sections["proto"],
        rest["name"],
        tuple(rest["parameters"]),
        dict(values),
        tuple(rest["outputs"]),
        tuple((argument, result) for argument, result in rest["updates"]),
    )
