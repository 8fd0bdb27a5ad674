"""The interpreter of launch plans, as LLVM IR: `tfxla_execute(record, inputs, outputs, sizes)`.

It walks the step words of `runtime.launcher.encode` (record_layout.STEPS). Any number of threads may run one
record at once: everything an execution writes is on its stack or in a block of its own (its `front`:
values, argument arrays, the caller's scratch; then the arena of temporaries). Blocks come from a few
process-wide slots, taken and put back by an atomic exchange, lowest slot first: a program that runs
one executable after another touches the same warm memory, and a block grows, it is not given back.
"""

from __future__ import annotations

from llvmlite import ir

from ...codegen.kernel import abi
from ...ir.size_operators import OPERATORS
from ..launcher.record_layout import RECORD, STATUS_NO_MEMORY, STATUS_OK, STEPS
from ..launcher.step_times import emit_note, times_of_execution
from ..launcher.step_walk import StepWalk, emit_evaluate, emit_retire, enter, fill_values, write_sizes
from ..launcher.words import Function, Local, Word, global_words
from . import check_routine, foreign_routine, random_routine
from .pool import FLUSH_DENORMALS, REGION, Pool, get_mxcsr, now_ns, set_mxcsr
from .profiler import Profiler

SLOTS = 16
BLOCK_HEADER = 8  # words before the front; word 0 is the block's bytes
HUGE_PAGE = 2 << 20
MADV_HUGEPAGE = 14
COPY_CHUNK = 256 << 10  # bytes one task of a large copy moves
COPY_PARALLEL = 1 << 20  # bytes from which a copy is shared
COPY_COST = COPY_CHUNK // 4  # of one task, in the units of Kernel.cost


def build(triple: str) -> ir.Module:
    """The module of the runtime: pool, block slots, interpreter, and entries for tests and tuning."""
    module = ir.Module("tfxla_runtime")
    module.triple = triple
    pool = Pool(module)
    profiler = Profiler(module)
    blocks = _Blocks(module)
    copy = _emit_copy_task(module)
    _Interpreter(module, pool, blocks, copy, profiler)
    _emit_launch(module, pool)
    emit_retire(module)
    random_routine.emit(module)
    foreign_routine.emit(module)
    check_routine.emit(module)
    return module


class _Blocks:
    """Memory of executions: `acquire` gives a block of at least some bytes, `release` puts it back."""

    def __init__(self, module: ir.Module) -> None:
        self._slots = global_words(module, "tfxla_blocks", SLOTS)
        self.acquire = self._emit_acquire(module)
        self.release = self._emit_release(module)
        self._emit_trim(module)

    def _emit_acquire(self, module: ir.Module) -> Function:
        """acquire(bytes): the block's address, 0 where memory is out."""
        f = Function(module, "block_acquire", 1)
        need = f.args[0]
        block = f.local(0)
        with f.count(0, SLOTS) as i:
            block.set(f.exchange(Word(f, self._slots) + i * 8, 0))
            f.break_if(block.get().compare("!=", 0))
        with f.if_(block.get().compare("!=", 0)):
            with f.if_(f.load(block.get()).compare(">=", need)):
                f.return_(block.get())
            f.call("free", block.get())
        size = (need + (need >> 3) + 4095) & -4096
        huge = size.compare(">=", 2 * HUGE_PAGE)
        align = f.select(huge, HUGE_PAGE, 64)
        size = (size + align - 1) & (f.word(0) - align)
        fresh = f.call("aligned_alloc", align, size)
        with f.if_(fresh.compare("==", 0)):
            f.return_(0)
        with f.if_(huge):
            f.call("madvise", fresh, size, MADV_HUGEPAGE)
        f.store(fresh, 0, size)
        f.return_(fresh)
        return f

    def _emit_release(self, module: ir.Module) -> Function:
        f = Function(module, "block_release", 1)
        with f.count(0, SLOTS) as i, f.if_(f.compare_swap(Word(f, self._slots) + i * 8, 0, f.args[0])):
            f.return_()
        f.call("free", f.args[0])
        f.return_()
        return f

    def _emit_trim(self, module: ir.Module) -> None:
        """block_trim(): give the memory of idle blocks back; how many bytes that was."""
        f = Function(module, "block_trim", 0)
        total = f.local(0)
        with f.count(0, SLOTS) as i:
            block = f.exchange(Word(f, self._slots) + i * 8, 0)
            with f.if_(block.compare("!=", 0)):
                total.set(total.get() + f.load(block))
                f.call("free", block)
        f.return_(total.get())


