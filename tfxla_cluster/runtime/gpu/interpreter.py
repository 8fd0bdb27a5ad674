"""The interpreter of launch plans for GPUs, as LLVM IR: `gpu_execute(record, inputs, outputs, sizes, launch)`.

It walks the words that `runtime.launcher.encode` writes; kernels, copies and memory are calls of the driver on the
caller's stream. The host waits for the device only where a step must know what it computed: branches, loops, sizes.
Any number of threads may run one record at once, on streams of their own.
"""

from __future__ import annotations

from llvmlite import ir

from ..launcher.record_layout import RECORD, STATUS_NO_MEMORY, STATUS_OK, STEPS
from ..launcher.step_times import emit_note, times_of_execution
from ..launcher.step_walk import StepWalk, emit_evaluate, emit_retire, enter, fill_values, write_sizes
from ..launcher.words import I64, PTR, Function, Value, Word
from .driver_code import STATE, allocate, call, check, give_back, take
from .graph_code import NO_GRAPH, emit_graph
from .library_code import LIBRARY_CALLS, emit_take
from .record_layout import (
    GPU_RECORD,
    HOST_SLOTS,
    KERNEL,
    LAUNCH,
    MOST_BLOCKS,
    MOST_RESULT_BYTES,
    STATUS_TOO_LARGE,
    WORKSPACE,
)

ALIGNED = 16  # bytes that kernels take their pointers to be multiples of
SCRATCH_ALIGN = 128  # what descriptors of tensors in global memory need


def build(triple: str) -> ir.Module:
    """The module of the launcher."""
    module = ir.Module("tfxla_gpu")
    module.triple = triple
    _emit_workspace(module)
    emit_retire(module)
    emit_take(module)
    _Interpreter(module)
    return module


def _emit_workspace(module: ir.Module) -> None:
    """gpu_workspace(owner, bytes): an `allocate` for executions one after the other on one stream. The n-th request
    gets the memory of the n-th request of the execution before, if it is large enough."""
    f = Function(module, "gpu_workspace", 2)
    owner, need = f.args
    index = f.load(owner, WORKSPACE["next"])
    with f.if_(index.compare(">=", f.load(owner, WORKSPACE["capacity"]))):
        f.return_(0)
    f.store(owner, WORKSPACE["next"], index + 1)
    pair = owner + (index * 2 + len(WORKSPACE)) * 8
    with f.if_(f.load(pair, 1).compare(">=", need)):
        f.return_(f.load(pair))
    driver, stream = f.load(owner, WORKSPACE["driver"]), f.load(owner, WORKSPACE["stream"])
    with f.if_(f.load(pair).compare("!=", 0)):
        call(f, driver, "cuMemFreeAsync", f.load(pair), stream)
    f.store(pair, 0, 0)
    f.store(pair, 1, 0)
    with f.if_(call(f, driver, "cuMemAllocAsync", pair, need, stream).compare("==", 0)):
        f.store(pair, 1, need)
    f.return_(f.load(pair))


