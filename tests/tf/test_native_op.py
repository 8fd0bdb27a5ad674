"""The native ops: guards, allocation, dispatch, refusals; entries made by hand."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import context

from tfxla_cluster.errors import UnsupportedError
from tfxla_cluster.held import Held
from tfxla_cluster.ir import dim as dims
from tfxla_cluster.ir.dim import Dim, make, sym
from tfxla_cluster.ir.guard import Guard, ordered
from tfxla_cluster.tf.native_op import op as native_op
from tfxla_cluster.tf.native_op.builder import HOST_DEVICE, program_word
from tfxla_cluster.tf.native_op.library import Library
from tfxla_cluster.tf.native_op.op import InputView, Program
from tfxla_cluster.tf.native_op.records import UNREAD, Entry, Output, postfix

F32, I32 = tf.float32.as_datatype_enum, tf.int32.as_datatype_enum
_ENTRY = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_int64),
)


@_ENTRY
def _double(record: int, inputs: Any, outputs: Any, sizes: Any) -> int:
    """outputs[0][: sizes[0]] = 2 * inputs[0]; record 7 reports a failure."""
    n = sizes[0]
    if n:
        kind = ctypes.c_float * n
        source, target = (np.frombuffer(kind.from_address(p[0]), np.float32) for p in (inputs, outputs))
        target[:] = source * 2
    return int(record == 7)


ADDRESS = ctypes.cast(_double, ctypes.c_void_p).value or 0


def program_of(compile: Callable[[list[InputView], str], Entry], inputs: list[int], outputs: list[int]) -> Program:
    return Program("test", inputs, outputs, compile)


def is_a(number: int, dtype: int, rank: int) -> list[Guard]:
    return [Guard("dtype", number, dtype), Guard("rank", number, rank)]


def _generic(views: list[InputView], device: str = "CPU", record: int = 1) -> Entry:
    """Doubles a vector of any size; the second input's value is guarded; the third output is the second input."""
    n = sym("n", 5)
    guards = ordered([*is_a(0, F32, 1), *is_a(1, I32, 0), Guard("value", 1, views[1].bytes())])
    outputs = (Output(F32, 4, (n,), 0), Output(F32, 4, (make("add", n, 1), 2), 1), Output(I32, passes=1))
    return Entry(guards, record, ADDRESS, (0, UNREAD), outputs, 2, (("n", 0, 0),))


@pytest.mark.parametrize("in_function", [False, True])
def test_guards_sizes_and_pass_through(in_function: bool) -> None:
    seen: list[tuple[int, ...]] = []

    def compile(views: list[InputView], device: str) -> Entry:
        seen.append(views[0].dims)
        return _generic(views)

    program = program_of(compile, [F32, I32], [F32, F32, I32])
    call: Any = _as_function(program) if in_function else program
    for n in (5, 0, 7):
        out = call(tf.range(n, dtype=tf.float32), tf.constant(3))
        assert out[0].numpy().tolist() == [2.0 * i for i in range(n)]
        assert out[1].shape == (n + 1, 2)
        assert out[2].numpy() == 3
    assert seen == [(5,)]
    assert call(tf.ones([5]), tf.constant(4))[2].numpy() == 4
    assert len(seen) == 2
    assert program.executions == 4
    assert call(tf.ones([5]), tf.constant(3))[2].numpy() == 3
    assert len(seen) == 2, "the first entry is found again"


def _as_function(program: Program, outputs: int = 3) -> Any:
    """The op inside a graph function; its last output is an int, the others floats."""
    x, k = (tf.TensorSpec(None, tf.float32), tf.TensorSpec([], tf.int32))
    plain = tf.function(lambda a, b: (*[a] * (outputs - 1), b)).get_concrete_function(x, k)
    definition = plain.function_def
    fdef = type(definition)()
    fdef.CopyFrom(definition)
    fdef.signature.name = f"test_native_{program.token}"
    del fdef.node_def[:]
    fdef.node_def.append(program.node("op", [a.name for a in fdef.signature.input_arg]))
    for i, out in enumerate(fdef.signature.output_arg):
        fdef.ret[out.name] = f"op:results:{i}"
    ctx = context.context()
    ctx.add_function_def(fdef)
    return lambda *args: ctx.call_function(fdef.signature.name.encode(), list(args), outputs)


