"""The program behind a cluster's native op: compiled at first execution, the original ops where it cannot be.

Where the flags say so an execution does not wait for it: --tf_xla_async_compilation compiles on a thread of our
own while TensorFlow's ops run, --tf_xla_always_defer_compilation never compiles.
"""

from __future__ import annotations

import atexit
import queue
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import tensorflow as tf
from tensorflow.python.eager import context

from ... import bugs, flags, trace
from ...counters import add as count
from ...errors import LoweringError, UnsupportedError
from ...tf2xla import sources
from ..compiler_port import Compiler
from ..functions import function_compiler, function_names, marks, origins, variables
from ..native_op.op import InputView, Program
from ..native_op.records import Entry
from ..watch import watcher
from .cluster_names import ClusterNames
from .encapsulate import ClusterFunction

_MOST_TEXT = 500  # characters of a reason that are said
_COPIED = 1 << 20  # bytes: of larger inputs no copy is kept for a later compilation


class ClusterPrograms:
    """Makes the programs of clusters; those of a function go when TensorFlow has removed it."""

    def __init__(self, compiler: Compiler) -> None:
        self.compiler = compiler
        self._lock = threading.RLock()
        self._names = ClusterNames()
        self._programs: defaultdict[str, list[Program]] = defaultdict(list)

    def make(self, function: ClusterFunction) -> Program:
        """The program of a cluster of the function that this thread is executing; it goes when that one goes."""
        caller = sources.caller()
        known = origins.of(caller).names
        interface = variables.Interface(
            function.name,
            tuple(function.input_types),
            frozenset(),
            tuple(function.output_types),
            (),
            tuple(origins.told_apart([given.named(known) for given in function.given])),
            kinds=tuple(given.kind for given in function.given),
        )
        family = self._family(caller, function.nodes)

        def lines() -> dict[str, str]:
            known = sources.caller_lines(caller)
            return {node: line for node in function.nodes if (line := sources.place(known, node))}

        def handed_on() -> marks.Marks:
            arguments = [given.argument if given.kind == "argument" else -1 for given in function.given]
            return marks.handed_on(caller, arguments)

        def compile(inputs: list[InputView], device: str) -> Entry:
            try:
                with registered(function):
                    return function_compiler.compile_function(
                        self.compiler,
                        interface,
                        inputs,
                        "cluster",
                        function.name,
                        family,
                        sources.LazyLines(lines),
                        device,
                        origin=caller,
                        noted={p: mark for p, mark in handed_on().items() if p[1] < len(inputs[p[0]].dims)},
                    )
            except (tf.errors.OpError, LoweringError) as error:
                # The original ops can run, and raise where they must: automatic clustering never breaks a program.
                raise UnsupportedError(f"{type(error).__name__}: {error.message}") from error

        def refused(reason: UnsupportedError) -> None:
            fallen_back(function.name, str(reason))

        types = function.input_types, function.output_types
        program = Program(function.name, *types, compile, refused, _Later(), host=function.constants)
        if watcher.is_asked_for():
            program.watcher = watcher.Watcher(
                f"{function_names.user_name(caller)} ({function.name})",
                function.fdef,
                range(len(function.input_types)),
                library=function.library.get,
                line_of=lambda owner, node: lines().get(node) or sources.line_of(owner, node),
            )
        if caller:
            with self._lock:
                self._programs[caller].append(program)
        return program

    def _family(self, caller: str, nodes: Sequence[str]) -> str:
        """The same for this cluster in each trace of the function."""
        around = function_names.family_of(caller)
        return f"{around} from {self._names.name(around, origins.of(caller).defined, caller, nodes)}".lstrip()

    def forget(self, callers: Iterable[str]) -> None:
        """These functions are gone: so are the programs of their clusters, once TensorFlow has dropped the kernels."""
        with self._lock:
            gone = [program for caller in callers for program in self._programs.pop(caller, ())]
        for program in gone:
            program.close()


