"""Runs generated Triton source on NumPy arrays in Triton's interpreter.

The switch is an environment variable read at import, so the interpreter is a process of its own; one serves
all tests of a process. What it lacks or has wrong is put right here: libdevice's functions, rounding to bf16, products
of it, and the type of comparisons of scalars.
"""

from __future__ import annotations

import atexit
import functools
import math
import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Sequence
from types import SimpleNamespace

import ml_dtypes
import numpy as np

from tfxla_cluster.codegen.triton.triton_source import TritonSource


def run(
    source: TritonSource, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], sizes: Sequence[int], tasks: int
) -> list[np.ndarray]:
    """The output arrays (which begin with what `outputs` hold) after `tasks` programs ran."""
    process = _process()
    assert process.stdin is not None
    assert process.stdout is not None
    pickle.dump((source, list(inputs), list(outputs), list(sizes), tasks), process.stdin)
    process.stdin.flush()
    found = pickle.load(process.stdout)
    if isinstance(found, str):
        raise RuntimeError(f"{found}\n{source.text}")
    return found


@functools.cache
def _process() -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.codegen.triton.interpreter"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "TRITON_INTERPRET": "1"},
    )
    atexit.register(process.kill)
    return process


_BYTES = {"bool": "int8", "int4": "int8", "uint4": "uint8"}  # what lies in memory


