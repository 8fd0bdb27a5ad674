"""The native ops on GPUs, without one: streams, memory, devices, values that lie on the device."""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.tf.gpu_double import STREAM, FakeGpu, Ops
from tfxla_cluster.errors import UnsupportedError
from tfxla_cluster.held import Held
from tfxla_cluster.ir import dim as dims
from tfxla_cluster.ir.dim import sym
from tfxla_cluster.ir.guard import Guard, ordered
from tfxla_cluster.runtime.launcher import record_layout
from tfxla_cluster.service import Service
from tfxla_cluster.tf.native_op import builder, gpu_context
from tfxla_cluster.tf.native_op.library import InputView, Library
from tfxla_cluster.tf.native_op.op import Program
from tfxla_cluster.tf.native_op.records import UNREAD, Entry, Output

F32, I32 = tf.float32.as_datatype_enum, tf.int32.as_datatype_enum
P = ctypes.c_void_p
_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int32, P, ctypes.POINTER(P), ctypes.POINTER(P), ctypes.POINTER(ctypes.c_int64), P)
_ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class Launched:
    """An executable whose record is what it adds to its input; it stages the sum in memory that it allocates."""

    def __init__(self) -> None:
        self.streams: list[int] = []
        self.entry = _ENTRY(self._run)
        self.address = ctypes.cast(self.entry, P).value or 0

    def _run(self, record: int, inputs: Any, outputs: Any, sizes: Any, launch: int) -> int:
        words = (ctypes.c_int64 * builder.LAUNCH_WORDS).from_address(launch)
        self.streams.append(words[0])
        n = sizes[0]
        scratch = _ALLOCATE(words[1])(words[2], 4 * n)
        if not scratch:
            return builder.NO_MEMORY
        if n:
            source, middle, target = (
                np.frombuffer((ctypes.c_float * n).from_address(p), np.float32)
                for p in (inputs[0], scratch, outputs[0])
            )
            middle[:] = source + np.float32(record)
            target[:] = middle
        return 0


@pytest.fixture
def launched() -> Launched:
    return Launched()


@pytest.fixture(scope="module")
def fake() -> FakeGpu:
    return FakeGpu()


@pytest.fixture(scope="module")
def module_ops(fake: FakeGpu) -> Ops:
    return Ops(fake.addresses())


@pytest.fixture
def ops(fake: FakeGpu, module_ops: Ops) -> Iterator[Ops]:
    fake.device, fake.on_host, fake.memory = 0, set(), 1 << 30
    fake.calls.clear()
    # The functions that Python calls are those of the double again, whatever a test put there.
    Library.get().load_gpu(fake.addresses())
    yield module_ops
    assert not fake.running
    assert fake.calls["tfxla_begin"] == fake.calls["tfxla_end"]


def _adds(launched: Launched, record: int) -> Entry:
    outputs = (Output(F32, 4, (sym("n", 5),), 0),)
    guards = (Guard("dtype", 0, F32), Guard("rank", 0, 1))
    return Entry(guards, record, launched.address, (0,), outputs, 1, (("n", 0, 0),))


def test_it_runs_on_the_stream_with_memory_of_the_device(ops: Ops, fake: FakeGpu, launched: Launched) -> None:
    program = Program("test", [F32], [F32], lambda views, device: _adds(launched, 3))
    for n in (5, 0, 7):
        (out,) = ops(program, tf.range(n, dtype=tf.float32))
        assert out.numpy().tolist() == [3.0 + i for i in range(n)]
    assert launched.streams == [STREAM] * 3
    assert program.executions == 3
    assert len(program.entries) == 1


