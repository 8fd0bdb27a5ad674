"""The thread pool, as LLVM IR over futex: regions of independent tasks, run by the caller and workers.

A region is published as one ticket word, `generation << 32 | chunks left`. Whoever swaps in a ticket
one lower owns that chunk, the caller included, so nobody waits for a thread that has not begun. The
generation makes a ticket unique: a worker that read a region's fields and then wins the swap knows
that they were that region's. One caller at a time holds the pool; another runs its region alone.

Workers spin while executions run and a little after, then sleep on a futex. They start at the first
parallel region, hold no lock ever, block all signals, and flush denormals as callers do. A forked
child has no workers: `pool_after_fork` forgets them, and the next region starts new ones.
"""

from __future__ import annotations

from llvmlite import ir

from ...codegen.kernel import abi
from ..launcher.record_layout import STATUS_NO_MEMORY, table
from ..launcher.words import Function, Value, Word, global_words

# A region: one kernel launch. The caller fills it; the pool copies it where workers read.
REGION = table("code inputs outputs sizes record status tasks chunk chunks scratch_bytes")
LINE = 16  # words in two cache lines, what adjacent-line prefetch couples
# Shared words, those written by different threads on lines of their own.
FIELDS = {
    "ticket": 0,
    "done": LINE,  # chunks finished; the caller may sleep on it
    "waiting": LINE + 1,  # the caller sleeps on `done`
    "lock": 2 * LINE,  # 1 while a caller uses the pool
    "wake": 3 * LINE,  # the futex word of sleeping workers
    "sleepers": 3 * LINE + 1,
    "executing": 4 * LINE,  # executions in progress that may use the pool
    "workers": 5 * LINE,  # started workers
    "threads": 5 * LINE + 1,  # wanted, callers included
    "active_spin_ns": 5 * LINE + 2,  # spinning between regions of an execution
    "idle_spin_ns": 5 * LINE + 3,  # spinning after the last execution
    "parallel_cost": 5 * LINE + 4,  # smallest cost of a region that is shared
    "chunk_cost": 5 * LINE + 5,  # smallest cost of a chunk
    "region": 6 * LINE,  # the published region's fields (REGION)
}
POOL_WORDS = 7 * LINE
DEFAULTS = {"active_spin_ns": 200_000, "idle_spin_ns": 30_000, "parallel_cost": 80_000, "chunk_cost": 20_000}
CHUNKS_PER_THREAD = 4
FLUSH_DENORMALS = 0x9FC0  # MXCSR: all exceptions masked, round to nearest, FTZ and DAZ
SYS_FUTEX, FUTEX_WAIT_PRIVATE, FUTEX_WAKE_PRIVATE = 202, 128, 129
CLOCK_MONOTONIC = 1
SIG_SETMASK = 2
WAIT_SPINS = 4000  # pauses a caller spends before it sleeps until the last chunk is done