class _Tensor:
    """What Triton's interpreter asks of a torch tensor and its storage, over a NumPy array.

    "Device" and host copy are the same memory, so copying back is nothing.
    """

    def __init__(self, array: np.ndarray) -> None:
        self.array = np.ascontiguousarray(array)
        name = self.array.dtype.name
        self.dtype = _Name("uint8" if name.startswith("float8") else _BYTES.get(name, name))

    def data_ptr(self):
        return self.array.ctypes.data

    def untyped_storage(self):
        return self

    def cpu(self):
        return self

    def new_empty(self, *_, **__):
        return _Tensor(self.array[:0])

    def set_(self, storage, *_):
        self.array = storage.array

    def storage_offset(self):
        return 0

    def size(self):
        return self.array.shape

    def stride(self):
        return tuple(s // self.array.itemsize for s in self.array.strides)

    def copy_(self, other):
        assert other.array is self.array


class _Name(str):
    """A dtype whose text is what Triton's mangling looks up."""

    def __str__(self) -> str:
        return str.__str__(self)


_NAMES = {"rint": np.rint, "pow": np.power, "log1p": np.log1p, "fdiv_rn": np.divide, "ddiv_rn": np.divide}
_NAMES |= {"asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2, "sqrt_rn": np.sqrt}
_NAMES |= {"asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "rsqrt": lambda x: 1 / np.sqrt(x)}
_NAMES |= {"frcp_rn": np.reciprocal, "drcp_rn": np.reciprocal, "fsqrt_rn": np.sqrt, "dsqrt_rn": np.sqrt}
_NAMES |= {"erf": np.vectorize(math.erf, otypes=[np.float64])}


def _clz(x: np.ndarray) -> np.ndarray:
    rest, bits = x.view(f"u{x.itemsize}"), 8 * x.itemsize
    return np.vectorize(lambda n: bits - int(n).bit_length(), otypes=[np.int32])(rest)


def _popc(x: np.ndarray) -> np.ndarray:
    return np.bitwise_count(x.view(f"u{x.itemsize}"))


def _libdevice(symbol: str):
    """The NumPy function of a symbol such as __nv_tanhf."""
    name = symbol.removeprefix("__nv_")
    if name.startswith("clz"):
        return _clz
    if name.startswith("popc"):
        return _popc
    if name in _NAMES:
        return _NAMES[name]
    short = name.removesuffix("f")
    return _NAMES.get(short) or getattr(np, short)


def _mend_interpreter() -> None:
    import triton.language as tl
    from triton.language.extra.cuda import libdevice
    from triton.runtime import interpreter

    builder = interpreter.InterpreterBuilder
    cast, binary, handle = builder.cast_impl, builder.binary_op, interpreter.TensorHandle

    def cast_impl(self, src, dst_type):
        if dst_type.scalar == tl.bfloat16 and src.dtype.scalar in (tl.float32, tl.float64):
            return handle(src.data.astype(ml_dtypes.bfloat16).view(np.uint16), tl.bfloat16)
        if src.dtype.scalar == tl.bfloat16:
            return handle(
                src.data.view(ml_dtypes.bfloat16).astype(interpreter._get_np_dtype(dst_type)), dst_type.scalar
            )
        return cast(self, src, dst_type)

    def binary_op(self, lhs, rhs, op):
        found = binary(self, lhs, rhs, op)
        return handle(found.data, tl.int1) if found.data.dtype == np.bool_ else found

    def extern(self, lib, path, symbol, arguments, result, pure):
        kind = interpreter._get_np_dtype(result)
        return handle(np.asarray(_libdevice(symbol)(*(a.data for a in arguments))).astype(kind), result.scalar)

    def create_dot(self, a, b, total, *_):
        left, right = (x.data.view(ml_dtypes.bfloat16) if x.dtype.scalar == tl.bfloat16 else x.data for x in (a, b))
        kind = total.data.dtype
        return handle(np.matmul(left.astype(kind), right.astype(kind)) + total.data, total.dtype.scalar)

    def create_inline_asm(self, assembly, constraints, arguments, types, pure, pack):
        assert assembly == "tanh.approx.f32 $0, $1;", assembly
        return SimpleNamespace(get_result=lambda number: handle(np.tanh(arguments[number].data), tl.float32))

    builder.create_dot, builder.create_inline_asm = create_dot, create_inline_asm
    builder.cast_impl, builder.binary_op, builder.create_extern_elementwise = cast_impl, binary_op, extern
    interpreter.ReduceOps.generic_reduce, interpreter.ScanOps.generic_scan = _reduce, _scan
    interpreter._patch_builtin(libdevice, interpreter.interpreter_builder, interpreter._LangPatchScope())


def _combined(ops, left, right, dtypes):
    """The combine function of a reduction or scan on blocks, as arrays."""
    found = ops.combine_fn.fn(*(ops.to_tensor(d, t) for half in (left, right) for d, t in zip(half, dtypes)))
    found = found if isinstance(found, tuple) else (found,)
    return [np.broadcast_to(f.handle.data, d.shape) for f, d in zip(found, left)]


def _reduce(self, blocks):
    """Neighbours along the axis are combined until one is left: blocks at a time, where Triton's goes element by
    element."""
    assert self.axis is not None
    dtypes, data = [b.dtype for b in blocks], [np.moveaxis(b.handle.data, self.axis, 0) for b in blocks]
    while len(data[0]) > 1:
        data = _combined(self, [d[0::2] for d in data], [d[1::2] for d in data], dtypes)
    found = [np.expand_dims(d[0], self.axis) if self.keep_dims else d[0] for d in data]
    return [self.to_tensor(np.ascontiguousarray(f) if f.ndim else f, t) for f, t in zip(found, dtypes)]


def _scan(self, blocks):
    """Each element with the one 1, 2, 4, ... before it."""
    dtypes, data = [b.dtype for b in blocks], [np.moveaxis(b.handle.data, self.axis, 0) for b in blocks]
    step = 1
    while step < len(data[0]):
        after = _combined(self, [np.roll(d, step, 0) for d in data], data, dtypes)  # the length is a power of two
        data = [np.concatenate([d[:step], a[step:]]) for d, a in zip(data, after)]
        step *= 2
    return [self.to_tensor(np.ascontiguousarray(np.moveaxis(d, 0, self.axis)), t) for d, t in zip(data, dtypes)]


def _job(source: TritonSource, inputs, outputs, sizes, tasks) -> list[np.ndarray]:
    from tfxla_cluster.codegen.triton.artefacts import load

    tensors = [_Tensor(a.copy()) for a in (*inputs, *outputs)]
    load(source)[source.function][(tasks, *source.grid)](*tensors, *sizes)
    return [t.array for t in tensors[len(inputs) :]]


def main() -> None:
    _mend_interpreter()
    answers, sys.stdout = sys.stdout.buffer, sys.stderr
    while True:
        try:
            job = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            with np.errstate(all="ignore"):
                found = _job(*job)
        except Exception:  # noqa: BLE001  (whatever it is, the test that asked fails with it)
            found = traceback.format_exc()
        pickle.dump(found, answers)
        answers.flush()


if __name__ == "__main__":
    main()
