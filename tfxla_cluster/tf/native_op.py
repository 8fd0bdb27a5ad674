"""The native ops TfxlaRun and TfxlaReady: registered through TensorFlow's C API, compute in machine code.

TfxlaRun(args) -> results runs the executable of its program whose guards its inputs satisfy. On a miss
Python is called once, compiles, and installs the new executable. TfxlaReady(args) -> bool makes or finds
the executable and says whether there is one: the predicate of a graph branch that falls back.

Both are stateful. A stateless op would be folded when its inputs are constant (compiling inside graph
optimisation, where a failure is swallowed), merged with an equal one (the same call on random numbers twice
must not repeat) and dropped when only its effect counts. Statefulness costs nothing at execution.
"""
from __future__ import annotations

import atexit
import ctypes
import itertools
import os
import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import tensorflow as tf
from tensorflow.python import pywrap_tfe  # pylint: disable=no-name-in-module
from tensorflow.python.eager import context

from .. import trace
from ..errors import InternalError, UnsupportedError
from . import native_code
from .native_builder import C_API, INTERNAL, INVALID_ARGUMENT, entry_word, program_word
from .native_records import Entry, Guard, Words, pack, program_record, publish

RUN, READY = "TfxlaRun", "TfxlaReady"
OPS = (RUN, READY)
CAPACITY = 1 << 20
MAX_ENTRIES = 64

_MISS = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.POINTER(ctypes.c_void_p),
                         ctypes.c_void_p, ctypes.c_int64)
_CTYPES: dict[str, Any] = {
    "i8*": ctypes.c_void_p, "i8**": ctypes.c_void_p, "i64*": ctypes.c_void_p, "i32": ctypes.c_int32,
    "i64": ctypes.c_int64, "void": None,
}


@dataclass(frozen=True, slots=True)
class InputView:
    """An input of an execution that missed: TF `dtype` number, `dims`; `bytes()` copies its data (valid only
    while the compile callback runs)."""

    dtype: int
    dims: tuple[int, ...]
    address: int
    size: int

    def bytes(self) -> bytes:
        return ctypes.string_at(self.address, self.size) if self.size else b""

    def array(self) -> np.ndarray:
        """A copy as a NumPy array."""
        kind = tf.dtypes.as_dtype(self.dtype).as_numpy_dtype
        return np.frombuffer(self.bytes(), kind).reshape(self.dims)


