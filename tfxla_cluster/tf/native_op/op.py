"""The native ops TfxlaRun and TfxlaReady: registered through TensorFlow's C API, compute in machine code.

TfxlaRun(args) -> results runs the executable of its program whose guards its inputs satisfy. On a miss
Python is called once, compiles, and installs the new executable. TfxlaReady(args) -> bool makes or finds
the executable and says whether there is one: the predicate of a graph branch that falls back.

Both are stateful. A stateless op would be folded when its inputs are constant (compiling inside graph
optimisation, where a failure is swallowed), merged with an equal one (the same call on random numbers twice
must not repeat) and dropped when only its effect counts. Statefulness costs nothing at execution.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import tensorflow as tf
from tensorflow.python import pywrap_tfe  # pylint: disable=no-name-in-module
from tensorflow.python.eager import context

from ... import bugs, trace
from ...decision import YES, Decision, no
from ...errors import InternalError, LoweringError, RankError, TuningError, UninitializedError, UnsupportedError
from ...ir import guard as guards
from .. import devices
from ..devices import device_of
from . import gpu_context
from .builder import HOST_DEVICE, entry_word, program_word
from .library import CAPACITY, FAILURE, READY, RUN, InputView, Library, describe
from .records import Entry, Words, pack, publish

__all__ = [
    "CAPACITY",
    "MAX_ENTRIES",
    "OPS",
    "READY",
    "RUN",
    "InputView",
    "Program",
    "clear",
    "describe",
    "ensure_registered",
    "exact",
    "executions",
    "explain_failures",
    "release",
    "run_on_gpus",
    "usage",
]

OPS = (RUN, READY)
MAX_ENTRIES = 64
MAX_ASIDE = 4096  # of those for which there is no room among them, of executables that serve others
MAX_FAILURES = 1024  # that are kept until the caller asks


class Watcher(Protocol):
    """What looks at executions of a program's op (tf.watch.watcher)."""

    def add_to(self, function: Any, run: str, inputs: Sequence[str]) -> str:
        """Adds its node behind node `run` of a FunctionDef, which takes `inputs`; what it calls the results."""
        ...