def test_each_device_has_its_own_executable(ops: Ops, fake: FakeGpu, launched: Launched) -> None:
    asked: list[str] = []

    def compile(views: list[InputView], device: str) -> Entry:
        asked.append(device)
        return _adds(launched, len(asked))

    program = Program("test", [F32], [F32], compile)
    found = []
    for fake.device in (0, 1, 0, 1, 1):
        found.append(float(ops(program, tf.zeros([1]))[0][0]))
    assert found == [1.0, 2.0, 1.0, 2.0, 2.0]
    assert asked == ["GPU:0", "GPU:1"]
    assert [e.record for e in program.entries_on("GPU:1")] == [2]
    on_host = Program("test", [F32], [F32], lambda views, device: _fail(device))
    with pytest.raises(tf.errors.InvalidArgumentError, match="asked for CPU"):
        on_host(tf.zeros([1]))


def _fail(device: str) -> Entry:
    raise UnsupportedError(f"asked for {device}")


def test_a_refusal_holds_for_its_device(ops: Ops, fake: FakeGpu, launched: Launched) -> None:
    def compile(views: list[InputView], device: str) -> Entry:
        return _fail(device) if device == "GPU:0" else _adds(launched, 3)

    program = Program("test", [F32], [F32], compile)
    for fake.device in (0, 1, 0):
        assert ops.is_ready(program, tf.zeros([2])) is (fake.device == 1)
    assert len(program.entries) == 2


@pytest.mark.parametrize("on_host", [True, False])
def test_values_of_inputs(ops: Ops, fake: FakeGpu, launched: Launched, on_host: bool) -> None:
    """An executable per value; on the device it is copied to be compared."""
    fake.on_host = {1} if on_host else set()
    seen: list[int] = []

    def compile(views: list[InputView], device: str) -> Entry:
        seen.append(int(views[1].array()))
        n = sym("n", 5)
        guards = ordered(
            [Guard("dtype", 0, F32), Guard("rank", 0, 1), Guard("rank", 1, 0), Guard("value", 1, views[1].bytes())]
        )
        return Entry(guards, seen[-1], launched.address, (0, UNREAD), (Output(F32, 4, (n,), 0),), 1, (("n", 0, 0),))

    program = Program("test", [F32, I32], [F32], compile)
    for k in (4, 6, 4):
        assert float(ops(program, tf.zeros([1]), tf.constant(k))[0][0]) == k
    assert seen == [4, 6]
    assert fake.calls["tfxla_read"] > 3


def test_no_memory_for_temporaries(ops: Ops, fake: FakeGpu, launched: Launched) -> None:
    program = Program("test", [F32], [F32], lambda views, device: _adds(launched, 3))
    fake.memory = 100
    with pytest.raises(tf.errors.ResourceExhaustedError, match="temporaries"):
        ops(program, tf.zeros([26]))
    assert float(ops(program, tf.zeros([25]))[0][24]) == 3.0
    assert builder.NO_MEMORY == record_layout.STATUS_NO_MEMORY


@_ENTRY
def _fails(record: int, inputs: Any, outputs: Any, sizes: Any, launch: int) -> int:
    return record


@pytest.mark.parametrize(
    ("status", "message"), [(7, "a kernel of .* stopped with status 7"), (record_layout.STATUS_CLOSED, "retired")]
)
def test_a_failure_in_words(ops: Ops, monkeypatch: pytest.MonkeyPatch, status: int, message: str) -> None:
    monkeypatch.setattr(Library.get(), "explain", Service(lambda loaded: None, dict).explain)
    address = ctypes.cast(_fails, P).value or 0
    outputs = (Output(F32, 4, (2,), 0),)
    entry = Entry((Guard("dtype", 0, F32), Guard("rank", 0, 1)), status & (2**64 - 1), address, (0,), outputs, 1)
    program = Program("test", [F32], [F32], lambda views, device: entry)
    with pytest.raises(tf.errors.InternalError, match=message):
        ops(program, tf.zeros([2]))


def test_no_memory_for_an_executable_is_a_refusal(ops: Ops) -> None:
    def compile(views: list[InputView], device: str) -> Entry:
        raise MemoryError("constants of 3 GB")

    program = Program("test", [F32], [F32], compile)
    with pytest.raises(tf.errors.InvalidArgumentError, match="no memory for the executable: constants of 3 GB"):
        ops(program, tf.zeros([2]))