class Program:
    """A function compiled on demand behind the native ops.

    name: for messages. input_types, output_types: TF dtype numbers of the op's inputs and outputs.
    compile(inputs) -> Entry whose guards the inputs satisfy; raises UnsupportedError (cached as a refusal
    for inputs of these shapes) or a tf.errors.OpError. Called under this program's lock, at most once at a
    time, on the thread that executes the op: no tf.function may be called in it. Any other exception is a
    bug and becomes a refusal too. on_refusal: called once a refusal.
    in_graph: set it once the program is named in a FunctionDef; executables then live as long as kernels do.
    """

    def __init__(
        self, name: str, input_types: Sequence[int], output_types: Sequence[int],
        compile: Callable[[list[InputView]], Entry],
        on_refusal: Callable[[UnsupportedError], None] | None = None,
    ) -> None:
        library = _Library.get()
        self.on_refusal = on_refusal
        self.name, self.compile, self.in_graph, self.closed = name, compile, False, False
        self.input_types, self.output_types = tuple(input_types), tuple(output_types)
        self.lock = threading.RLock()
        self.failure: BaseException | None = None
        self._entries: list[Words] = []
        self._retired: list[object] = []
        self.token = library.adopt(self)
        self.record = program_record(self.token, len(self.input_types), len(self.output_types))
        library.table[self.token % CAPACITY] = self.record.address
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
    def entries(self) -> list[Entry]:
        """Its executables and refusals, newest first."""
        return [words.keep[0] for words in self._entries]  # type: ignore[index]

    def __call__(self, *tensors: Any) -> list[Any]:
        """Execute TfxlaRun eagerly on EagerTensors; a list of EagerTensors (nothing is recorded on tapes)."""
        ctx = context.context()
        return pywrap_tfe.TFE_Py_Execute(  # type: ignore[no-any-return]
            ctx._handle, ctx.device_name, RUN, list(tensors), self.attrs, len(self.output_types))

    def node(self, name: str, inputs: Sequence[str], op: str = RUN) -> Any:
        """A NodeDef of this program's op for a FunctionDef or GraphDef (`inputs`: data, then control)."""
        node = tf.compat.v1.NodeDef(name=name, op=op, input=inputs)
        node.attr["program"].i = self.token
        node.attr["Tin"].list.type.extend(self.input_types)
        if op == RUN:
            node.attr["Tout"].list.type.extend(self.output_types)
        self.in_graph = True
        return node

    def prepare(self, inputs: list[InputView]) -> Entry:
        """The entry for `inputs`, compiled if lacking (a refusal has record 0)."""
        with self.lock:
            found = self._lookup(inputs)
            if found is not None:
                return found
            if self.closed:
                raise InternalError(f"function {self.name} was removed, so it cannot be compiled for new inputs")
            entry = self._compile(inputs)
            self.install(entry)
            return entry

    def _compile(self, inputs: list[InputView]) -> Entry:
        """The entry for inputs that have none; a refusal where this package cannot compile it (or has a bug)."""
        try:
            return self.compile(inputs)
        except tf.errors.OpError:
            raise
        except UnsupportedError as error:
            refusal = error
        except Exception as error:  # noqa: BLE001 - a bug of the compiler must not end the program: the caller falls back
            refusal = UnsupportedError(f"internal error, please report it: {type(error).__name__}: {error}")
            refusal.__cause__ = error
            trace.record("error", what=f"compiling {self.name}", error=type(error).__name__, message=str(error))
        if self.on_refusal is not None:
            self.on_refusal(refusal)
        return Entry(tuple(Guard(i.dtype, i.dims) for i in inputs), keep=refusal)

    def _lookup(self, inputs: list[InputView]) -> Entry | None:
        for entry in self.entries:
            if all(g.holds(i.dtype, i.dims, b"" if g.value is None else i.bytes())
                   for g, i in zip(entry.guards, inputs)):
                return entry
        return None

    def install(self, entry: Entry) -> None:
        """Publish an entry in front of the others; the least executed one leaves when there are too many."""
        with self.lock:
            entries = [pack(entry), *self._entries]
            if len(entries) > MAX_ENTRIES:
                entries.remove(min(entries[1:], key=lambda words: words[entry_word("executions")]))
            self._publish(entries)

    def clear(self) -> None:
        """Drop all executables; the next execution compiles again."""
        with self.lock:
            self._publish([])

    def _publish(self, entries: list[Words]) -> None:
        # An execution in flight may still read the old list: it is freed when none is seen.
        self._retired.append(self.record.keep)
        self._entries = entries
        publish(self.record, entries)
        if self.record[program_word("in_flight")] == 0:
            self._retired.clear()

    def close(self) -> None:
        """The function is gone: free what no kernel can reach any more."""
        self.closed = True
        if not self.in_graph:
            self.clear()
        _Library.get().collect()


