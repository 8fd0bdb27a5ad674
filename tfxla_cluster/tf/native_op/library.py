"""The process's one native library: machine code of the native ops, the table of programs, their registration."""

from __future__ import annotations

import atexit
import ctypes
import itertools
import os
import secrets
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import llvmlite.binding as llvm
import numpy as np
import tensorflow as tf

from ...errors import InternalError, LoweringError, UninitializedError, UnsupportedError
from ..devices import BACKENDS
from . import dispatch_code
from .builder import C_API, FAILED_PRECONDITION, INTERNAL, INVALID_ARGUMENT, program_word
from .records import Entry, Words, program_record

RUN, READY = "TfxlaRun", "TfxlaReady"
CAPACITY = 1 << 20
FAILURE = b"tfxla_cluster.failure"
"""Payload of an error's status: under which number the program keeps what was raised while compiling."""
NOT_NOW = 2  # what the callback answers where an execution is not to wait for compilation

_MISS = ctypes.CFUNCTYPE(
    ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p, ctypes.c_int64
)
_CTYPES: dict[str, Any] = {
    "i8*": ctypes.c_void_p,
    "i8**": ctypes.c_void_p,
    "i64*": ctypes.c_void_p,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "void": None,
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


class Runs(Protocol):
    """What the library asks of a program (native_op.Program)."""

    closed: bool
    recyclable: bool
    in_graph: bool
    input_types: tuple[int, ...]
    output_types: tuple[int, ...]
    token: int
    record: Words

    @property
    def executions(self) -> int: ...

    @property
    def is_idle(self) -> bool: ...

    def prepare(self, inputs: list[InputView]) -> Entry: ...

    def is_ready(self, inputs: list[InputView]) -> bool: ...

    def failed(self, error: BaseException) -> int: ...

    def clear(self) -> None: ...


class Library:
    """The process's one native library: machine code, program table, op registration."""

    _instance: Library | None = None
    _lock = threading.Lock()

    @classmethod
    def get(cls) -> Library:
        """Registers the ops on first use."""
        if cls._instance is None:
            with cls._lock:
                if cls._instance is None:
                    cls._instance = cls()
        return cls._instance

    @classmethod
    def loaded(cls) -> Library | None:
        """The library if it has been needed yet."""
        return cls._instance

    def adopted(self) -> list[Any]:
        """The programs that can run, or are being dropped."""
        with self._lock:
            return list(self.programs.values())

    def executions(self) -> int:
        """How often its programs have run native code, those included that are gone."""
        with self._lock:
            return self.past_executions + sum(program.executions for program in self.programs.values())

    def __init__(self) -> None:
        path = os.path.join(tf.sysconfig.get_lib(), "libtensorflow_framework.so.2")
        self.tf = ctypes.CDLL(path)
        for name, (result, kinds) in C_API.items():
            function = self.tf[name]
            function.restype = _CTYPES[str(result)]
            function.argtypes = [_CTYPES[str(kind)] for kind in kinds]
            setattr(self.tf, name, function)
        self.tf.TF_SetPayload.restype = None
        self.tf.TF_SetPayload.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
        self.table = (ctypes.c_int64 * CAPACITY)()
        self.stopped = Words([0])
        self.programs: dict[int, Runs] = {}
        self.past_executions = 0  # of programs that are gone
        # Records that only TensorFlow's cache of eager kernels still names, by the op's types.
        self.spare: dict[tuple[Any, Any], list[Words]] = {}
        self.numbers = itertools.count(1)
        # Tokens of another process do not pass for ours: the serial starts at random.
        self.serials = itertools.count(secrets.randbits(40))
        self.miss = _MISS(self._on_miss)
        self._load()
        self._register()
        atexit.register(self._stop)
        # TensorFlow runs and deletes kernels after Python is gone: code and records are never freed.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))

    def adopt(self, program: Runs, input_types: Sequence[int], output_types: Sequence[int]) -> Words:
        """The record of a new program, its word `serial` the token: serial * CAPACITY + number."""
        with self._lock:
            spare = self.spare.get((input_types, output_types))
            if spare:
                record = spare.pop()
                self.programs[record[program_word("serial")] % CAPACITY] = program
                return record
            number = next(n for n in self.numbers if n not in self.programs)
            if number >= CAPACITY:
                raise InternalError(f"more than {CAPACITY} functions compiled in one process")
            token = (next(self.serials) * CAPACITY + number) & (2**63 - 1)
            record = program_record(token, len(input_types), len(output_types))
            self.programs[number], self.table[number] = program, record.address
            return record

    def collect(self) -> None:
        """Forget closed programs that no kernel refers to.

        A program that was only called directly is named for ever by TensorFlow's cache of eager kernels: its
        record serves the next program of the same types.
        """
        with self._lock:
            for number, program in list(self.programs.items()):
                if not program.closed or program.record[program_word("in_flight")]:
                    continue
                reusable = program.recyclable and not program.in_graph
                if not (reusable or program.is_idle):
                    continue
                self.past_executions += program.executions
                del self.programs[number]
                if reusable:
                    program.record[program_word("executions")] = 0
                    self.spare.setdefault((program.input_types, program.output_types), []).append(program.record)
                else:
                    self.table[number] = 0

    def _load(self) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        addresses = {name: ctypes.cast(getattr(self.tf, name), ctypes.c_void_p).value or 0 for name in C_API}
        miss = ctypes.cast(self.miss, ctypes.c_void_p).value or 0
        module = dispatch_code.build(addresses, ctypes.addressof(self.table), CAPACITY, miss, self.stopped.address)
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), opt=2, jit=True, reloc="static", codemodel="large"
        )  # no 32-bit relocations to overflow
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
            functions = [engine.get_function_address(n) for n in ("tfxla_create", compute, "tfxla_delete")]
            for device_type in BACKENDS:
                kernel = lib.TF_NewKernelBuilder(op.encode(), device_type.encode(), *functions)
                lib.TF_RegisterKernelBuilder(op.encode(), kernel, status)
                self._check(status, op)
        lib.TF_DeleteStatus(status)

    def _check(self, status: int, op: str) -> None:
        if self.tf.TF_GetCode(status):
            raise InternalError(f"TensorFlow refused to register op {op}", "Two copies of tfxla_cluster in a process?")

    def _stop(self) -> None:
        self.stopped[0] = 1

    def _on_miss(self, address: int, count: int, tensors: Any, status: int, refusal_is_answer: int) -> int:
        """Machine code's call: 0 when an entry for these inputs is installed, NOT_NOW where there is to be none yet,
        else `status` says why not."""
        try:
            token = ctypes.c_int64.from_address(address).value
            program = self.programs[token % CAPACITY]
        except BaseException as error:  # noqa: BLE001 - nothing may propagate into machine code
            return self._fail(status, INTERNAL, f"{type(error).__name__}: {error}")
        try:
            inputs = [self._view(tensors[i]) for i in range(count)]
            if refusal_is_answer and not program.is_ready(inputs):
                return NOT_NOW
            entry = program.prepare(inputs)
            if entry.record or refusal_is_answer:
                return 0
            raise entry.keep
        except BaseException as error:  # noqa: BLE001 - nothing may propagate into machine code
            code = self._fail(status, *describe(error))
            number = program.failed(error)
            if number:
                self.tf.TF_SetPayload(status, FAILURE, str(number).encode())
            return code

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
    if isinstance(error, UninitializedError):
        return FAILED_PRECONDITION, str(error)
    if isinstance(error, (LoweringError, UnsupportedError)):
        return INVALID_ARGUMENT, str(error)
    return INTERNAL, f"tfxla_cluster failed while compiling: {type(error).__name__}: {error}"
