"""Compilation as the TensorFlow side asks for it: caches in front of the compiler, counters and records.

An executable is looked for in memory, then on disk (--tf_xla_persistent_cache_directory), then compiled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from . import bugs, compile_records, compiler, counters, cross_compile, dynamic_records, flag_options, flags, trace
from .backends import registry
from .backends.backend import Backend, NativeExecutable
from .codegen.kernel.choice import Choices
from .codegen.kernel.code import Code
from .decision import Decision
from .dump import module_files
from .dump.sink import Sink
from .dynamic import families, prove, rows
from .dynamic.families import Choice
from .dynamic.lowered import Lowered
from .dynamic_policy import DynamicPolicy
from .errors import RecompileLimitError, TuningError
from .executable_key import about, cache_key
from .execution_records import ExecutionRecords
from .handover import Handover
from .history import History, for_all
from .ir import guard
from .ir.node import Module
from .loaded import Loaded, Served
from .locks import ForkSafeLock
from .options import NO_DUMP, CompileOptions
from .rank_policy import RankPolicy
from .ranks.board import Board
from .recompile_limit import RecompileLimit
from .runtime import cache, persist, random_state
from .runtime.kept_sections import KeptSections
from .runtime.store import opened
from .tuning import session, tables
from .tuning.keys import TunedKeys

if TYPE_CHECKING:  # not at run time: `enable` may run within the import of tensorflow, and needs this module whole
    from .tf.compiler_port import CompileRequest


class Service:
    """A tf.compiler_port.Compiler, one a process.

    on_evict: makes those who run an executable forget it. usage(): how often they ran each (by id). board(): where the
    workers of a strategy over several write for each other, None where this process is none of them.
    """

    def __init__(
        self,
        on_evict: Callable[[Loaded], None],
        usage: Callable[[], Mapping[int, int]],
        board: Callable[[], Board | None] = lambda: None,
    ) -> None:
        self.lock = ForkSafeLock()
        self._on_evict = on_evict
        self.memory: cache.Cache[Loaded] = cache.Cache(
            lambda: int(flags.get("tfxla_cache_capacity")), self._evicted, usage
        )
        self._executions = ExecutionRecords(self.memory.values, usage)
        self.compile_seconds = 0.0
        self._tuned_keys = TunedKeys()
        self._ranks = RankPolicy(board)
        self._policy = DynamicPolicy(self._ranks)
        self._history, self._limit = History(), RecompileLimit()
        self._lowered = KeptSections("lowered")

    def compile_hlo(self, proto: bytes, request: CompileRequest) -> Served:
        """The executable of HloModuleProto bytes, for many sizes where there is one that is proven right at these;
        UnsupportedError for what has no kernel yet."""
        lowered = Lowered(proto)
        start = time.perf_counter()
        choice = self._policy.choose(lowered, request)
        chosen = (time.perf_counter() - start) * 1e3
        request = replace(request, costs={**request.costs, "generic": chosen})
        if (generic := choice.generic) is not None:
            try:
                loaded, compiled = self._executable(choice, request)
            except (TuningError, RecompileLimitError):
                raise
            except Exception as error:  # noqa: BLE001 - its own sizes may still compile
                reason = bugs.failed(f"compiling {request.name} for all sizes", error)
                self._policy.refuse(request, generic, reason)
            else:
                if fits := prove.holds(loaded.guards, lowered.shapes):
                    ranges = self._policy.trusted(lowered.shapes, request, choice)
                    handed = loaded.executable.hold([literal.tobytes() for literal in choice.handed])
                    return Served(loaded, compiled, ranges is None, handed, ranges or ())
                reason = fits.reason
            choice = families.alone(lowered.module, reason)
            if choice.misfit is not None:
                dynamic_records.specialised(choice.misfit, lowered.shapes, request)
        return Served(*self._executable(choice, request))

    def _executable(self, choice: Choice, request: CompileRequest) -> tuple[Loaded, bool]:
        """Found, or compiled now (True)."""
        options = flag_options.compile_options(request.device)
        options = replace(options, any_order=options.any_order and not request.ordered)
        backend = registry.for_device(request.device, options.any_order)
        tuning = flag_options.tuning_options()
        choices = session.choices(backend, options, tuning)
        untuned = cache_key(choice, backend, options)
        key = self._tuned_keys.key(untuned, choices, opened(options.store))
        found = None if key is None else self.memory.get(_in_memory(key, request, options))
        if key is not None and found is not None:
            counters.add("cache_hits", reason="memory")
            _lookup("memory", True, key)
            self._record(request, key, choice, found, {"hit": "memory"})
            return found, False
        with trace.phase("executable", cluster=request.name) as timed:
            with trace.phase("cache"):
                stored = None if key is None else self._from_disk(key, request, choice, backend, options)
            compiled = False
            if key is None:
                counters.add("cache_misses", reason="its kernels may still be tuned")
            if key is None or stored is None:
                with self._ranks.turn(key, request) as turn:
                    stored = None if key is None else self._from_rank(turn, key, request, choice, backend, options)
                    if key is None or stored is None:
                        key, stored = self._compile(choice, untuned, request, backend, options, choices, turn, timed)
                        tables.PROCESS.dump(tuning)
                        compiled = True
        with self.lock:
            self.compile_seconds += timed.seconds
        self._executions.watch()
        return self.memory.put(_in_memory(key, request, options), stored), compiled

    def _compile(
        self,
        choice: Choice,
        untuned: cache.Key,
        request: CompileRequest,
        backend: Backend[NativeExecutable],
        options: CompileOptions,
        choices: Choices,
        turn: Handover,
        timed: trace.Phase,
    ) -> tuple[cache.Key, Loaded]:
        """The executable and its key; `untuned`: that of the module, `timed`: the phase that this is a part of.
        RecompileLimitError where there is to be none."""
        module = choice.module
        with trace.phase("history"):
            read = rows.of_module(module)
            content = rows.content(read)
        with self._admitted(request, content):
            number, made = _compiled(module, request, backend, options, choices)
        loaded = Loaded.of(made.executable, request.name, number)
        store = opened(options.store)
        counters.add("compilations")
        with trace.phase("history"):
            key = self._tuned_keys.learn(untuned, choices, made.chosen.values(), store)
            why = self._history.note(request, untuned, choice, number)
            self._limit.note(request, content, why["reason"], why.get("remedies", []))
        loaded.count_kernels()
        if choice.generic is not None:
            dynamic_records.guarded(loaded.guards, request)
        if trace.wants("compile"):
            spent = sum(made.phases.values())
            phases = compile_records.phases(request, timed)
            fields = {
                "id": number,
                "hit": "",
                **why,
                "structure": rows.structure(read if choice.generic is None else choice.generic.template),
                "serves": compile_records.serves(request, loaded.guards, untuned),
                "called": list(request.called),
                "costs": compile_records.costs(request, spent),
                "phases": phases,
                "passes": made.passes,
                "ms": round(spent, 3),
                "wall_ms": sum(phases.values()),
                "flags": flags.non_default(),
            }
            self._record(request, key, choice, loaded, fields)
        if store is not None or turn.is_wanted:
            sections = persist.to_sections(made.plan, made.code.objects)
            turn.give(sections)
            if store is not None:
                store.put(key, persist.KIND, sections, about(request, module))
        return key, loaded

    @contextmanager
    def _admitted(self, request: CompileRequest, content: str) -> Iterator[None]:
        try:
            with self._limit.admitted(request, content):
                yield
        except RecompileLimitError as error:
            self._policy.note_limit(request)
            compile_records.limited(request, flag_options.recompile_limit(), error)
            raise

    def _from_disk(
        self,
        key: cache.Key,
        request: CompileRequest,
        choice: Choice,
        backend: Backend[NativeExecutable],
        options: CompileOptions,
    ) -> Loaded | None:
        store = opened(options.store)
        if store is None:
            counters.add("cache_misses", reason="not in memory")
            _lookup("memory", False, key, "not in memory")
            return None
        lookup = store.get(key, persist.KIND)
        reason = lookup.reason
        if lookup.sections is not None:
            found = self._restored(lookup.sections, "disk", key, request, choice, backend, options)
            if isinstance(found, Loaded):
                return found
            reason = found
        counters.add("cache_misses", reason=reason)
        if trace.wants("cache"):  # it reads other entries
            _lookup("disk", False, key, "; ".join([reason, *store.explain_miss(key, persist.KIND)]))
        return None

    def _from_rank(
        self,
        turn: Handover,
        key: cache.Key,
        request: CompileRequest,
        choice: Choice,
        backend: Backend[NativeExecutable],
        options: CompileOptions,
    ) -> Loaded | None:
        """What another worker of the strategy compiled, kept as if it had been here."""
        sections = turn.take()
        if sections is None:
            return None
        found = self._restored(sections, "rank", key, request, choice, backend, options)
        if not isinstance(found, Loaded):
            _lookup("rank", False, key, found)
            return None
        if (store := opened(options.store)) is not None:
            store.put(key, persist.KIND, sections, about(request, choice.module))
        return found

    def _restored(
        self,
        sections: Mapping[str, bytes],
        cache_name: str,
        key: cache.Key,
        request: CompileRequest,
        choice: Choice,
        backend: Backend[NativeExecutable],
        options: CompileOptions,
    ) -> Loaded | str:
        """The executable in sections that a cache had, or why there is none in them."""
        try:
            plan, objects = persist.from_sections(sections)
            loaded = Loaded.of(backend.load(plan, Code(tuple(objects)), options), request.name, None)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with an entry, it can be compiled
            return f"the entry does not hold an executable of this version ({error})"
        counters.add("cache_hits", reason=cache_name)
        _lookup(cache_name, True, key)
        loaded.count_kernels()
        why = {"reason": "; ".join(["another worker compiled it", *for_all(choice)])} if cache_name == "rank" else {}
        self._record(request, key, choice, loaded, {"hit": cache_name, **why})
        return loaded

    def _record(
        self, request: CompileRequest, key: cache.Key, choice: Choice, loaded: Loaded, fields: dict[str, Any]
    ) -> None:
        if not trace.wants("compile"):
            return
        trace.record(
            "compile",
            module=request.name,
            cluster=request.name,
            what=request.kind,
            device=request.device,
            guards=compile_records.by_input(request, loaded.guards),
            inputs=list(request.inputs),
            key=cache_key_text(key),
            generic=choice.generic is not None,
            told=list(map(asdict, choice.told)),
            family=request.family or request.name,
            where=request.place() or "",
            **{"costs": compile_records.costs(request), **fields, **asdict(loaded.count)},
        )

    def recall(self, key: cache.Key, device: str) -> Mapping[str, bytes] | None:
        """As the port says."""
        return self._lowered.get(key, flag_options.store_options(device.partition(":")[0]))

    def keep(self, key: cache.Key, device: str, sections: Mapping[str, bytes], about: Mapping[str, str]) -> None:
        """As the port says."""
        self._lowered.put(key, flag_options.store_options(device.partition(":")[0]), sections, about)

    def usable(self, device_type: str) -> Decision:
        """As the port says."""
        return registry.usable(device_type)

    def explain(self, status: int) -> Exception:
        """As the port says."""
        from .runtime.gpu.executable import status_error  # not at the start of every process

        return status_error(status, "a function or cluster")

    def seed_random(self, seed: int | None) -> None:
        """As the port says."""
        random_state.seed(seed)

    def save_profiles(self) -> None:
        """Write which sizes were seen, where that is asked for."""
        self._policy.save_profiles()

    def record_executions(self) -> None:
        """What each executable in memory has run so far, where it was timed."""
        self._executions.write_all()

    def _evicted(self, key: cache.Key, loaded: Loaded) -> None:
        self._executions.write_dropped(loaded)
        self._on_evict(loaded)

    def clear(self) -> int:
        """Forget the executables in memory; how many there were. Those in use stay until their last call."""
        self._policy.forget()
        self._lowered.clear()
        self._limit.forget()
        return self.memory.clear()


def _compiled(
    module: Module,
    request: CompileRequest,
    backend: Backend[NativeExecutable],
    options: CompileOptions,
    choices: Choices,
) -> tuple[int | None, compiler.Compiled[NativeExecutable]]:
    """Compile a module, with its files and its record; its number in these."""
    from .tf2xla import bridge  # it imports tensorflow, whose import may import this module

    sink = Sink(flag_options.dump_options())
    dump = sink.module(request.name)
    with trace.phase("dump"):
        module_files.sources(dump, module, request.lines)
        trace.record(
            "lowering",
            module=request.name,
            id=dump.number,
            function=request.name,
            params=list(request.inputs),
            instructions=sum(len(comp.instrs) for comp in module.computations()),
            bridge=bridge.DEVICE.partition(":")[0],
        )
    try:
        return dump.number, compiler.compile_module(module, backend, options, dump, choices)
    finally:  # also where this machine has no kernel for what the GPU has one for
        cross_compile.dump_for_gpu(module, request.name, sink, options, request.lines)


def _in_memory(key: cache.Key, request: CompileRequest, options: CompileOptions) -> cache.Key:
    """The key in memory: kernels are loaded on one device, and what is dumped elsewhere, or timed in other executions,
    has to be made once more."""
    dumped = flag_options.dump_options()
    facts = {"device": request.device, "dump": repr(dumped if dumped.directory else NO_DUMP)}
    return (*key, *guard.facts({**facts, "timed": options.timed_executions}))


def _lookup(name: str, hit: bool, key: cache.Key, reason: str = "") -> None:
    """Record what a cache said."""
    if trace.wants("cache"):
        trace.record("cache", cache=name, hit=hit, key=cache_key_text(key), reason=reason)


def cache_key_text(key: cache.Key) -> str:
    """The key in the words that name its file on disk."""
    return "; ".join(map(guard.fact_text, key))