class _Library:
    """The process's one native library: machine code, program table, op registration."""

    _instance: _Library | None = None
    _lock = threading.Lock()

    @classmethod
    def get(cls) -> _Library:
        """Registers the ops on first use."""
        if cls._instance is None:
            with cls._lock:
                if cls._instance is None:
                    cls._instance = cls()
        return cls._instance

    def __init__(self) -> None:
        path = os.path.join(tf.sysconfig.get_lib(), "libtensorflow_framework.so.2")
        self.tf = ctypes.CDLL(path)
        for name, (result, kinds) in C_API.items():
            function = self.tf[name]
            function.restype = _CTYPES[str(result)]
            function.argtypes = [_CTYPES[str(kind)] for kind in kinds]
            setattr(self.tf, name, function)
        self.table = (ctypes.c_int64 * CAPACITY)()
        self.stopped = Words([0])
        self.programs: dict[int, Program] = {}
        self.past_executions = 0  # of programs that are gone
        self.numbers = itertools.count(1)
        # Tokens of another process do not pass for ours: the serial starts at random.
        self.serials = itertools.count(secrets.randbits(40))
        self.past_executions = 0
        self.miss = _MISS(self._on_miss)
        self._load()
        self._register()
        atexit.register(self._stop)
        # TensorFlow runs and deletes kernels after Python is gone: code and records are never freed.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))

    def adopt(self, program: Program) -> int:
        """A fresh token: serial * CAPACITY + number."""
        with self._lock:
            free = (n for n in itertools.chain(self.numbers) if n not in self.programs)
            number = next(free)
            if number >= CAPACITY:
                raise InternalError(f"more than {CAPACITY} functions compiled in one process")
            self.programs[number] = program
            return (next(self.serials) * CAPACITY + number) & (2**63 - 1)

    def collect(self) -> None:
        """Forget closed programs that no kernel refers to."""
        with self._lock:
            for number, program in list(self.programs.items()):
                if program.closed and program.is_idle:
                    self.past_executions += program.executions
                    self.table[number] = 0
                    self.past_executions += program.executions
                    del self.programs[number]

    def _load(self) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        addresses = {name: ctypes.cast(getattr(self.tf, name), ctypes.c_void_p).value or 0 for name in C_API}
        miss = ctypes.cast(self.miss, ctypes.c_void_p).value or 0
        module = native_code.build(addresses, ctypes.addressof(self.table), CAPACITY, miss, self.stopped.address)
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), opt=2, jit=True)
        parsed = llvm.parse_assembly(str(module))
        parsed.verify()
        self.engine = llvm.create_mcjit_compiler(parsed, machine)
        self.engine.finalize_object()

    def _register(self) -> None:
        lib, engine = self.tf, self.engine
        status = lib.TF_NewStatus()
        pointer, text = ctypes.c_void_p, ctypes.c_char_p
        for name in ("TF_NewOpDefinitionBuilder", "TF_NewKernelBuilder"):
            getattr(lib, name).restype = pointer
        lib.TF_NewOpDefinitionBuilder.argtypes = [text]
        lib.TF_NewKernelBuilder.argtypes = [text, text, pointer, pointer, pointer]
        lib.TF_RegisterKernelBuilder.argtypes = [text, pointer, pointer]
        lib.TF_RegisterOpDefinition.argtypes = [pointer, pointer]
        unknown_shape = ctypes.cast(lib.TF_ShapeInferenceContextSetUnknownShape, pointer)
        for op, compute, outputs in ((RUN, "tfxla_compute", True), (READY, "tfxla_ready", False)):
            builder = pointer(lib.TF_NewOpDefinitionBuilder(op.encode()))
            attrs = [b"program: int", b"Tin: list(type) >= 0"] + [b"Tout: list(type) >= 0"] * outputs
            for spec in attrs:
                lib.TF_OpDefinitionBuilderAddAttr(builder, spec)
            lib.TF_OpDefinitionBuilderAddInput(builder, b"args: Tin")
            lib.TF_OpDefinitionBuilderAddOutput(builder, b"results: Tout" if outputs else b"ready: bool")
            lib.TF_OpDefinitionBuilderSetIsStateful(builder, ctypes.c_bool(True))
            lib.TF_OpDefinitionBuilderSetShapeInferenceFunction(builder, unknown_shape)
            lib.TF_RegisterOpDefinition(builder, status)
            self._check(status, op)
            functions = (engine.get_function_address(n) for n in ("tfxla_create", compute, "tfxla_delete"))
            kernel = lib.TF_NewKernelBuilder(op.encode(), b"CPU", *functions)
            lib.TF_RegisterKernelBuilder(op.encode(), kernel, status)
            self._check(status, op)
        lib.TF_DeleteStatus(status)

    def _check(self, status: int, op: str) -> None:
        if self.tf.TF_GetCode(status):
            raise InternalError(f"TensorFlow refused to register op {op}", "Two copies of tfxla_cluster in a process?")

    def _stop(self) -> None:
        self.stopped[0] = 1

    def _on_miss(self, address: int, count: int, tensors: Any, status: int, refusal_is_answer: int) -> int:
        """Machine code's call: 0 when an entry for these inputs is installed, else `status` says why not."""
        try:
            token = ctypes.c_int64.from_address(address).value
            program = self.programs[token % CAPACITY]
        except BaseException as error:  # noqa: BLE001 - nothing may propagate into machine code
            return self._fail(status, INTERNAL, f"{type(error).__name__}: {error}")
        try:
            entry = program.prepare([self._view(tensors[i]) for i in range(count)])
            if entry.record or refusal_is_answer:
                return 0
            raise entry.keep  # type: ignore[misc]
        except BaseException as error:  # noqa: BLE001 - nothing may propagate into machine code
            program.failure = error
            return self._fail(status, *describe(error))

    def _view(self, tensor: int) -> InputView:
        lib = self.tf
        dims = tuple(lib.TF_Dim(tensor, axis) for axis in range(lib.TF_NumDims(tensor)))
        size = lib.TF_TensorByteSize(tensor)
        return InputView(lib.TF_TensorType(tensor), dims, lib.TF_TensorData(tensor) or 0, size)

    def _fail(self, status: int, code: int, message: str) -> int:
        text = ctypes.create_string_buffer(message.encode())
        self.tf.TF_SetStatus(status, code, ctypes.addressof(text))
        return 1


def describe(error: BaseException) -> tuple[int, str]:
    """(status code, text) of an exception raised while compiling."""
    if isinstance(error, tf.errors.OpError):
        return error.error_code, error.message
    if isinstance(error, UnsupportedError):
        return INVALID_ARGUMENT, str(error)
    return INTERNAL, f"tfxla_cluster failed while compiling: {type(error).__name__}: {error}"


def ensure_registered() -> None:
    """Register the ops now (needed before a graph that holds them is imported)."""
    _Library.get()


def executions() -> int:
    """Executions of native code in this process so far."""
    library = _Library._instance
    if library is None:
        return 0
    with library._lock:
        return library.past_executions + sum(program.executions for program in library.programs.values())
