"""`tfxla-inspect explain`: why an op is in no cluster, why two instructions are not one kernel, why it was compiled
again."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tfxla_cluster.errors import InputFileError, TfxlaError

from . import recompiles
from .model import Dump, Module, Record, load, mapping, where, word, words
from .parsers import hlo
from .reading import Reader, rows
from .scan import scan

Say = Callable[[str], None]
_FLAGS = "TFXLA_FLAGS"


def run(path: Path, op: str, say: Say) -> int:
    """Of a dump: 0; 1 where nothing in it has that name, with what is near."""
    dump = load(scan(path), Reader())
    found = [*_clusters(dump, op), *_kernels(dump, op), *_functions(dump, op)]
    if found:
        say("\n".join(found))
        return 0
    near = sorted(n for n in _names(dump) if op.lower() in n.lower())[:10]
    say(f"{path}: nothing is called {op}" + (f"; there is {', '.join(near)}" if near else ""))
    return 1


def run_program(words_: Sequence[str], op: str, say: Say) -> int:
    """Runs a program with this package on (the flags do that), dumping into a directory that is removed, then as
    `run`. TfxlaError where it fails, InputFileError where it cannot be run or compiles nothing."""
    with tempfile.TemporaryDirectory(prefix="tfxla-explain-") as folder:
        asked = os.environ.get(_FLAGS, "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit")
        environment = {**os.environ, _FLAGS: f"{asked} --xla_dump_to={folder}"}
        command = [sys.executable, *words_] if words_[0].endswith(".py") else list(words_)
        try:
            done = subprocess.run(command, env=environment, check=False)
        except OSError as error:
            raise InputFileError(f"{words_[0]}: cannot be run: {error.strerror}") from None
        if done.returncode:
            raise TfxlaError(f"{' '.join(words_)} ended with code {done.returncode}", "Its own message stands above")
        if not any(Path(folder).iterdir()):
            raise InputFileError(f"{' '.join(words_)} compiled nothing", "Does it run a tf.function?")
        return run(Path(folder), op, say)


def _clusters(dump: Dump, op: str) -> Iterator[str]:
    """In which cluster, or by which rule in none."""
    for record in dump.of("cluster"):
        if op in words(record, "nodes"):
            yield f"{op}: in {word(record, 'name')} of {word(record, 'function') or 'a graph'}"
    left = [r for r in dump.of("unclustered") if op in (word(r, "node"), word(r, "op"))]
    for record in left:
        place = f" ({word(record, 'where')})" if word(record, "where") else ""
        function = f" of {word(record, 'function')}" if word(record, "function") else ""
        yield f"{word(record, 'node')} ({word(record, 'op')}){function}{place}: in no cluster"
        yield f"  {word(record, 'rule')}: {word(record, 'reason')}"
    for record in dump.of("fallback"):
        if op in word(record, "what"):
            yield f"{word(record, 'what')}: not compiled, {word(record, 'to')} runs it: {word(record, 'reason')}"


def _kernels(dump: Dump, op: str) -> Iterator[str]:
    """Which kernels compute it, and why these do not compute their neighbours too."""
    for module in dump.modules:
        reader = Reader()
        instrs = _instructions(module, reader, op)
        kernels = [
            r
            for r in rows(reader.json(module.files.one("kernels"), list))
            if op in (word(r, "symbol"), word(r, "instr"), *words(r, "sources"), *words(r, "instrs"))
        ]
        names = instrs | {word(r, "instr") for r in kernels} | {i for r in kernels for i in words(r, "instrs")}
        refused = [
            r
            for r in rows(reader.json(module.files.one("decisions"), list))
            if not r.get("ok") and {word(r, "a", "producer"), word(r, "b", "consumer")} & names
        ]
        if not (instrs or kernels):
            continue
        yield f"{op} in module {module.files.id} ({module.title}):"
        for record in kernels:
            inside = words(record, "instrs")
            more = f", with {len(inside) - 1} other instructions" if len(inside) > 1 else ""
            yield f"  kernel {word(record, 'symbol')} ({word(record, 'opcode')} %{word(record, 'instr')}{more})"
        yield from (f"  {line}" for line in _places(module, kernels))
        yield from (f"  {line}" for line in _refusals(refused))


def _instructions(module: Module, reader: Reader, op: str) -> set[str]:
    """The names of the instructions that the op became, or itself where it is one."""
    text = reader.text(module.files.one("after")) or reader.text(module.files.one("before"))
    found = hlo.parse(text)
    return {row.name for block in found.blocks for row in block.rows if op in (row.name, row.op_name)}


def _places(module: Module, kernels: Sequence[Record]) -> list[str]:
    found = (where(module.sources, node) for record in kernels for node in words(record, "sources"))
    return [f"line {line}" for line in dict.fromkeys(filter(None, found))][:5]


def _refusals(refused: Sequence[Record]) -> list[str]:
    lines = []
    for record in refused:
        pair = f"%{word(record, 'a', 'producer')}"
        if word(record, "b", "consumer"):
            pair += f" and %{word(record, 'b', 'consumer')}"
        lines.append(f"{pair} not in one kernel: {word(record, 'rule')}: {word(record, 'reason')}")
    return list(dict.fromkeys(lines))


def _functions(dump: Dump, op: str) -> Iterator[str]:
    """Why a function of that name was compiled again."""
    for function in recompiles.functions(dump):
        known = {function.title, *function.traces, *(word(c.record, "module") for c in function.compilations)}
        if op not in known:
            continue
        place = recompiles.begins(function)
        yield f"{function.title}{f' ({place})' if place else ''}: {len(function.compilations)} compilations"
        for compilation in function.compilations:
            record = compilation.record
            causes = ", ".join(compilation.causes) or "first"
            yield f"  [{compilation.name}] {causes}: {recompiles.reason(record)}"
            yield from (f"    {_change(c)}" for c in rows(record.get("changed") or []))
            yield from (f"    to have one: {remedy}" for remedy in words(record, "remedies"))
            apart = mapping(record, "apart")
            if word(apart, "where"):
                yield f"    they part at {word(apart, 'where')}: {word(apart, 'what')}"
        for record in function.limits:
            yield f"  compiled no more: {word(record, 'reason')}. {word(record, 'remedy')}"


def _change(change: Record) -> str:
    axis = f" dim {word(change, 'axis')}" if word(change, "axis") else ""
    return f"{word(change, 'of')}{axis}: {word(change, 'was')} -> {word(change, 'now')}"


def _names(dump: Dump) -> set[str]:
    """What may be asked about."""
    found = {word(r, key) for r in dump.of("unclustered") for key in ("node", "op")}
    found |= {node for r in dump.of("cluster") for node in words(r, "nodes")}
    found |= {function.title for function in recompiles.functions(dump)}
    return found - {""}