class Pool:
    """Emits the pool into `module`; `run(f, region, total cost)` is what the interpreter calls."""

    def __init__(self, module: ir.Module) -> None:
        self.module = module
        self._base = global_words(module, "tfxla_pool", POOL_WORDS)
        self._run_chunk = self._emit_run_chunk()
        self._claim = self._emit_claim()
        self._worker = self._emit_worker()
        self._start = self._emit_start()
        self._share = self._emit_share()
        self._emit_after_fork()
        self._emit_address()

    # --- used by the interpreter ---
    def field(self, f: Function, name: str) -> Word:
        """The address of a shared word."""
        return Word(f, self._base) + 8 * FIELDS[name]

    def get(self, f: Function, name: str) -> Word:
        return f.atomic_load(self.field(f, name))

    def run(self, f: Function, region: Word, context: Word, holder: Word, cost: Word) -> None:
        """Run a region: shared with the pool where it is worth it and the pool is free, else here.

        `context` and `holder` (scratch address, its bytes) are the caller's. `cost` is the region's.
        """
        f.call(self._share, region, context, holder, cost)

    # --- pieces ---
    def _emit_run_chunk(self) -> Function:
        """run_chunk(region, context, begin, end): point the context at the region and call its kernel."""
        f = Function(self.module, "pool_run_chunk", 4)
        region, context, begin, end = f.args
        f.store(context, abi.TASK_BEGIN, begin)
        f.store(context, abi.TASK_END, end)
        f.store(context, abi.RUNTIME, f.load(region, REGION["record"]))
        f.store(context, abi.STATUS, f.load(region, REGION["status"]))
        f.call(
            f.load(region, REGION["code"]),
            context,
            f.load(region, REGION["inputs"]),
            f.load(region, REGION["outputs"]),
            f.load(region, REGION["sizes"]),
        )
        f.return_()
        return f

    def _emit_claim(self) -> Function:
        """claim(context, holder): take and run one chunk of the published region; 1 if there was one."""
        f = Function(self.module, "pool_claim", 2)
        context, holder = f.args
        ticket = self.get(f, "ticket")
        left = ticket & 0xFFFFFFFF
        with f.if_(left.compare("==", 0)):
            f.return_(0)
        region = f.stack(len(REGION))
        for index in REGION.values():
            shared = self.field(f, "region") + 8 * index
            f.store(region, index, f.atomic_load(shared))
        won = f.compare_swap(self.field(f, "ticket"), ticket, ticket - 1)
        with f.if_(f.b.not_(won)):
            f.return_(1)  # another thread took it: there is work, look again
        chunk = f.load(region, REGION["chunk"])
        begin = (left - 1) * chunk
        end = (begin + chunk).min(f.load(region, REGION["tasks"]))
        with f.if_(self._ensure_scratch(f, region, context, holder).compare("!=", 0)):
            f.call(self._run_chunk, region, context, begin, end)
        f.atomic_add(self.field(f, "done"), 1)
        with f.if_(self.get(f, "waiting").compare("!=", 0)):
            self._futex(f, "done", FUTEX_WAKE_PRIVATE, 1)
        f.return_(1)
        return f

    def _ensure_scratch(self, f: Function, region: Word, context: Word, holder: Word) -> Word:
        """Grow this thread's scratch to what the region needs; 0 and a status where memory is out."""
        need = f.load(region, REGION["scratch_bytes"])
        fine = f.local(1)
        with f.if_(need.compare(">", f.load(holder, 1))):
            f.call("free", f.load(holder, 0))
            size = (need + 63) & -64
            block = f.call("aligned_alloc", 64, size)
            f.store(holder, 0, block)
            f.store(holder, 1, f.select(block.compare("!=", 0), size, 0))
            f.store(context, abi.SCRATCH, block)
            with f.if_(block.compare("==", 0)):
                fine.set(0)
                status = f.b.inttoptr(f.load(region, REGION["status"]).value, ir.PointerType())
                f.b.store(ir.IntType(32)(STATUS_NO_MEMORY), status)
        return fine.get()

    def _emit_worker(self) -> Function:
        """worker(index): claim chunks; spin for a while after the last one, then sleep."""
        f = Function(self.module, "pool_worker", 1)
        set_mxcsr(f, f.word(FLUSH_DENORMALS))
        context, holder = f.stack(abi.CONTEXT_FIELDS), f.stack(2)
        f.store(context, abi.THREAD_INDEX, f.args[0])
        f.store(context, abi.SCRATCH, 0)
        f.store(holder, 0, 0)
        f.store(holder, 1, 0)
        since = f.local(now_ns(f))
        with f.loop():
            with f.if_(f.call(self._claim, context, holder).compare("!=", 0)):
                with f.loop():
                    f.break_if(f.call(self._claim, context, holder).compare("==", 0))
                since.set(now_ns(f))
            with f.count(0, 32):
                f.intrinsic("llvm.x86.sse2.pause")
            active = self.get(f, "executing").compare("!=", 0)
            limit = f.select(active, self.get(f, "active_spin_ns"), self.get(f, "idle_spin_ns"))
            with f.if_((now_ns(f) - since.get()).compare(">", limit)):
                self._sleep(f)
                since.set(now_ns(f))
        f.return_()
        return f

    def _sleep(self, f: Function) -> None:
        """Announce, look once more, sleep: a region published in between changes `wake` or is seen."""
        wake = self.get(f, "wake")
        f.atomic_add(self.field(f, "sleepers"), 1)
        left = self.get(f, "ticket") & 0xFFFFFFFF
        with f.if_(left.compare("==", 0)):
            self._futex(f, "wake", FUTEX_WAIT_PRIVATE, wake & 0xFFFFFFFF)
        f.atomic_add(self.field(f, "sleepers"), -1)

    def _emit_start(self) -> Function:
        """start(): start the missing workers, under the pool's lock; fewer where the system refuses."""
        f = Function(self.module, "pool_start", 0)
        masks = f.stack(32)  # two sigset_t
        f.call("sigfillset", masks)
        f.call("pthread_sigmask", SIG_SETMASK, masks, masks + 128)
        thread, entry = f.stack(1), Word(f, self._worker.ir.ptrtoint(ir.IntType(64)))
        with f.loop():
            workers = self.get(f, "workers")
            f.break_if((workers + 1).compare(">=", self.get(f, "threads")))
            failed = f.call("pthread_create", thread, 0, entry, workers + 1) & 0xFFFFFFFF
            with f.if_(failed.compare("!=", 0)):
                f.atomic_store(self.field(f, "threads"), workers + 1)
                f.break_()
            f.call("pthread_detach", f.load(thread))
            f.atomic_store(self.field(f, "workers"), workers + 1)
        f.call("pthread_sigmask", SIG_SETMASK, masks + 128, 0)
        f.return_()
        return f

    def _emit_share(self) -> Function:
        """share(region, context, holder, cost): the whole of `run`."""
        f = Function(self.module, "pool_share", 4)
        region, context, holder, cost = f.args
        tasks = f.load(region, REGION["tasks"])
        with f.if_(tasks.compare("<=", 0)):
            f.return_()
        threads = self.get(f, "threads")
        chunks = self._chunks(f, tasks, threads, cost)
        small = f.b.or_(chunks.compare("<=", 1), cost.compare("<", self.get(f, "parallel_cost")))
        alone = f.b.or_(small, threads.compare("<=", 1))
        with f.if_(alone):
            f.call(self._run_chunk, region, context, 0, tasks)
            f.return_()
        with f.if_(f.exchange(self.field(f, "lock"), 1).compare("!=", 0)):
            f.call(self._run_chunk, region, context, 0, tasks)
            f.return_()
        with f.if_((self.get(f, "workers") + 1).compare("<", threads)):
            f.call(self._start)
        self._publish(f, region, tasks, chunks)
        with f.loop():
            f.break_if(f.call(self._claim, context, holder).compare("==", 0))
        self._wait(f, region)
        f.atomic_store(self.field(f, "lock"), 0)
        f.return_()
        return f

    def _chunks(self, f: Function, tasks: Word, threads: Word, cost: Word) -> Word:
        by_cost = cost.udiv(self.get(f, "chunk_cost").max(1)).max(1)
        return tasks.min(threads * CHUNKS_PER_THREAD).min(by_cost)

    def _publish(self, f: Function, region: Word, tasks: Word, chunks: Word) -> None:
        """Make the region claimable and wake as many sleepers as can help."""
        chunk = (tasks + chunks - 1).udiv(chunks)
        chunks = (tasks + chunk - 1).udiv(chunk)
        f.store(region, REGION["chunk"], chunk)
        f.store(region, REGION["chunks"], chunks)
        for index in REGION.values():
            f.store(self.field(f, "region"), index, f.load(region, index))
        f.atomic_store(self.field(f, "done"), 0)
        generation = (self.get(f, "ticket") >> 32) + 1
        f.atomic_store(self.field(f, "ticket"), (generation << 32) | chunks)
        with f.if_(self.get(f, "sleepers").compare(">", 0)):
            f.atomic_add(self.field(f, "wake"), 1)
            self._futex(f, "wake", FUTEX_WAKE_PRIVATE, chunks - 1)

    def _wait(self, f: Function, region: Word) -> None:
        """Until all chunks are done: spin, then sleep on `done`."""
        chunks = f.load(region, REGION["chunks"])
        spins = f.local(0)
        with f.loop():
            done = self.get(f, "done")
            f.break_if(done.compare("==", chunks))
            f.intrinsic("llvm.x86.sse2.pause")
            spins.set(spins.get() + 1)
            with f.if_(spins.get().compare(">", WAIT_SPINS)):
                f.atomic_store(self.field(f, "waiting"), 1)
                self._futex(f, "done", FUTEX_WAIT_PRIVATE, done)
                f.atomic_store(self.field(f, "waiting"), 0)

    def _emit_after_fork(self) -> None:
        """In a forked child: no workers, no region, no lock."""
        f = Function(self.module, "pool_after_fork", 0)
        for name in ("ticket", "done", "waiting", "lock", "wake", "sleepers", "executing", "workers"):
            f.atomic_store(self.field(f, name), 0)
        f.return_()

    def _emit_address(self) -> None:
        f = Function(self.module, "pool_address", 0)
        f.return_(Word(f, self._base))

    def _futex(self, f: Function, name: str, operation: int, value: Value) -> None:
        """Wait while the low half of the word equals `value`, or wake `value` waiters."""
        f.call("syscall", SYS_FUTEX, self.field(f, name), operation, value, 0, 0, 0)


def set_mxcsr(f: Function, value: Word) -> None:
    slot = f.stack(1)
    f.store(slot, 0, value)
    f.intrinsic("llvm.x86.sse.ldmxcsr", slot)


def get_mxcsr(f: Function) -> Word:
    slot = f.stack(1)
    f.store(slot, 0, 0)
    f.intrinsic("llvm.x86.sse.stmxcsr", slot)
    return f.load(slot)


def now_ns(f: Function) -> Word:
    """Nanoseconds of the monotonic clock (no system call: the vDSO answers)."""
    time = f.stack(2)
    f.call("clock_gettime", CLOCK_MONOTONIC, time)
    return f.load(time) * 1_000_000_000 + f.load(time, 1)