def test_refusal_is_cached_and_told_by_ready() -> None:
    asked = []

    def compile(views: list[InputView], device: str) -> Entry:
        asked.append(views[0].dims)
        raise UnsupportedError("op X of f32 is not compiled", "Do without")

    program = program_of(compile, [F32], [F32])
    for _ in range(2):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"op X of f32 is not compiled\. Do without"):
            program(tf.ones([2]))
    assert asked == [(2,)]
    ready = _ready(program)
    assert not ready(tf.ones([2]))
    assert not ready(tf.ones([3]))
    assert asked == [(2,), (3,)]


def _nested(depth: int) -> Dim:
    """A size that takes `depth` values on the stack: n + (n + (... ))."""
    n = sym("n", 5)
    found: Dim = n
    for k in range(depth - 1):
        found = make("max", make("mul", n, k + 2), found)
    return found


@pytest.mark.parametrize("dims", [(_nested(60),), (1,) * 65], ids=["deep size", "high rank"])
@pytest.mark.parametrize("calls", ["run", "ready"])
def test_what_no_record_holds_is_refused_once(dims: tuple[Dim, ...], calls: str) -> None:
    """Compiled, but not to be installed: an answer 'no' with its reason, as any other."""
    asked, refused = [], []

    def compile(views: list[InputView], device: str) -> Entry:
        asked.append(views[0].dims)
        return Entry(tuple(is_a(0, F32, 1)), 1, ADDRESS, (0,), (Output(F32, 4, dims, 0),), 1, (("n", 0, 0),))

    program = Program("test", [F32], [F32], compile, refused.append)
    for _ in range(2):
        if calls == "ready":
            assert not _ready(program)(tf.ones([5]))
        else:
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"more than 32|rank 65"):
                program(tf.ones([5]))
    assert asked == [(5,)]
    assert len(refused) == 1


def test_long_sizes_that_need_little_room() -> None:
    """A sum of many sizes, which the stack adds up one by one."""
    n = sym("n", 5)
    total: Dim = n
    for k in range(2, 200):
        total = make("max", total, make("mul", n, k))
    symbols = {"n": 0}
    assert len(postfix(total, symbols)) > 200
    entry = Entry(tuple(is_a(0, F32, 1)), 1, ADDRESS, (0,), (Output(F32, 4, (total,), 0),), 1, (("n", 0, 0),))
    (out,) = program_of(lambda views, device: entry, [F32], [F32])(tf.ones([3]))
    assert out.shape == (3 * 199,)


def _ready(program: Program) -> Callable[..., bool]:
    attrs = ("program", program.token, "Tin", list(program.input_types))

    def ready(*tensors: Any) -> bool:
        handle = context.context()._handle
        return bool(pywrap_tfe.TFE_Py_Execute(handle, "", native_op.READY, list(tensors), attrs, 1)[0].numpy())

    return ready


def test_ready_compiles() -> None:
    program = program_of(_generic, [F32, I32], [F32, F32, I32])
    assert _ready(program)(tf.ones([2]), tf.constant(1))
    assert len(program.entries) == 1
    assert program.executions == 0


def test_bug_while_compiling_is_an_error_not_a_crash() -> None:
    def divide(views: object, device: str) -> NoReturn:
        raise ZeroDivisionError

    program = program_of(divide, [F32], [F32])
    with pytest.raises(tf.errors.InvalidArgumentError, match="ZeroDivisionError"):
        program(tf.ones([2]))


def test_failing_code_is_an_error() -> None:
    program = program_of(lambda views, device: _generic(views, record=7), [F32, I32], [F32, F32, I32])
    with pytest.raises(tf.errors.InternalError, match="reported a failure"):
        program(tf.ones([2]), tf.constant(1))


