"""Executions as CUDA graphs, in machine code: the steps are captured once, and launched by one call.

A graph holds the addresses of its execution. One whose key is equal is launched as it is; else the steps are captured
anew and the graph that was longest unused takes their addresses over, which still costs a fraction of the launches.
"""

from __future__ import annotations

from llvmlite import ir

from ..launcher.record_layout import RECORD, STATUS_NO_MEMORY
from ..launcher.words import Function, Word
from .driver_code import STATE, call, give_back, take
from .record_layout import (
    CAPTURE_STREAMS,
    FIRST_GRAPH_CALL,
    GPU_RECORD,
    GRAPH_SLOT,
    GRAPH_SLOTS,
    GRAPHS,
    MOST_FAILURES,
    STATUS_TOO_LARGE,
)

NO_GRAPH = 1  # a status: the steps are still to run
_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED: what other threads do meanwhile does not matter
_RESULT_WORDS = 4  # of a CUgraphExecUpdateResultInfo, rounded up


def emit_graph(module: ir.Module, steps: Function) -> Function:
    """gpu_graph(record, outputs, launch, front, state): a status, NO_GRAPH where no graph ran."""
    capture = _emit_capture(module, steps)
    renew = _emit_renew(module)
    f = Function(module, "gpu_graph", 5)
    record, outputs, launch, front, state = f.args
    graphs = f.load(record, GPU_RECORD["graphs"])
    with f.if_(graphs.compare("==", 0)):
        f.return_(NO_GRAPH)
    early = f.atomic_add(graphs + 8 * GRAPHS["calls"], 1).compare("<", FIRST_GRAPH_CALL)
    with f.if_(f.b.or_(early, f.load(graphs, GRAPHS["failed"]).compare(">=", MOST_FAILURES))):
        f.return_(NO_GRAPH)
    driver, key = f.load(record, GPU_RECORD["driver"]), front + f.load(record, GPU_RECORD["key_word"]) * 8
    _write_key(f, record, outputs, front, state, key)
    slot = _equal_slot(f, graphs, key)
    with f.if_(slot.compare("!=", 0)):
        f.atomic_add(graphs + 8 * GRAPHS["replayed"], 1)
        f.return_(_launched(f, driver, graphs, slot, state))
    number = f.atomic_add(graphs + 8 * GRAPHS["next"], 1) & (GRAPH_SLOTS - 1)
    slot = _slot(f, graphs, number)
    with f.if_(f.exchange(slot, 1).compare("!=", 0)):
        f.atomic_add(graphs + 8 * GRAPHS["busy"], 1)
        f.return_(NO_GRAPH)
    graph = f.stack(1)
    f.store(graph, 0, 0)
    status = f.local(f.call(capture, record, outputs, launch, front, state, graph))
    with f.if_(status.get().compare("==", 0)):
        status.set(f.call(renew, record, slot, graph))
    with f.if_(f.load(graph).compare("!=", 0)):
        call(f, driver, "cuGraphDestroy", f.load(graph))
    with f.if_(status.get().compare("!=", 0)):
        with f.if_(status.get().compare("==", NO_GRAPH)):
            f.atomic_add(graphs + 8 * GRAPHS["failed"], 1)
        f.atomic_store(slot, 0)
        f.return_(status.get())
    f.call("memcpy", slot + 8 * len(GRAPH_SLOT), key, f.load(graphs, GRAPHS["key_words"]) * 8)
    f.return_(_launched(f, driver, graphs, slot, state))
    return f


def _slot(f: Function, graphs: Word, number: Word) -> Word:
    stride = f.load(graphs, GRAPHS["key_words"]) + len(GRAPH_SLOT)
    return graphs + (number * stride + len(GRAPHS)) * 8


def _write_key(f: Function, record: Word, outputs: Word, front: Word, state: Word, key: Word) -> None:
    f.store(key, 0, f.load(state, STATE["arena"]))
    inputs = front + f.load(record, GPU_RECORD["inputs_word"]) * 8
    at = key + 8
    for table, count in (
        (front, f.load(record, RECORD["size_count"])),
        (inputs, f.load(record, GPU_RECORD["input_count"])),
        (outputs, f.load(record, GPU_RECORD["output_count"])),
    ):
        f.call("memcpy", at, table, count * 8)
        at = at + count * 8