@_ENTRY
def _sum_of_both(record: int, inputs: Any, outputs: Any, sizes: Any, launch: int) -> int:
    n = sizes[0]
    one, other, out = ((ctypes.c_float * n).from_address(p) for p in (inputs[0], inputs[1], outputs[0]))
    out[:] = [x + y for x, y in zip(one, other)]
    return 0


def test_literals_that_are_handed_over_are_further_parameters(ops: Ops) -> None:
    """Each size has its own, which lie on the device: nothing of them is copied at a call."""

    def compile(views: list[InputView], device: str) -> Entry:
        n = views[0].dims[0]
        literal = np.arange(n, dtype=np.float32) * n
        guards = (Guard("dtype", 0, F32), Guard("rank", 0, 1), Guard("equal", (0, 0), n))
        address = ctypes.cast(_sum_of_both, P).value or 0
        outputs, sizes = (Output(F32, 4, (sym("n", 5),), 0),), (("n", 0, 0),)
        held = (Held(literal.ctypes.data, literal),)
        return Entry(guards, 1, address, (0,), outputs, 1, sizes, handed=held)

    program = Program("test", [F32], [F32], compile)
    for n in (5, 3, 5):
        (out,) = ops(program, tf.ones([n]))
        assert out.numpy().tolist() == [1.0 + n * i for i in range(n)]
    assert len(program.entries) == 2


@_ENTRY
def _positive(record: int, inputs: Any, outputs: Any, sizes: Any, launch: int) -> int:
    source = (ctypes.c_float * sizes[1]).from_address(inputs[0] or 0)
    found = [value for value in source if value > 0]
    (ctypes.c_float * len(found)).from_address(outputs[0])[:] = found
    sizes[0] = len(found)
    return 0


def test_a_size_that_the_run_produces(ops: Ops, fake: FakeGpu) -> None:
    result = Output(F32, 4, (dims.bounded("found", 4),), 0, produced=True)
    entry = Entry(
        (Guard("dtype", 0, F32), Guard("rank", 0, 1)),
        1,
        ctypes.cast(_positive, P).value or 0,
        (0,),
        (result,),
        1,
        (("found", UNREAD, 4), ("a", 0, 0)),
    )
    program = Program("test", [F32], [F32], lambda views, device: entry)
    for values in ([1.0, -2.0, 3.0, 4.0], [-1.0] * 4, [1.0, 2.0, 3.0, 4.0]):
        assert ops(program, tf.constant(values))[0].numpy().tolist() == [v for v in values if v > 0]
    assert fake.calls["tfxla_copy"] == 3
    fake.memory = 8
    with pytest.raises(tf.errors.ResourceExhaustedError, match="a result"):
        ops(program, tf.zeros([4]))


needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")


@needs_compiler
def test_the_part_in_cpp(launched: Launched) -> None:
    """On a kernel of the CPU, whose context has no stream: its allocator, its inputs."""
    ops = Ops(dict(gpu_context.addresses()))
    program = Program("test", [F32], [F32], lambda views, device: _adds(launched, 4 if device == "CPU" else 0))
    assert ops(program, tf.range(3.0))[0].numpy().tolist() == [4.0, 5.0, 6.0]
    assert ops.is_ready(program, tf.range(2.0))
    assert launched.streams == [0]
    assert gpu_context.library_file().exists()


def test_without_a_compiler_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(UnsupportedError, match=r"no C\+\+ compiler.*Install g\+\+"):
        gpu_context.library_file(tmp_path / "cache")
    monkeypatch.setenv("CXX", "/bin/false")
    with pytest.raises(UnsupportedError, match="could not compile"):
        gpu_context.library_file(tmp_path / "cache")
    assert not list((tmp_path / "cache").iterdir())
    (tmp_path / "file").write_text("")
    with pytest.raises(UnsupportedError, match="cannot be written"):
        gpu_context.library_file(tmp_path / "file")