def _emit_copy_task(module: ir.Module) -> Function:
    """A kernel by the ABI: copies sizes[0] bytes, COPY_CHUNK a task."""
    f = Function(module, "copy_task", 4)
    context, inputs, outputs, sizes = f.args
    begin = f.load(context, abi.TASK_BEGIN) * COPY_CHUNK
    end = (f.load(context, abi.TASK_END) * COPY_CHUNK).min(f.load(sizes))
    f.call("memcpy", f.load(outputs) + begin, f.load(inputs) + begin, end - begin)
    f.return_()
    return f


def _emit_launch(module: ir.Module, pool: Pool) -> None:
    """pool_launch(region, cost): run one region by itself (tuning, tests); `region` has all but status.

    The caller's scratch is allocated for the call.
    """
    f = Function(module, "pool_launch", 2)
    region, cost = f.args
    mxcsr = get_mxcsr(f)
    set_mxcsr(f, f.word(FLUSH_DENORMALS))
    status, context, holder = f.stack(1), f.stack(abi.CONTEXT_FIELDS), f.stack(2)
    f.store(status, 0, 0)
    f.store(region, REGION["status"], status)
    need = (f.load(region, REGION["scratch_bytes"]) + 63) & -64
    f.store(holder, 0, f.call("aligned_alloc", 64, need))
    f.store(holder, 1, need)
    f.store(context, abi.SCRATCH, f.load(holder))
    f.store(context, abi.THREAD_INDEX, 0)
    f.atomic_add(pool.field(f, "executing"), 1)
    pool.run(f, region, context, holder, cost)
    f.atomic_add(pool.field(f, "executing"), -1)
    f.call("free", f.load(holder))
    set_mxcsr(f, mxcsr)
    f.return_(f.load_narrow(status, 32))


class _Interpreter:
    """Emits `tfxla_execute` and `run_steps`, the loop over steps, as methods named for the steps."""

    def __init__(self, module: ir.Module, pool: Pool, blocks: _Blocks, copy: Function, profiler: Profiler) -> None:
        self.module, self.pool, self.blocks, self.copy, self.profiler = module, pool, blocks, copy, profiler
        self.evaluate, self._note = emit_evaluate(module), emit_note(module)
        self.run_steps = self._emit_run_steps()
        self._emit_execute()

    # --- one execution ---
    def _emit_execute(self) -> None:
        f = Function(self.module, "tfxla_execute", 4)
        record, inputs, outputs, sizes = f.args
        active = enter(f, record)
        mxcsr = get_mxcsr(f)
        set_mxcsr(f, f.word(FLUSH_DENORMALS))
        status = f.local(STATUS_NO_MEMORY)
        block = self._block_with_values(f, record, sizes)
        with f.if_(block.get().compare("!=", 0)):
            parallel = f.load(record, RECORD["parallel"])
            f.atomic_add(self.pool.field(f, "executing"), parallel)
            status.set(f.call(self.run_steps, record, inputs, outputs, block.get()))
            f.atomic_add(self.pool.field(f, "executing"), f.word(0) - parallel)
            write_sizes(f, record, sizes, block.get() + 8 * BLOCK_HEADER)
            f.call(self.blocks.release, block.get())
        set_mxcsr(f, mxcsr)
        f.atomic_add(active, -1)
        f.return_(status.get())

    def _block_with_values(self, f: Function, record: Word, sizes: Word) -> Local:
        """Take a block large enough for the arena, whose size may need the values that lie in it."""
        front_bytes = (f.load(record, RECORD["front_words"]) + BLOCK_HEADER) * 8
        need = f.local(front_bytes.max(f.load(record, RECORD["hint"])))
        block = f.local(0)
        with f.loop():
            block.set(f.call(self.blocks.acquire, need.get()))
            f.break_if(block.get().compare("==", 0))
            values = block.get() + 8 * BLOCK_HEADER
            fill_values(f, self.evaluate, record, sizes, values)
            arena = f.load(values, f.load(record, RECORD["arena_value"]))
            need.set(Word(f, OPERATORS["add"].emit(f.b, front_bytes.value, arena.value)))
            f.break_if(need.get().compare("<=", f.load(block.get())))
            f.call(self.blocks.release, block.get())
        larger = need.get().compare(">", f.load(record, RECORD["hint"]))
        with f.if_(f.both(larger, block.get().compare("!=", 0))):  # what could not be had is no hint
            f.store(record, RECORD["hint"], need.get())
        return block

    # --- steps ---
    def _emit_run_steps(self) -> Function:
        """run_steps(record, inputs, outputs, block): the status of the first step that failed, or 0."""
        f = Function(self.module, "run_steps", 4)
        record, inputs, outputs, block = f.args
        run = _Run(f, record, block, inputs, outputs, self.profiler, self._note)
        emit = {
            "kernel": lambda: self._kernel(f, run),
            "copy": lambda: self._copy(f, run),
            **run.control(self.evaluate),
        }
        with f.loop():
            f.switch(run.word(0), [emit[name] for name in STEPS])
        f.return_(STATUS_OK)
        return f

    def _kernel(self, f: Function, run: _Run) -> None:
        started = run.start_timer()
        n_in, n_out, n_sizes = run.word(2), run.word(3), run.word(4)
        places = n_in + n_out
        with f.count(0, places) as i:
            f.store(run.arguments, i, run.place(i * 2 + 9))
        sizes_at = run.at(places * 2 + 9)
        inline = n_sizes.compare("<", 0)
        dynamic = run.arguments + places * 8
        with f.count(0, n_sizes) as i:
            f.store(dynamic, i, f.load(run.values, f.load(sizes_at, i)))
        tasks = f.load(run.values, run.word(5))
        region = run.region
        f.store(region, REGION["code"], run.word(1))
        f.store(region, REGION["inputs"], run.arguments)
        f.store(region, REGION["outputs"], run.arguments + n_in * 8)
        f.store(region, REGION["sizes"], f.select(inline, sizes_at, dynamic))
        f.store(region, REGION["tasks"], tasks)
        f.store(region, REGION["scratch_bytes"], run.word(7))
        self.pool.run(f, region, run.context, run.holder, tasks * f.load(run.values, run.word(6)))
        run.stop_timer(started, run.word(8))
        status = f.load_narrow(run.status, 32)
        with f.if_(status.compare("!=", 0)):
            f.return_(status)
        sizes_words = f.select(inline, f.word(0) - n_sizes, n_sizes)
        run.skip(places * 2 + sizes_words + 9)

    def _copy(self, f: Function, run: _Run) -> None:
        started = run.start_timer()
        source, target, length = run.place(1), run.place(3), f.load(run.values, run.word(5))
        with f.if_(source.compare("!=", target)):
            large = length.compare(">=", COPY_PARALLEL)
            with f.if_(f.b.not_(large)):
                f.call("memcpy", target, source, length)
            with f.if_(large):
                f.store(run.arguments, 0, source)
                f.store(run.arguments, 1, target)
                f.store(run.arguments, 2, length)
                region = run.region
                f.store(region, REGION["code"], Word(f, self.copy.ir.ptrtoint(ir.IntType(64))))
                f.store(region, REGION["inputs"], run.arguments)
                f.store(region, REGION["outputs"], run.arguments + 8)
                f.store(region, REGION["sizes"], run.arguments + 16)
                tasks = (length + COPY_CHUNK - 1).udiv(COPY_CHUNK)
                f.store(region, REGION["tasks"], tasks)
                f.store(region, REGION["scratch_bytes"], 0)
                self.pool.run(f, region, run.context, run.holder, tasks * COPY_COST)
        run.stop_timer(started, run.word(6))
        run.skip(f.word(7))