def test_guards_that_do_not_hold_are_a_refusal() -> None:
    program = program_of(
        lambda views, device: Entry(
            (*is_a(0, F32, 1), Guard("equal", (0, 0), 99)), 1, ADDRESS, (0,), (Output(F32, 4, (99,), 0),), 1
        ),
        [F32],
        [F32],
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match="guards of test do not hold"):
        program(tf.ones([2]))


def test_entries_are_bounded() -> None:
    program = program_of(_generic, [F32, I32], [F32, F32, I32])
    for k in range(native_op.MAX_ENTRIES + 10):
        program(tf.ones([1]), tf.constant(k))
    assert len(program.entries) == native_op.MAX_ENTRIES
    assert program.entries[0].guards[-1] == Guard("value", 1, np.int32(native_op.MAX_ENTRIES + 9).tobytes())


def test_sizes_of_one_executable_are_not_forgotten() -> None:
    """More sizes than there are entries for: those of an executable that serves others are found again."""
    asked: list[int] = []
    executable = object()

    def compile(views: list[InputView], device: str) -> Entry:
        asked.append(views[0].dims[0])
        return replace(_generic(views), guards=native_op.exact(views), keep=executable)

    program = program_of(compile, [F32, I32], [F32, F32, I32])
    sizes = range(native_op.MAX_ENTRIES + 10)
    for _ in range(2):
        for size in sizes:
            assert program(tf.fill([size], 2.0), tf.constant(1))[0].numpy().tolist() == [4.0] * size
    assert asked == list(sizes)
    assert len(program.entries) == native_op.MAX_ENTRIES
    program.drop(executable)
    program(tf.fill([3], 2.0), tf.constant(1))
    assert asked[len(sizes) :] == [3]


@pytest.mark.parametrize("in_graph", [False, True])
def test_a_program_nobody_can_reach_keeps_no_executable(in_graph: bool) -> None:
    """Even where something else keeps the program itself, to count its executions."""
    program, other = (program_of(lambda views, device: _generic(views), [F32, I32], [F32, F32, I32]) for _ in range(2))
    program.in_graph = in_graph
    program.record[program_word("references")] = int(in_graph)
    value = ctypes.c_int32(3)
    program.prepare([InputView(F32, (5,), 0, 20), InputView(I32, (), ctypes.addressof(value), 4)], HOST_DEVICE)
    assert len(program.entries) == 1
    program.close()
    assert len(program.entries) == in_graph, "a kernel of a graph may still run it"
    program.record[program_word("references")] = 0
    other.close()  # looks for all that nobody can reach
    assert not program.entries
    assert program not in Library.get().adopted()


def test_threads_compile_once() -> None:
    asked: list[int] = []

    def compile(views: list[InputView], device: str) -> Entry:
        asked.append(1)
        return _generic(views)

    program = program_of(compile, [F32, I32], [F32, F32, I32])
    wrong: list[Any] = []

    def work(k: int) -> None:
        for n in range(50):
            out = program(tf.fill([n % 7], float(k)), tf.constant(1))
            if out[0].numpy().tolist() != [2.0 * k] * (n % 7):
                wrong.append((k, n))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert asked == [1]
    assert program.executions == 400


def test_token_of_another_process_is_refused() -> None:
    program = program_of(_generic, [F32, I32], [F32, F32, I32])
    stale = program.token + native_op.CAPACITY
    attrs = ("program", stale, "Tin", [F32, I32], "Tout", [F32, F32, I32])
    with pytest.raises(tf.errors.InvalidArgumentError, match="another process"):
        pywrap_tfe.TFE_Py_Execute(
            context.context()._handle, "", native_op.RUN, [tf.ones([1]), tf.constant(1)], attrs, 3
        )


@_ENTRY
def _sums(record: int, inputs: Any, outputs: Any, sizes: Any) -> int:
    """outputs[0] = inputs[0] + inputs[2], of sizes[0] elements; inputs[1] is read by nobody."""
    kind = ctypes.c_float * sizes[0]
    first, other, target = (np.frombuffer(kind.from_address(p), np.float32) for p in (inputs[0], inputs[2], outputs[0]))
    target[:] = first + other
    return int(bool(inputs[1]))


