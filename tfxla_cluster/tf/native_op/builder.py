"""What the native ops' machine code is built from: record layouts, TensorFlow's C API, control flow.

Records are arrays of 8-byte words (`records` writes them; `dispatch_code`, `guard_code` and `run_code` read them):

Program: serial, references, in flight, list, inputs, outputs, executions
List:    count, entry...                                     (immutable once published)
Entry:   record, execute, guards, guard count, parameters, parameter count, outputs, result count, sizes, size count,
         executions, device
Guards:  per guard: kind, input, axis, and what is wanted: a number; least, most; input, axis; bytes, their address
Parameters: per parameter of the executable: op input or -1, where its elements are then (0: it is never read)
Outputs: per op output: input that passes through or -1, result index, dtype, element bytes, 1 where the size is
         known only after the run, rank, then per dim a postfix program: word count, then (operator, operand) pairs
Sizes:   per size: input, axis (-1 and the address of the program of its bound: one that the run produces)
Table:   owner (a Python object that keeps all of it), rows of the thread's state, name of the host's device, count,
         plan...                                             (immutable once in its slot)
Plan:    address of a word that is 0 once it may be taken no more, program, argument count, arguments, capture count,
         captures (TFE_TensorHandle), Python's callable that packs results or 0   (`direct_code` reads tables and plans)

`record` 0 marks an entry that says "not compilable for these inputs". `device`: the CUDA ordinal of the GPU that an
entry is for, HOST_DEVICE of one for the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import llvmlite.ir as ll

from ...ir.guard import KINDS
from ...ir.size_operators import OPERATORS

I1, I8, I32, I64 = (ll.IntType(bits) for bits in (1, 8, 32, 64))
PTR = I8.as_pointer()
P64 = I64.as_pointer()
PPTR = PTR.as_pointer()
VOID = ll.VoidType()

PROGRAM_WORDS = ("serial", "references", "in_flight", "list", "inputs", "outputs", "executions")
ENTRY_WORDS = (
    "record",
    "execute",
    "guards",
    "guard_count",
    "parameters",
    "parameter_count",
    "outputs",
    "result_count",
    "sizes",
    "size_count",
    "executions",
    "device",
)
TABLE_WORDS = ("owner", "state", "host", "count", "plans")
PLAN_WORDS = ("live", "program", "argument_count", "arguments", "capture_count", "captures", "pack")
HOST_DEVICE = -1
# A guard's row, and what the number of its kind means.
GUARD_WORDS = ("kind", "input", "axis", "first", "second")
GUARD_KINDS = tuple(name for name, kind in KINDS.items() if kind.about != "process")
# Operators of a dim's postfix program.
DIM_OPERATORS = ("const", "size", *OPERATORS)
STACK_SLOTS = 32
MAX_RANK = 64  # of an output that is allocated

# Name, result, arguments: the C API functions the code calls (tensorflow/c/kernels.h, tf_tensor.h, tf_status.h).
C_API: Mapping[str, tuple[ll.Type, tuple[ll.Type, ...]]] = {
    "TF_NewStatus": (PTR, ()),
    "TF_DeleteStatus": (VOID, (PTR,)),
    "TF_GetCode": (I32, (PTR,)),
    "TF_SetStatus": (VOID, (PTR, I32, PTR)),
    "TF_GetInput": (VOID, (PTR, I32, PPTR, PTR)),
    "TF_SetOutput": (VOID, (PTR, I32, PTR, PTR)),
    "TF_AllocateOutput": (PTR, (PTR, I32, I32, P64, I32, I64, PTR)),
    "TF_AllocateTensor": (PTR, (I32, P64, I32, I64)),
    "TF_OpKernelContext_Failure": (VOID, (PTR, PTR)),
    "TF_OpKernelConstruction_Failure": (VOID, (PTR, PTR)),
    "TF_OpKernelConstruction_GetAttrInt64": (VOID, (PTR, PTR, P64, PTR)),
    "TF_TensorType": (I32, (PTR,)),
    "TF_NumDims": (I32, (PTR,)),
    "TF_Dim": (I64, (PTR, I32)),
    "TF_TensorData": (PTR, (PTR,)),
    "TF_TensorByteSize": (I64, (PTR,)),
    "TF_DeleteTensor": (VOID, (PTR,)),
}
# The same of gpu_context.cc, which the code of a GPU's kernels calls.
GPU_API: Mapping[str, tuple[ll.Type, tuple[ll.Type, ...]]] = {
    "tfxla_device": (I64, (PTR,)),
    "tfxla_begin": (VOID, (PTR, P64)),
    "tfxla_end": (VOID, (P64,)),
    "tfxla_allocate": (PTR, (P64, I64)),
    "tfxla_on_host": (I64, (PTR, I64)),
    "tfxla_read": (I64, (PTR, I64, PTR, PTR, I64)),
    "tfxla_copy": (I64, (PTR, PTR, PTR, I64)),
}
# Python's own, not called once it shuts down.
PYTHON_API: Mapping[str, tuple[ll.Type, tuple[ll.Type, ...]]] = {"failed": (VOID, (PTR, I64, I64))}
# TensorFlow's eager runtime, and what its Python module has (tensorflow/c/eager/c_api.h, python/eager/pywrap_tfe.h).
EAGER_API: Mapping[str, tuple[ll.Type, tuple[ll.Type, ...]]] = {
    "TFE_NewTensorHandle": (PTR, (PTR, PTR)),
    "TFE_DeleteTensorHandle": (VOID, (PTR,)),
    "TFE_TensorHandleDeviceName": (PTR, (PTR, PTR)),
    "TFE_TensorHandleResolve": (PTR, (PTR, PTR)),
    "TFE_Py_TapeSetIsEmpty": (PTR, ()),
    "GetEagerContextThreadLocalData": (PTR, (PTR,)),
    "EagerTensor_CheckExact": (I1, (PTR,)),
    "EagerTensor_Handle": (PTR, (PTR,)),
    "EagerTensorFromHandle": (PTR, (PTR, I1)),
    "strcmp": (I32, (PTR, PTR)),
}
# Python's C API.
PYTHON_C_API: Mapping[str, tuple[ll.Type, tuple[ll.Type, ...]]] = {
    "PyTuple_Size": (I64, (PTR,)),
    "PyTuple_GetItem": (PTR, (PTR, I64)),
    "PyList_New": (PTR, (I64,)),
    "PyList_SetItem": (I32, (PTR, I64, PTR)),
    "PyLong_AsVoidPtr": (PTR, (PTR,)),
    "PyDict_GetItem": (PTR, (PTR, PTR)),
    "PyObject_GetAttr": (PTR, (PTR, PTR)),
    "PyObject_IsTrue": (I32, (PTR,)),
    "PyObject_CallOneArg": (PTR, (PTR, PTR)),
    "PyErr_Clear": (VOID, ()),
    "Py_IncRef": (VOID, (PTR,)),
    "Py_DecRef": (VOID, (PTR,)),
    "PyEval_SaveThread": (PTR, ()),
    "PyEval_RestoreThread": (VOID, (PTR,)),
}
INVALID_ARGUMENT, INTERNAL, CANCELLED, RESOURCE_EXHAUSTED, FAILED_PRECONDITION, UNAVAILABLE = 3, 13, 1, 8, 9, 14
# Arguments of the miss callback: program, inputs, tensors, status, 1 when a refusal is an answer (ready op), device,
# TensorFlow's context of the kernel.
MISS = ll.FunctionType(I64, (PTR, I64, PPTR, PTR, I64, I64, PTR))
EXECUTE = ll.FunctionType(I32, (PTR, PPTR, PPTR, P64, P64))
_API = {**C_API, **GPU_API, **PYTHON_API, **EAGER_API, **PYTHON_C_API}
# Words of a launch, EXECUTE's last argument (null on the CPU): stream, allocate, its owner, reserved.
LAUNCH_WORDS = 4
NO_MEMORY = -2
"""What an executable's entry returns where there is no memory for its temporaries."""