class _Run(StepWalk):
    """The state of `run_steps`: where the program is, and the memory of this execution."""

    def __init__(
        self, f: Function, record: Word, block: Word, inputs: Word, outputs: Word, profiler: Profiler, note: Function
    ) -> None:
        front = block + 8 * BLOCK_HEADER
        arena = front + f.load(record, RECORD["front_words"]) * 8
        super().__init__(f, record, front, (arena, inputs, outputs))
        self._times, self._names = times_of_execution(f, record), f.load(record, RECORD["names"])
        self._profiler, self._note = profiler, note
        self.status, self.context, self.holder = f.stack(1), f.stack(abi.CONTEXT_FIELDS), f.stack(2)
        self.region = f.stack(len(REGION))
        scratch = front + f.load(record, RECORD["scratch_word"]) * 8
        f.store(self.status, 0, 0)
        f.store(self.context, abi.THREAD_INDEX, 0)
        f.store(self.context, abi.SCRATCH, scratch)
        f.store(self.holder, 0, scratch)
        f.store(self.holder, 1, (1 << 62))  # the front holds the largest scratch any step needs
        f.store(self.region, REGION["record"], record)
        f.store(self.region, REGION["status"], self.status)

    def read(self, index: int, bits: int) -> Word:
        return self.f.load_narrow(self.place(index), bits)

    def start_timer(self) -> Local:
        """When the step began, 0 where nobody asks."""
        started = self.f.local(0)
        with self.f.if_((self._times.get() | self._profiler.is_recording(self.f)).compare("!=", 0)):
            started.set(now_ns(self.f))
        return started

    def stop_timer(self, started: Local, ordinal: Word) -> None:
        f = self.f
        with f.if_(self._times.get().compare("!=", 0)):
            f.call(self._note, self._times.get(), ordinal, now_ns(f) - started.get())
        with f.if_((f.select(started.get().compare("!=", 0), 1, 0) & self._profiler.is_recording(f)).compare("!=", 0)):
            self._profiler.record(f, self._names, ordinal, started)
