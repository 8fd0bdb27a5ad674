"""The process's one native library: machine code of the native ops, the table of programs, their registration."""

from __future__ import annotations

import atexit
import ctypes
import itertools
import os
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import llvmlite.binding as llvm
import llvmlite.ir as ll
import numpy as np
import tensorflow as tf

from ...errors import (
    DataError,
    InternalError,
    LoweringError,
    RankError,
    TfxlaError,
    TuningError,
    UninitializedError,
    UnsupportedError,
)
from ..devices import HOST, device_of
from . import dispatch_code
from .builder import C_API, FAILED_PRECONDITION, GPU_API, INTERNAL, INVALID_ARGUMENT, UNAVAILABLE, program_word
from .records import Entry, Words, program_record

RUN, READY = "TfxlaRun", "TfxlaReady"
CAPACITY = 1 << 20
FAILURE = b"tfxla_cluster.failure"
"""Payload of an error's status: under which number the program keeps what was raised while compiling."""
NOT_NOW = 2  # what the callback answers where an execution is not to wait for compilation

_MISS = ctypes.CFUNCTYPE(
    ctypes.c_int64,
    ctypes.c_void_p,
    ctypes.c_int64,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.c_void_p,
    ctypes.c_int64,
    ctypes.c_int64,
    ctypes.c_void_p,
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
    while the compile callback runs). `fetch(target)`: copies it where it lies in a device's memory."""

    dtype: int
    dims: tuple[int, ...]
    address: int
    size: int
    fetch: Callable[[int], None] | None = field(default=None, compare=False)

    def bytes(self) -> bytes:
        if not self.size:
            return b""
        if self.fetch is None:
            return ctypes.string_at(self.address, self.size)
        data = ctypes.create_string_buffer(self.size)
        self.fetch(ctypes.addressof(data))
        return data.raw

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

    def prepare(self, inputs: list[InputView], device: int) -> Entry: ...

    def is_ready(self, inputs: list[InputView], device: int) -> bool: ...

    def failed(self, error: BaseException) -> int: ...

    def line_of(self, node: str) -> str: ...

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
        self.api = {name: ctypes.cast(getattr(self.tf, name), ctypes.c_void_p).value or 0 for name in C_API}
        self.failed = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(self._on_failure)
        self.api["failed"] = ctypes.cast(self.failed, ctypes.c_void_p).value or 0
        self.explain: Callable[[int], Exception] = lambda code: TfxlaError(f"status {code}")
        self.gpu: dict[str, Any] = {}  # functions of GPU_API
        self.engine = self.load(self._dispatch(self.api))
        self.gpu_engine: Any = None
        self.define_ops(RUN, READY)
        self.register_kernels(self.engine, HOST, RUN, READY)
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
        """Forget closed programs that no kernel refers to, and free their executables.

        A program that was only called directly is named for ever by TensorFlow's cache of eager kernels: its
        record serves the next program of the same types.
        """
        unreachable = []
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
                    unreachable.append(program)
        for program in unreachable:  # those who count its executions may keep it
            program.clear()

    def add_gpu(self, addresses: Mapping[str, int]) -> None:
        """Register the ops for GPUs too. `addresses`: of GPU_API. Raises InternalError."""
        with self._lock:
            if self.gpu_engine is None:
                self.gpu_engine = self.load_gpu(addresses)
                self.register_kernels(self.gpu_engine, "GPU", RUN, READY)

    def load_gpu(self, addresses: Mapping[str, int]) -> Any:
        """Machine code of the ops for GPUs."""
        for name, (result, kinds) in GPU_API.items():
            kind = ctypes.CFUNCTYPE(_CTYPES[str(result)], *(_CTYPES[str(k)] for k in kinds))
            self.gpu[name] = kind(addresses[name])
        return self.load(self._dispatch({**self.api, **addresses}))

    def _dispatch(self, addresses: Mapping[str, int]) -> ll.Module:
        miss = ctypes.cast(self.miss, ctypes.c_void_p).value or 0
        return dispatch_code.build(addresses, ctypes.addressof(self.table), CAPACITY, miss, self.stopped.address)

    def load(self, module: ll.Module) -> Any:
        """An engine that holds the machine code of a module."""
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), opt=2, jit=True, reloc="static", codemodel="large"
        )  # no 32-bit relocations to overflow
        parsed = llvm.parse_assembly(str(module))
        parsed.verify()
        engine = llvm.create_mcjit_compiler(parsed, machine)
        engine.finalize_object()
        return engine

    def define_ops(self, run: str, ready: str) -> None:
        """Register the two ops under these names."""
        lib = self.tf
        status = lib.TF_NewStatus()
        pointer, text = ctypes.c_void_p, ctypes.c_char_p
        lib.TF_NewOpDefinitionBuilder.restype = pointer
        lib.TF_NewOpDefinitionBuilder.argtypes = [text]
        lib.TF_RegisterOpDefinition.argtypes = [pointer, pointer]
        unknown_shape = ctypes.cast(lib.TF_ShapeInferenceContextSetUnknownShape, pointer)
        for op, outputs in ((run, True), (ready, False)):
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
        lib.TF_DeleteStatus(status)

    def register_kernels(self, engine: Any, device_type: str, run: str, ready: str) -> None:
        """Kernels of the ops of these names for a device type, from the machine code in `engine`."""
        lib = self.tf
        status = lib.TF_NewStatus()
        pointer, text = ctypes.c_void_p, ctypes.c_char_p
        lib.TF_NewKernelBuilder.restype = pointer
        lib.TF_NewKernelBuilder.argtypes = [text, text, pointer, pointer, pointer]
        lib.TF_KernelBuilder_HostMemory.argtypes = [pointer, text]
        lib.TF_RegisterKernelBuilder.argtypes = [text, pointer, pointer]
        for op, compute in ((run, "tfxla_compute"), (ready, "tfxla_ready")):
            functions = [engine.get_function_address(n) for n in ("tfxla_create", compute, "tfxla_delete")]
            kernel = lib.TF_NewKernelBuilder(op.encode(), device_type.encode(), *functions)
            if compute == "tfxla_ready" and device_type != HOST:
                lib.TF_KernelBuilder_HostMemory(kernel, b"ready")  # a branch on the host asks for it
            lib.TF_RegisterKernelBuilder(op.encode(), kernel, status)
            self._check(status, op)
        lib.TF_DeleteStatus(status)

    def _check(self, status: int, op: str) -> None:
        if self.tf.TF_GetCode(status):
            raise InternalError(f"TensorFlow refused to register op {op}", "Two copies of tfxla_cluster in a process?")

    def _stop(self) -> None:
        self.stopped[0] = 1

    def _on_miss(
        self, address: int, count: int, tensors: Any, status: int, refusal_is_answer: int, device: int, context: int
    ) -> int:
        """Machine code's call: 0 when an entry for these inputs is installed, NOT_NOW where there is to be none yet,
        else `status` says why not."""
        try:
            token = ctypes.c_int64.from_address(address).value
            program = self.programs[token % CAPACITY]
        except BaseException as error:  # noqa: BLE001 - nothing may propagate into machine code
            return self._fail(status, INTERNAL, f"{type(error).__name__}: {error}")
        try:
            inputs = [self._view(tensors[i], i, context if device_of(device) != HOST else 0) for i in range(count)]
            if refusal_is_answer and not program.is_ready(inputs, device):
                return NOT_NOW
            entry = program.prepare(inputs, device)
            if entry.record or refusal_is_answer:
                return 0
            raise entry.keep
        except BaseException as error:  # noqa: BLE001 - nothing may propagate into machine code
            code = self._fail(status, *describe(error))
            number = program.failed(error)
            if number:
                self.tf.TF_SetPayload(status, FAILURE, str(number).encode())
            return code

    def _on_failure(self, status: int, code: int, token: int) -> None:
        """Machine code's call: an executable of the program with that token returned `code`."""
        try:
            reason = self.explain(code)
            if isinstance(reason, DataError):
                program = self.programs.get(token % CAPACITY)
                line = program.line_of(reason.node) if program is not None else ""
                where = f" at {line}" if line else ""
                self._fail(status, INVALID_ARGUMENT, f"{reason.message}\n\t [[{{{{node {reason.node}}}}}]]{where}")
                return
        except Exception as error:  # noqa: BLE001 - nothing may propagate into machine code
            reason = InternalError(f"status {code}, {error}")
        self._fail(status, INTERNAL, f"compiled code of tfxla_cluster reported a failure: {reason}")

    def _view(self, tensor: int, number: int = 0, context: int = 0) -> InputView:
        """Input `number` of a kernel; `context`: TensorFlow's, of a kernel on a GPU."""
        lib = self.tf
        dims = tuple(lib.TF_Dim(tensor, axis) for axis in range(lib.TF_NumDims(tensor)))
        size, address = lib.TF_TensorByteSize(tensor), lib.TF_TensorData(tensor) or 0

        def fetch(target: int) -> None:
            if self.gpu["tfxla_read"](context, number, target, address, size):
                raise tf.errors.InternalError(None, None, "an input could not be copied from the GPU")

        is_far = context and not self.gpu["tfxla_on_host"](context, number)
        return InputView(lib.TF_TensorType(tensor), dims, address, size, fetch if is_far else None)

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
    if isinstance(error, RankError):
        return UNAVAILABLE, str(error)
    if isinstance(error, (LoweringError, TuningError, UnsupportedError)):
        return INVALID_ARGUMENT, str(error)
    return INTERNAL, f"tfxla_cluster failed while compiling: {type(error).__name__}: {error}"