class Code:
    """One function under construction: structured control flow over an `IRBuilder`."""

    def __init__(self, module: ll.Module, name: str, kind: ll.FunctionType, addresses: Mapping[str, int]) -> None:
        self.function = ll.Function(module, kind, name)
        self.b = ll.IRBuilder(self.function.append_basic_block("entry"))
        self.addresses = addresses
        self.strings = 0

    @property
    def args(self) -> tuple[ll.Argument, ...]:
        return self.function.args

    @property
    def on_gpu(self) -> bool:
        """Whether this is code of a GPU's kernels."""
        return "tfxla_device" in self.addresses

    def api(self, name: str, *args: ll.Value) -> ll.Value:
        """Call a function of one of the tables above."""
        result, kinds = _API[name]
        pointer = self.b.inttoptr(I64(self.addresses[name]), ll.FunctionType(result, kinds).as_pointer())
        return self.b.call(pointer, args)

    def load(self, base: ll.Value, index: ll.Value | int) -> ll.Value:
        return self.b.load(self.b.gep(base, (i64(index),)))

    def store(self, value: ll.Value, base: ll.Value, index: ll.Value | int) -> None:
        self.b.store(value, self.b.gep(base, (i64(index),)))

    def text(self, message: str) -> ll.Value:
        """The address of a C string."""
        data = bytearray(message.encode() + b"\0")
        kind = ll.ArrayType(I8, len(data))
        name = f"{self.function.name}.text{self.strings}"
        self.strings += 1
        constant = ll.GlobalVariable(self.b.module, kind, name)
        constant.global_constant, constant.initializer, constant.linkage = True, ll.Constant(kind, data), "private"
        return self.b.bitcast(constant, PTR)

    def copy(self, target: ll.Value, source: ll.Value, count: ll.Value) -> None:
        """Copy `count` bytes between places that do not overlap."""
        copy = self.b.module.declare_intrinsic("llvm.memcpy", [PTR, PTR, I64])
        self.b.call(copy, (target, source, count, I1(0)))

    @contextmanager
    def loop(self, count: ll.Value) -> Iterator[ll.Value]:
        """for i in range(count): the body is the `with` block."""
        head, body, done = (self.function.append_basic_block(n) for n in ("head", "body", "done"))
        before = self.b.block
        self.b.branch(head)
        self.b.position_at_end(head)
        index = self.b.phi(I64)
        index.add_incoming(I64(0), before)
        self.b.cbranch(self.b.icmp_signed("<", index, count), body, done)
        self.b.position_at_end(body)
        yield index
        index.add_incoming(self.b.add(index, I64(1)), self.b.block)
        self.b.branch(head)
        self.b.position_at_end(done)

    def failed(self, status: ll.Value) -> ll.Value:
        return self.b.icmp_signed("!=", self.api("TF_GetCode", status), I32(0))


def i64(value: ll.Value | int) -> ll.Value:
    """A 64-bit constant, or `value` itself when it is one already."""
    return I64(value) if isinstance(value, int) else value


def program_word(name: str) -> int:
    """Which word of a program record holds `name`."""
    return PROGRAM_WORDS.index(name)


def entry_word(name: str) -> int:
    """Which word of an entry record holds `name`."""
    return ENTRY_WORDS.index(name)


def table_word(name: str) -> int:
    """Which word of a table of direct calls holds `name`."""
    return TABLE_WORDS.index(name)


def plan_word(name: str) -> int:
    """Which word of a plan of direct calls holds `name`."""
    return PLAN_WORDS.index(name)