def held(array: np.ndarray) -> Held:
    return Held(array.ctypes.data, array)


def test_parameters_that_are_handed_over() -> None:
    """Each entry has its own; what has left the list is made again, and not kept for its sizes."""
    address, made = ctypes.cast(_sums, ctypes.c_void_p).value or 0, []

    def compile(views: list[InputView], device: str) -> Entry:
        n = views[0].dims[0]
        made.append(n)
        outputs, handed = (Output(F32, 4, (sym("n", n),), 0),), (held(np.full(n, n, np.float32)),)
        return Entry(
            native_op.exact(views), 1, address, (0, UNREAD), outputs, 1, (("n", 0, 0),), handed=handed, keep=_sums
        )

    program = program_of(compile, [F32], [F32])
    sizes = range(3, 3 + native_op.MAX_ENTRIES + 2)
    for n in (*sizes, *sizes):
        assert program(tf.ones([n]))[0].numpy().tolist() == [1.0 + n] * n
    assert made[: len(sizes)] == list(sizes)
    assert len(sizes) < len(made) < 2 * len(sizes)


@_ENTRY
def _positive(record: int, inputs: Any, outputs: Any, sizes: Any) -> int:
    """outputs[0] = the positive ones of inputs[0], which has sizes[1] elements; sizes[0], the bound before, their
    number."""
    n = sizes[1]
    assert sizes[0] == 4
    source = (ctypes.c_float * n).from_address(inputs[0] or 0)
    found = [value for value in source if value > 0]
    (ctypes.c_float * len(found)).from_address(outputs[0])[:] = found
    sizes[0] = len(found)
    return 0


@pytest.mark.parametrize("in_function", [False, True])
def test_a_size_that_the_run_produces(in_function: bool) -> None:
    address = ctypes.cast(_positive, ctypes.c_void_p).value or 0
    result = Output(F32, 4, (dims.bounded("found", 4),), 0, produced=True)
    entry = Entry(
        ordered([*is_a(0, F32, 1), *is_a(1, I32, 0)]),
        1,
        address,
        (0,),
        (result, Output(I32, passes=1)),
        1,
        (("found", UNREAD, 4), ("a", 0, 0)),
    )
    program = program_of(lambda views, device: entry, [F32, I32], [F32, I32])
    call: Any = _as_function(program, outputs=2) if in_function else program
    for values in ([1.0, -2.0, 3.0, 4.0], [-1.0, -1.0, -1.0, -1.0], [1.0, 2.0, 3.0, 4.0]):
        out = call(tf.constant(values), tf.constant(7))
        assert out[0].numpy().tolist() == [v for v in values if v > 0]
        assert out[1].numpy() == 7


N = sym("a", 1)
TOO_LARGE = {
    "more than memory": (make("mul", N, 1 << 20),) * 2,
    "more than 64 bits": (make("mul", N, 1 << 40),) * 2,
    "more than 64 bits before nothing": (make("mul", N, 1 << 40), make("mul", N, 1 << 40), make("add", N, -4)),
    "more bytes than 64 bits": (make("mul", N, 1 << 58), 2),
    "a size of more than 64 bits": (make("mul", make("mul", N, 1 << 62), 1 << 62),),
    "below 0": (make("add", N, -5),),
}


@pytest.mark.parametrize("what", TOO_LARGE)
@pytest.mark.parametrize("place", [0, 1])
def test_an_output_that_cannot_be_allocated_is_an_error(what: str, place: int) -> None:
    """Not the end of the process, and no run with the outputs that could be."""
    outputs = [Output(F32, 4, (N,), 0), Output(F32, 4, (N,), 1)]
    outputs[place] = Output(F32, 4, TOO_LARGE[what], place)
    entry = Entry(tuple(is_a(0, F32, 1)), 1, ADDRESS, (0,), tuple(outputs), 2, (("a", 0, 0),))
    program = program_of(lambda views, device: entry, [F32], [F32, F32])
    with pytest.raises(tf.errors.ResourceExhaustedError):
        program(tf.ones([4]))