class _Interpreter:
    """Emits `gpu_execute`, what comes before the steps, and `gpu_steps`, the loop over them."""

    def __init__(self, module: ir.Module) -> None:
        self.module = module
        self.evaluate = emit_evaluate(module)
        self.prepare = self._emit_prepare()
        self.steps = self._emit_steps(emit_note(module))
        self.graph = emit_graph(module, self.steps)
        self._emit_execute()

    def _emit_execute(self) -> None:
        """Count the execution in, give it a front, a slot and its device's context, and take them back after."""
        f = Function(self.module, "gpu_execute", 5)
        record, inputs, outputs, sizes, launch = f.args
        active = enter(f, record)
        front = f.call("malloc", f.load(record, RECORD["front_words"]) * 8)
        with f.if_(front.compare("==", 0)):
            f.atomic_add(active, -1)
            f.return_(STATUS_NO_MEMORY)
        driver, context = f.load(record, GPU_RECORD["driver"]), f.load(record, GPU_RECORD["context"])
        before, state, spare = f.stack(1), f.stack(len(STATE)), f.stack(MOST_RESULT_BYTES // 8)
        f.store(before, 0, 0)
        for index in STATE.values():
            f.store(state, index, 0)
        f.store(state, STATE["stream"], f.load(launch, LAUNCH["stream"]))
        call(f, driver, "cuCtxGetCurrent", before)
        switched = f.load(before).compare("!=", context)
        with f.if_(switched):
            call(f, driver, "cuCtxSetCurrent", context)
        slot = take(f, f.load(record, GPU_RECORD["host_slots"]), HOST_SLOTS)
        host = f.load(slot)
        f.store(state, STATE["host"], f.select(host.compare("!=", 0), host, spare))
        f.store(state, STATE["times"], times_of_execution(f, record).get())
        _make_events(f, driver, state)
        status = f.local(f.call(self.prepare, record, inputs, sizes, launch, front, state))
        with f.if_(status.get().compare("==", 0)):
            status.set(NO_GRAPH)
            with f.if_(f.load(state, STATE["times"]).compare("==", 0)):
                status.set(f.call(self.graph, record, outputs, launch, front, state))
        with f.if_(status.get().compare("==", NO_GRAPH)):
            status.set(f.call(self.steps, record, outputs, launch, front, state))
        _end_events(f, driver, state)
        give_back(f, slot)
        with f.if_(switched):
            call(f, driver, "cuCtxSetCurrent", f.load(before))
        write_sizes(f, record, sizes, front)
        f.call("free", front)
        f.atomic_add(active, -1)
        f.return_(status.get())

    def _emit_prepare(self) -> Function:
        """gpu_prepare(record, inputs, sizes, launch, front, state): values, inputs' table and arena; a status."""
        f = Function(self.module, "gpu_prepare", 6)
        record, inputs, sizes, launch, front, state = f.args
        fill_values(f, self.evaluate, record, sizes, front)
        _align_inputs(f, record, inputs, launch, front)
        need = f.load(front, f.load(record, RECORD["arena_value"]))
        with f.if_(need.compare(">", 0)):
            f.store(state, STATE["arena"], allocate(f, launch, need))
        f.return_(STATUS_OK)
        return f

    # --- steps ---
    def _emit_steps(self, note: Function) -> Function:
        """gpu_steps(record, outputs, launch, front, state): the status of the first step that failed, or 0."""
        f = Function(self.module, "gpu_steps", 5)
        record, outputs, launch, front, state = f.args
        run = _Run(f, record, front, outputs, launch, state, note)
        emit = {"kernel": lambda: _kernel(f, run), "copy": lambda: _copy(f, run), **run.control(self.evaluate)}
        with f.loop():
            f.switch(run.word(0), [emit[name] for name in STEPS])
        f.return_(STATUS_OK)
        return f


_EVENTS = ("start", "stop")


def _make_events(f: Function, driver: Word, state: Word) -> None:
    """Those of a timed execution; where the driver has none the execution is not timed."""
    with f.if_(f.load(state, STATE["times"]).compare("!=", 0)):
        for event in _EVENTS:
            with f.if_(call(f, driver, "cuEventCreate", state + 8 * STATE[event], 0).compare("!=", 0)):
                f.store(state, STATE[event], 0)
                f.store(state, STATE["times"], 0)


def _end_events(f: Function, driver: Word, state: Word) -> None:
    for event in _EVENTS:
        with f.if_(f.load(state, STATE[event]).compare("!=", 0)):
            call(f, driver, "cuEventDestroy_v2", f.load(state, STATE[event]))


def _align_inputs(f: Function, record: Word, inputs: Word, launch: Word, front: Word) -> None:
    """The table of the inputs in the front; one that does not lie at a multiple of ALIGNED is copied to where it does,
    for a kernel that read it as it is would end the context."""
    table = front + f.load(record, GPU_RECORD["inputs_word"]) * 8
    with f.count(0, f.load(record, GPU_RECORD["input_count"])) as i:
        given = f.load(inputs, i)
        f.store(table, i, given)
        with f.if_((given & (ALIGNED - 1)).compare("!=", 0)):
            count = f.load(front, f.load(f.load(record, GPU_RECORD["input_bytes"]), i))
            with f.if_(count.compare(">", 0)):
                copy = allocate(f, launch, count)
                f.store(table, i, copy)
                driver, stream = f.load(record, GPU_RECORD["driver"]), f.load(launch, LAUNCH["stream"])
                check(f, call(f, driver, "cuMemcpyDtoDAsync_v2", copy, given, count, stream))


class _Run(StepWalk):
    """The state of `gpu_steps`."""

    def __init__(
        self, f: Function, record: Word, front: Word, outputs: Word, launch: Word, state: Word, note: Function
    ) -> None:
        inputs = front + f.load(record, GPU_RECORD["inputs_word"]) * 8
        super().__init__(f, record, front, (f.load(state, STATE["arena"]), inputs, outputs))
        self.launch, self.state = launch, state
        self.stream, self._driver = f.load(state, STATE["stream"]), f.load(record, GPU_RECORD["driver"])
        self.parameters = front + f.load(record, GPU_RECORD["parameters_word"]) * 8
        self._times, self._note = f.load(state, STATE["times"]), note
        count = f.load(record, GPU_RECORD["parameters_word"]) - f.load(record, RECORD["arguments_word"])
        with f.count(0, count) as i:  # a launch's parameters lie where its arguments do
            f.store(self.parameters, i, self.arguments + i * 8)

    def call(self, name: str, *args: Value) -> None:
        """Call a function of the driver; a failure ends the execution."""
        check(self.f, call(self.f, self._driver, name, *args))

    def read(self, index: int, bits: int) -> Word:
        """Waits for the stream."""
        host = self.f.load(self.state, STATE["host"])
        self.call("cuMemcpyDtoHAsync_v2", host, self.place(index), bits // 8, self.stream)
        self.call("cuStreamSynchronize", self.stream)
        return self.f.load_narrow(host, bits)

    def scratch(self, need: Word) -> Word:
        """At least so many bytes that kernels of this execution share, one after the other."""
        f, state = self.f, self.state
        with f.if_(need.compare(">", f.load(state, STATE["scratch_bytes"]))):
            found = allocate(f, self.launch, need + SCRATCH_ALIGN)
            f.store(state, STATE["scratch"], (found + (SCRATCH_ALIGN - 1)) & -SCRATCH_ALIGN)
            f.store(state, STATE["scratch_bytes"], need)
        return f.load(state, STATE["scratch"])

    def start_timer(self) -> None:
        with self.f.if_(self._times.compare("!=", 0)):
            self.call("cuEventRecord", self.f.load(self.state, STATE["start"]), self.stream)

    def stop_timer(self, ordinal: Word) -> None:
        """Waits for the stream."""
        f = self.f
        with f.if_(self._times.compare("!=", 0)):
            start, stop = (f.load(self.state, STATE[name]) for name in ("start", "stop"))
            self.call("cuEventRecord", stop, self.stream)
            self.call("cuEventSynchronize", stop)
            elapsed = f.stack(1)
            self.call("cuEventElapsedTime", elapsed, start, stop)
            milliseconds = f.b.load(f.b.inttoptr(elapsed.value, PTR), typ=ir.FloatType())
            nanoseconds = Word(f, f.b.fptosi(f.b.fmul(milliseconds, ir.FloatType()(1e6)), I64))
            f.call(self._note, self._times, ordinal, nanoseconds)


def _kernel(f: Function, run: _Run) -> None:
    kernel, n_in, n_out, n_sizes = (run.word(n) for n in (1, 2, 3, 4))
    places = n_in + n_out
    with f.count(0, places) as i:
        f.store(run.arguments, i, run.place(i * 2 + 9))
    sizes_at, sizes = run.at(places * 2 + 9), run.arguments + places * 8
    with f.count(0, n_sizes) as i:
        f.store(sizes, i, f.load(run.values, f.load(sizes_at, i)))
    with f.count(0, f.word(0) - n_sizes) as i:
        f.store(sizes, i, f.load(sizes_at, i))
    count = n_sizes.max(f.word(0) - n_sizes)
    tasks = f.load(run.values, run.word(5))
    with f.if_(tasks.compare(">", 0)):
        run.start_timer()
        is_kernel = f.load(kernel, KERNEL["function"]).compare("!=", 0)
        with f.if_(is_kernel):
            _launch(f, run, kernel, tasks, sizes + count * 8)
        with f.if_(f.b.not_(is_kernel)):
            _library(f, run, kernel, run.arguments + n_in * 8, sizes)
        run.stop_timer(run.word(8))
    run.skip(places * 2 + count + 9)


def _launch(f: Function, run: _Run, kernel: Word, tasks: Word, behind: Word) -> None:
    """A program a task. Triton's kernels take two more arguments, which go `behind` the others: global memory for
    scratch, and that of its profiler, which is not used."""
    ctas = f.load(kernel, KERNEL["ctas"])
    with f.if_(tasks.compare(">", MOST_BLOCKS)):
        f.return_(STATUS_TOO_LARGE)
    blocks = tasks * ctas
    with f.if_(blocks.compare(">", MOST_BLOCKS)):
        f.return_(STATUS_TOO_LARGE)
    y, z, scratch_bytes = (f.load(kernel, KERNEL[n]) for n in ("grid_y", "grid_z", "scratch_bytes"))
    f.store(behind, 0, 0)
    f.store(behind, 1, 0)
    with f.if_(scratch_bytes.compare("!=", 0)):
        f.store(behind, 0, run.scratch(scratch_bytes * blocks * y * z))
    function, threads, shared = (f.load(kernel, KERNEL[n]) for n in ("function", "threads", "shared_bytes"))
    plain = f.load(kernel, KERNEL["attribute_count"]).compare("==", 0)
    with f.if_(plain):
        grid = (blocks, y, z, threads, 1, 1)
        run.call("cuLaunchKernel", function, *grid, shared, run.stream, run.parameters, 0)
    with f.if_(f.b.not_(plain)):
        run.call("cuLaunchKernelEx", _configuration(f, run, kernel, blocks), function, run.parameters, 0)


def _configuration(f: Function, run: _Run, kernel: Word, blocks: Word) -> Word:
    """A CUlaunchConfig: grid and block (three u32 each), u32 bytes of shared memory, stream, attributes, their
    number."""
    config = f.stack(7)
    f.store(config, 0, blocks + (f.load(kernel, KERNEL["grid_y"]) << 32))
    f.store(config, 1, (f.load(kernel, KERNEL["threads"]) << 32) + f.load(kernel, KERNEL["grid_z"]))
    f.store(config, 2, (1 << 32) + 1)
    f.store(config, 3, f.load(kernel, KERNEL["shared_bytes"]))
    f.store(config, 4, run.stream)
    f.store(config, 5, f.load(kernel, KERNEL["attributes"]))
    f.store(config, 6, f.load(kernel, KERNEL["attribute_count"]))
    return config


def _library(f: Function, run: _Run, kernel: Word, outputs: Word, sizes: Word) -> None:
    for name, emit in LIBRARY_CALLS.items():
        words = f.load(kernel, KERNEL[name])
        with f.if_(words.compare("!=", 0)):
            emit(f, words, run.arguments, outputs, run.stream)
    with f.if_(f.load(kernel, KERNEL["routine"]).compare("!=", 0)):
        _routine(f, run, kernel, outputs, sizes)


def _routine(f: Function, run: _Run, kernel: Word, outputs: Word, sizes: Word) -> None:
    """Run a library routine on the host and copy its result up. The copy takes the bytes before it returns: what lies
    on the stack is not page-locked."""
    result, holder = f.stack(MOST_RESULT_BYTES // 8), f.stack(1)
    f.store(holder, 0, result)
    f.call(f.load(kernel, KERNEL["routine"]), 0, 0, holder, sizes)
    run.call("cuMemcpyHtoDAsync_v2", f.load(outputs), result, f.load(kernel, KERNEL["result_bytes"]), run.stream)


def _copy(f: Function, run: _Run) -> None:
    source, target, length = run.place(1), run.place(3), f.load(run.values, run.word(5))
    moves = f.both(source.compare("!=", target), length.compare(">", 0))
    with f.if_(moves):
        run.start_timer()
        run.call("cuMemcpyDtoDAsync_v2", target, source, length, run.stream)
        run.stop_timer(run.word(6))
    run.skip(7)