def _equal_slot(f: Function, graphs: Word, key: Word) -> Word:
    """A slot, now taken, whose graph has these addresses; 0 where there is none."""
    found = f.local(0)
    words = f.load(graphs, GRAPHS["key_words"])
    with f.count(0, f.load(graphs, GRAPHS["exact"]) * GRAPH_SLOTS) as i:
        slot = _slot(f, graphs, i)
        with f.if_(f.exchange(slot, 1).compare("==", 0)):
            differs = f.local(f.select(f.load(slot, GRAPH_SLOT["executable"]).compare("==", 0), 1, 0))
            with f.count(0, f.select(differs.get().compare("==", 0), words, 0)) as n:
                f.break_if(differs.get().compare("!=", 0))
                same = f.load(slot + 8 * len(GRAPH_SLOT), n).compare("==", f.load(key, n))
                differs.set(f.select(same, 0, 1))
            with f.if_(differs.get().compare("==", 0)):
                found.set(slot)
            with f.if_(differs.get().compare("!=", 0)):
                f.atomic_store(slot, 0)
        f.break_if(found.get().compare("!=", 0))
    return found.get()


def _launched(f: Function, driver: Word, graphs: Word, slot: Word, state: Word) -> Word:
    """Launches a slot's graph, after which the slot is free again: 0, or NO_GRAPH where the driver refuses. Then
    nothing of it runs: the driver has no memory of its own left, say; what else is wrong the steps will tell."""
    stream = f.load(state, STATE["stream"])
    refused = call(f, driver, "cuGraphLaunch", f.load(slot, GRAPH_SLOT["executable"]), stream).compare("!=", 0)
    f.atomic_store(slot, 0)
    with f.if_(refused):
        f.atomic_add(graphs + 8 * GRAPHS["failed"], 1)
    return f.select(refused, NO_GRAPH, 0)


def _emit_capture(module: ir.Module, steps: Function) -> Function:
    """gpu_capture(record, outputs, launch, front, state, graph): the steps into a new graph. A status: NO_GRAPH where
    the driver does not capture them."""
    f = Function(module, "gpu_capture", 6)
    record, outputs, launch, front, state, graph = f.args
    driver, stream = f.load(record, GPU_RECORD["driver"]), f.load(state, STATE["stream"])
    taken = take(f, f.load(record, GPU_RECORD["capture_streams"]), CAPTURE_STREAMS)
    own = f.load(taken)
    with f.if_(own.compare("==", 0)):
        f.return_(NO_GRAPH)
    status = f.local(NO_GRAPH)
    with f.if_(call(f, driver, "cuStreamBeginCapture_v2", own, _RELAXED).compare("==", 0)):
        f.store(state, STATE["stream"], own)
        status.set(f.call(steps, record, outputs, launch, front, state))
        f.store(state, STATE["stream"], stream)
        ended = call(f, driver, "cuStreamEndCapture", own, graph).compare("==", 0)
        known = f.b.or_(status.get().compare("==", STATUS_NO_MEMORY), status.get().compare("==", STATUS_TOO_LARGE))
        whole = f.both(ended, status.get().compare("==", 0))
        status.set(f.select(f.b.or_(known, whole), status.get(), NO_GRAPH))
    give_back(f, taken)
    f.return_(status.get())
    return f


def _emit_renew(module: ir.Module) -> Function:
    """gpu_renew(record, slot, graph): the slot's executable graph becomes that of the graph. 0 or NO_GRAPH."""
    f = Function(module, "gpu_renew", 3)
    record, slot, graph = f.args
    driver, graphs = f.load(record, GPU_RECORD["driver"]), f.load(record, GPU_RECORD["graphs"])
    executable = slot + 8 * GRAPH_SLOT["executable"]
    with f.if_(f.load(executable).compare("!=", 0)):
        said = f.stack(_RESULT_WORDS)
        code = call(f, driver, "cuGraphExecUpdate_v2", f.load(executable), f.load(graph), said)
        with f.if_(code.compare("==", 0)):
            f.atomic_add(graphs + 8 * GRAPHS["updated"], 1)
            f.return_(0)
        call(f, driver, "cuGraphExecDestroy", f.load(executable))  # other steps than before, e.g. an empty one
        f.store(executable, 0, 0)
    code = call(f, driver, "cuGraphInstantiateWithFlags", executable, f.load(graph), 0)
    with f.if_(code.compare("!=", 0)):
        f.store(executable, 0, 0)
        f.return_(NO_GRAPH)
    f.atomic_add(graphs + 8 * GRAPHS["made"], 1)
    f.return_(0)
    return f