class Program:
    """A function compiled on demand behind the native ops.

    name: for messages. input_types, output_types: TF dtype numbers of the op's inputs and outputs.
    compile(inputs, device) -> Entry whose guards the inputs satisfy, for a device as devices.device_of names it; raises
    UnsupportedError (cached as a refusal for inputs of these shapes), LoweringError, UninitializedError or a
    tf.errors.OpError. Called under this program's lock, at most once at a time, on the thread that executes the op: no
    tf.function may be called in it. Any other exception is a bug and becomes a refusal too. on_refusal: called once a
    refusal.
    in_graph: set it once the program is named in a FunctionDef; executables then live as long as kernels do.
    later(program, inputs, device number) -> bool: asked where TfxlaReady finds no executable; True: answer no and do
    not compile now.
    tells_failures: what was raised while compiling is kept for `failure_of`. host: inputs that graphs hand over in the
    host's memory, as compiling needs their values. watcher: set it before a node is made.
    """

    def __init__(
        self,
        name: str,
        input_types: Sequence[int],
        output_types: Sequence[int],
        compile: Callable[[list[InputView], str], Entry],
        on_refusal: Callable[[UnsupportedError], None] | None = None,
        later: Callable[[Program, list[InputView], int], bool] | None = None,
        tells_failures: bool = False,
        host: Iterable[int] = (),
        line_of: Callable[[str], str] = lambda node: "",
    ) -> None:
        self.on_refusal = on_refusal
        self.name, self.compile, self.in_graph, self.closed = name, compile, False, False
        self.recyclable = False
        self.later, self.tells_failures = later, tells_failures
        self.line_of = line_of
        self.watcher: Watcher | None = None
        self.input_types, self.output_types = tuple(input_types), tuple(output_types)
        self.lock = threading.RLock()
        self._publishing = threading.RLock()
        self._failures: dict[int, BaseException] = {}
        self._failure_numbers = itertools.count(1)
        self._entries: list[Words] = []
        self._aside: dict[Any, Words] = {}
        self._retired: list[object] = []
        self.host = frozenset(host) if devices.has_accelerator() else frozenset()
        self.record = Library.get().adopt(self, self.input_types, self.output_types)
        self.token = self.record[program_word("serial")]
        self.attrs = ("program", self.token, "Tin", list(self.input_types), "Tout", list(self.output_types))

    @property
    def executions(self) -> int:
        """How often TfxlaRun ran one of its executables."""
        return self.record[program_word("executions")]

    @property
    def is_idle(self) -> bool:
        """No kernel refers to it and no execution is under way."""
        return not (self.record[program_word("references")] or self.record[program_word("in_flight")])

    @property
    def is_gone(self) -> bool:
        """It was closed and can run no more."""
        return self.closed and self.is_idle

    @property
    def entries(self) -> list[Entry]:
        """Its executables, newest first, then refusals."""
        return [words.keep[0] for words in self._entries]

    def entries_on(self, device: str) -> list[Entry]:
        """Those for a device, as devices.device_of names it."""
        return [entry for entry in self.entries if device_of(entry.device) == device]

    def usage(self) -> list[tuple[int, int]]:
        """(id of the executable, its executions) of each entry."""
        return [(id(words.keep[0].keep), words[entry_word("executions")]) for words in self._entries]

    def __call__(self, *tensors: Any) -> list[Any]:
        """Execute TfxlaRun eagerly on EagerTensors; a list of EagerTensors (nothing is recorded on tapes)."""
        ctx = context.context()
        return pywrap_tfe.TFE_Py_Execute(
            ctx._handle, ctx.device_name, RUN, list(tensors), self.attrs, len(self.output_types)
        )

    def node(self, name: str, inputs: Sequence[str], op: str = RUN) -> Any:
        """A NodeDef of this program's op for a FunctionDef or GraphDef (`inputs`: data, then control)."""
        node = tf.compat.v1.NodeDef(name=name, op=op, input=inputs)
        node.attr["program"].i = self.token
        node.attr["Tin"].list.type.extend(self.input_types)
        if op == RUN:
            node.attr["Tout"].list.type.extend(self.output_types)
        if self.host:
            node.attr["_input_hostmem"].list.i[:] = sorted(self.host)
        self.in_graph = True
        return node

    def prepare(self, inputs: list[InputView], device: int = HOST_DEVICE) -> Entry:
        """The entry for `inputs` on a device, compiled if lacking (a refusal has record 0)."""
        with self.lock:
            found = self._lookup(inputs, device)
            if found is not None:
                return found
            if self.closed:
                raise InternalError(f"function {self.name} was removed, so it cannot be compiled for new inputs")
            packed = self._compile(inputs, device)
            entry: Entry = packed.keep[0]
            # A refusal is for these shapes whatever the values: executables for some values go first.
            self.install(packed, last=not entry.record)
            return entry

    def _compile(self, inputs: list[InputView], device: int) -> Words:
        """The packed entry for inputs that have none; a refusal where this package cannot compile it, where the
        record of what it compiled would not hold it, or where it has a bug."""
        try:
            entry = replace(self.compile(inputs, device_of(device)), device=device)
            if not guards.hold(entry.guards, inputs):
                raise InternalError(f"guards of {self.name} do not hold for the inputs that it was compiled for")
            return pack(entry)
        except (tf.errors.OpError, LoweringError, TuningError, RankError, UninitializedError):
            raise
        except UnsupportedError as error:
            refusal = error
        except MemoryError as error:
            refusal = UnsupportedError(f"no memory for the executable: {error}")
        except Exception as error:  # noqa: BLE001 - a bug of the compiler must not end the program: the caller falls back
            refusal = UnsupportedError(bugs.failed(f"compiling {self.name}", error))
            refusal.__cause__ = error
        if self.on_refusal is not None:
            self.on_refusal(refusal)
        return pack(Entry(exact(inputs), device=device, keep=refusal))

    def _lookup(self, inputs: list[InputView], device: int) -> Entry | None:
        for entry in self.entries:
            if entry.device == device and guards.hold(entry.guards, inputs):
                return entry
        words = self._aside.pop(_sizes(inputs, device), None)
        if words is not None and guards.hold(words.keep[0].guards, inputs):
            self.install(words)
            return words.keep[0]
        return None

    def is_ready(self, inputs: list[InputView], device: int) -> bool:
        """Whether TfxlaReady, having found no executable, may compile one now."""
        return self.later is None or not self.later(self, inputs, device)

    def failed(self, error: BaseException) -> int:
        """Keep why an execution fails; the number under which `failure_of` finds it, 0 where nobody will ask."""
        if not self.tells_failures:
            return 0
        number = next(self._failure_numbers)
        self._failures[number] = error
        for old in list(self._failures)[:-MAX_FAILURES]:
            self._failures.pop(old, None)
        return number

    def failure_of(self, error: tf.errors.OpError) -> BaseException | None:
        """What was raised while compiling, where an execution of this program failed with `error` for that reason."""
        number = error.experimental_payloads.get(FAILURE)
        return None if number is None else self._failures.pop(int(number), None)

    def install(self, packed: Words, last: bool = False) -> None:
        """Publish a packed entry in front of the others, or behind; the least executed one of these leaves when there
        are too many."""
        with self._publishing:
            entries = [*self._entries, packed] if last else [packed, *self._entries]
            if len(entries) > MAX_ENTRIES:
                least = min(self._entries, key=lambda words: words[entry_word("executions")])
                entries.remove(least)
                self._set_aside(least, entries)
            self._publish(entries)

    def _set_aside(self, words: Words, others: Iterable[Words]) -> None:
        """An entry whose executable others run anyway is found again by its sizes, unless it holds literals; the rest
        is forgotten."""
        entry: Entry = words.keep[0]
        if not entry.record:
            return
        if any(other.keep[0].keep is entry.keep for other in others):
            if not entry.handed:
                self._aside[_sizes_of(entry)] = words
            for old in list(self._aside)[:-MAX_ASIDE]:
                del self._aside[old]
            return
        trace.once(
            f"entries:{self.name}",
            f"function {self.name} is called with more than {MAX_ENTRIES} "
            "combinations of sizes and constants; those used least are compiled again when they "
            "come back. Pad its inputs to fewer sizes",
        )

    def drop(self, loaded: object) -> None:
        """Forget the executable `loaded`, if it is one of this program's."""
        with self._publishing:
            self._aside = {sizes: words for sizes, words in self._aside.items() if words.keep[0].keep is not loaded}
            kept = [words for words in self._entries if words.keep[0].keep is not loaded]
            if len(kept) < len(self._entries):
                self._publish(kept)

    def clear(self) -> None:
        """Drop all executables; the next execution compiles again."""
        with self._publishing:
            self._aside.clear()
            self._publish([])

    def _publish(self, entries: list[Words]) -> None:
        # An execution in flight may still read the old list: it is freed when none is seen.
        self._retired.append(self.record.keep)
        self._entries = entries
        publish(self.record, entries)
        self.sweep()

    def sweep(self) -> None:
        """Free the executables that were dropped and run no more."""
        with self._publishing:
            if self._retired and self.record[program_word("in_flight")] == 0:
                self._retired.clear()

    def close(self, recyclable: bool = False) -> None:
        """The function is gone: free what no kernel can reach any more. `recyclable`: nobody can call it again."""
        self.closed, self.recyclable = True, recyclable
        if not self.in_graph:
            self.clear()
        Library.get().collect()