def fallen_back(name: str, reason: str) -> None:
    """Record that a cluster runs its original ops."""
    short = reason.splitlines()[0][:_MOST_TEXT] if reason else "unknown"
    count("fallbacks", reason=short)
    trace.record("fallback", what=name, reason=reason)
    trace.once(f"cluster:{short}", f"{name} runs TensorFlow's ops, because it could not be compiled ({short})")


_lock = threading.RLock()
_registered: Counter[str] = Counter()


@contextmanager
def registered(function: ClusterFunction) -> Iterator[None]:
    """A cluster's function and what it calls are in the eager context, where the bridge looks them up."""
    ctx, added = context.context(), []
    with _lock:
        for fdef in [*function.library.values(), function.fdef]:
            name = fdef.signature.name
            if _registered[name] or not ctx.has_function(name.encode()):
                if not _registered[name]:
                    ctx.add_function_def(fdef)
                _registered[name] += 1
                added.append(name)
    try:
        yield
    finally:
        with _lock:
            for name in added:
                _registered[name] -= 1
                if not _registered[name]:
                    del _registered[name]
                    ctx.remove_function(name.encode())


@dataclass(frozen=True, slots=True)
class _Copy(InputView):
    """An input of an execution that did not wait: its data where it is small enough to be kept."""

    data: bytes | None = None

    def bytes(self) -> bytes:
        if self.data is None:
            raise UnsupportedError(
                f"compiling later needs the value of an input that was not kept: more than {_COPIED} bytes, or on a GPU"
            )
        return self.data


def _copy(view: InputView) -> InputView:
    is_kept = view.size <= _COPIED and view.fetch is None  # fetching waits for the device
    return _Copy(view.dtype, view.dims, 0, view.size, data=view.bytes() if is_kept else None)


_Key = tuple[int, tuple[tuple[int, tuple[int, ...]], ...]]
"""The device, and dtype and dims of each input."""


class _Later:
    """`Program.later` of a cluster: whether its compilation is put off, and then to when."""

    def __init__(self) -> None:
        self.pending: set[_Key] = set()
        self.deferred = False

    def __call__(self, program: Program, inputs: list[InputView], device: int) -> bool:
        if flags.get("tf_xla_always_defer_compilation"):
            if not self.deferred:
                self.deferred = True
                fallen_back(program.name, "--tf_xla_always_defer_compilation is set")
            return True
        if not flags.get("tf_xla_async_compilation"):
            return False
        key = device, tuple((view.dtype, view.dims) for view in inputs)
        if key not in self.pending:
            self.pending.add(key)
            copies = [_copy(view) for view in inputs]
            _worker.submit(lambda: self._compile(program, key, copies, device))
        return True

    def _compile(self, program: Program, key: _Key, inputs: list[InputView], device: int) -> None:
        try:
            program.prepare(inputs, device)
        except Exception as error:  # noqa: BLE001 - on a thread of our own: it would be lost
            bugs.failed(f"compiling {program.name}", error)
        finally:
            self.pending.discard(key)


class _Worker:
    """One thread that compiles; at exit the compilation under way finishes, so that the dump is whole."""

    def __init__(self) -> None:
        self.jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.lock = threading.Lock()
        self.idle = threading.Lock()
        self.thread: threading.Thread | None = None
        self.stopped = False

    def submit(self, job: Callable[[], None]) -> None:
        with self.lock:
            self.jobs.put(job)
            # After a fork the child has the object but not the thread.
            if self.thread is None or not self.thread.is_alive():
                self.idle = threading.Lock()
                self.thread = threading.Thread(target=self._run, args=(self.idle,), daemon=True, name="tfxla_compile")
                self.thread.start()
                atexit.register(self._stop)

    def _run(self, idle: threading.Lock) -> None:
        while not self.stopped:
            job = self.jobs.get()
            with idle:
                if not self.stopped:
                    job()

    def _stop(self) -> None:
        self.stopped = True
        with self.idle:
            pass


_worker = _Worker()