def _sizes(inputs: Sequence[InputView], device: int) -> Any:
    """What entries set aside are found by."""
    return device, tuple(tuple(view.dims) for view in inputs)


def _sizes_of(entry: Entry) -> Any:
    """The same of an entry whose guards say every size; of others, what is never asked for."""
    dims: dict[int, dict[int, Any]] = {}
    for guard in entry.guards:
        if guard.kind == "rank":
            dims[guard.place[0]] = dict.fromkeys(range(int(guard.wanted)))  # type: ignore[arg-type]
        elif guard.kind == "equal":
            dims[guard.place[0]][guard.place[1]] = guard.wanted
    return entry.device, tuple(tuple(dims[number].values()) for number in sorted(dims))


def exact(inputs: Sequence[InputView]) -> tuple[guards.Guard, ...]:
    """Dtypes and shapes are those of `inputs`."""
    found = [guards.Guard("dtype", number, view.dtype) for number, view in enumerate(inputs)]
    return guards.ordered(
        [*found, *(g for number, view in enumerate(inputs) for g in guards.of_shape(number, view.dims))]
    )


def ensure_registered() -> None:
    """Register the ops now (needed before a graph that holds them is imported)."""
    Library.get()


def explain_failures(explain: Callable[[int], Exception]) -> None:
    """`explain(code)`: what it means that an executable's entry returned `code`, for the user."""
    Library.get().explain = explain


def run_on_gpus() -> Decision:
    """Register the ops for GPUs too, if they can be."""
    try:
        Library.get().add_gpu(gpu_context.addresses())
    except (UnsupportedError, InternalError) as error:
        return no("gpu-op", str(error))
    return YES


def executions() -> int:
    """Executions of native code in this process so far."""
    library = Library.loaded()
    return library.executions() if library else 0


def _programs() -> list[Any]:
    library = Library.loaded()
    return library.adopted() if library else []


def usage() -> dict[int, int]:
    """id of each executable (what `Entry.keep` holds) that a program can run -> its executions there."""
    found: dict[int, int] = {}
    for program in _programs():
        for key, count in program.usage():
            found[key] = found.get(key, 0) + count
    return found


def release(loaded: object) -> None:
    """Make all programs forget the executable `loaded`; calls under way finish, later ones compile again."""
    for program in _programs():
        program.sweep()
        program.drop(loaded)


def clear() -> None:
    """Make all programs forget all executables (not refusals of the compiler, which are small)."""
    for program in _programs():
        program.clear()
