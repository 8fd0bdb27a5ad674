"""The file kinds and trace record kinds of a dump directory: one table each, one version for both.

A reader that meets a larger SCHEMA_VERSION says so and goes on; fields are only ever added within
a version. Every trace record has the COMMON fields; unknown fields and kinds are kept, not errors.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass

SCHEMA_VERSION = 1
MANIFEST_NAME = "manifest.json"


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind of file. `suffix`: what follows `module_NNNN.NAME.`, or the whole name where
    `per_module` is false; `*` stands for any text. `content` says what is in it."""

    suffix: str
    content: str
    per_module: bool = True


# The line that begins each part of a file that holds all kernels of a module, after the comment sign of its
# language (`;` LLVM IR, `#` assembly and Triton source, `//` the rest). A kernel's heading is 'kernel SYMBOL'. The file
# as a whole is for people: each part is a module of its own, in ir-with-opt.ll the parts between two
# headings 'module ...' are one.
MARKER = "==== {heading} ===="

FILE_KINDS: tuple[FileKind, ...] = (
    FileKind("before_optimizations.txt", "HLO text as lowered, literals in full."),
    FileKind("before_optimizations.hlo.pb", "HloProto as lowered, all literals: it replays."),
    FileKind("*_after_optimizations.txt", "HLO text after passes and fusion, in schedule order."),
    FileKind("*_after_optimizations.hlo.pb", "HloProto of the same."),
    FileKind("*_after_optimizations-buffer-assignment.txt", "Allocations, values, bytes: as XLA's."),
    FileKind("NNNN.*.after_*.before_*.txt", "HLO text between two passes (--xla_dump_hlo_pass_re)."),
    FileKind("fusion_decisions.json", "List of {a, b, ok, rule, reason}: fused, or why not."),
    FileKind("launch_plan.json", "The launch plan: inputs, outputs, sizes, steps, constants (bytes), arena."),
    FileKind(
        "buffers.json", "{arena_bytes, aliases, steps, buffers}: when each value is in memory (dump.buffer_lives)."
    ),
    FileKind("kernels.json", "List of the kernels: the fields that records of kind kernel have."),
    FileKind("timings.json", "{phases: {phase: ms}, passes: {pass: ms}, total_ms, target}: where compile time went."),
    FileKind("sources.json", "Map TF node -> [{file, line, text, ...}], innermost first."),
    FileKind("kernel_ir.txt", "Kernel IR of every kernel, each after a MARKER line."),
    FileKind("ir-no-opt.ll", "LLVM IR of every kernel as emitted."),
    FileKind("ir-with-opt.ll", "The LLVM IR modules that were compiled, each of several kernels."),
    FileKind("s", "Assembly of every kernel."),
    FileKind("triton.py", "Triton source of every kernel."),
    FileKind("ttir", "Triton IR."),
    FileKind("ttgir", "Triton GPU IR."),
    FileKind("ptx", "PTX."),
    FileKind("*.cubin", "A kernel's machine code for a GPU."),
    FileKind("graph_rewrites.after_*.before_*.pbtxt", "GraphDef between two (--tfxla_dump_graph_rewrite_re).", False),
    FileKind("before_mark_for_compilation*.pbtxt", "GraphDef before clustering.", False),
    FileKind(
        "must_compile*.pbtxt", "GraphDef of a must-compile function, its name as _XlaCluster on all nodes.", False
    ),
    FileKind("mark_for_compilation*.pbtxt", "GraphDef with attribute _XlaCluster on clustered nodes.", False),
    FileKind("mark_for_compilation_annotated*.pbtxt", "The same, node names prefixed with their cluster.", False),
    FileKind("trace.*.jsonl", "One JSON record a line, one file a process (RECORD_KINDS).", False),
    FileKind(MANIFEST_NAME, "Index derived from the traces and the directory (dump.manifest).", False),
)

# A stack is a list of {file, line, text, function, user}, the outermost frame first; user: whether the file is the
# user's (text, the line, is there then).
# Fields of every record; its process is in the name of the file.
COMMON: Mapping[str, str] = {
    "kind": "Key of RECORD_KINDS.",
    "time": "Seconds since the epoch when the record was written.",
    "thread": "Native thread id.",
}


@dataclass(frozen=True, slots=True)
class RecordKind:
    """`fields`: name -> meaning. A field may be absent where its value is unknown."""

    content: str
    fields: Mapping[str, str]


RECORD_KINDS: Mapping[str, RecordKind] = {
    "run": RecordKind(
        "Start of a process.",
        {
            "schema": "SCHEMA_VERSION of the writer.",
            "versions": "Map package -> version (tfxla_cluster, tensorflow, llvmlite, numpy, python).",
            "flags": "Map of the flags that are not at their default.",
            "argv": "Command line, list of words.",
            "environment": "Map of the variables of TensorFlow, XLA, CUDA and BLAS libraries.",
            "host": "Map: machine, system, cores, usable cores, cpu (its name), vector bits, features, memory bytes.",
        },
    ),
    "function": RecordKind(
        "A function TensorFlow is about to execute was looked at.",
        {
            "name": "TensorFlow's function name.",
            "graph": "File name of its graph, if dumped.",
            "route": "'must_compile', 'nested_must_compile' (called in a graph), or absent for automatic clustering.",
            "variables": "How many variables it captures.",
            "updated": "How many of them it assigns.",
            "nodes": "How many nodes its graph has.",
        },
    ),
    "cluster": RecordKind(
        "A cluster was formed.",
        {
            "name": "Value of _XlaCluster.",
            "function": "Name of the function it lies in.",
            "nodes": "List of TF node names.",
            "ops": "Map op type -> count, or their number.",
            "graph": "File name of the clustering graph.",
            "constants": "List of nodes whose value is compiled in.",
        },
    ),
    "unclustered": RecordKind(
        "A node that is in no cluster.",
        {
            "node": "TF node name.",
            "op": "Op type.",
            "rule": "Stable name of the rule that said no.",
            "reason": "A sentence.",
            "where": "file:line of the user.",
            "function": "Its function.",
            "graph": "File name of the clustering graph.",
        },
    ),
    "lowering": RecordKind(
        "A function or cluster became an HLO module.",
        {
            "module": "Module name.",
            "id": "Module number in file names.",
            "function": "Function or cluster lowered.",
            "params": "List of parameter descriptions.",
            "instructions": "Instructions as lowered.",
            "bridge": "The device type that TensorFlow's bridge lowered it for, for whatever device it is compiled.",
        },
    ),
    "compile": RecordKind(
        "An executable was asked for: found or compiled.",
        {
            "id": "Module number in file names.",
            "module": "Module name.",
            "cluster": "Cluster or function compiled.",
            "guards": "List of guards in words, or map name -> value.",
            "hit": "'memory', 'disk', 'rank' (another worker made it) or '' (compiled).",
            "reason": "Why there was no hit: the guards that differ.",
            "family": "What all traces of one function of the program share.",
            "where": "file:line of the user at which the function begins, '' unknown.",
            "closest": "Id of the earlier compilation of the family that is nearest.",
            "changed": "List of {kind, of, axis, was, now}: guards, facts and flags that differ from it.",
            "apart": "{where, instr, what, values, stack}: why it and an earlier module are not one for many sizes; "
            "the stack is what made the instruction.",
            "remedies": "List of sentences: what would have made one executable of both.",
            "told": "List of {task, of, axis, size}: what other workers saw that made it one for many sizes.",
            "structure": "Digest of the module up to sizes and literals.",
            "serves": "What it holds for: {inputs: [{of, dtype, dims, guards, value}], python, process}; a dim that "
            "may be any is null.",
            "called": "Stack of the first call of its trace.",
            "costs": "Map of milliseconds: trace (by TensorFlow, where known), lowering, generic (making it one for "
            "all sizes, and proofs), compile.",
            "phases": "Map phase -> milliseconds: trace (by TensorFlow, told once), lowering, generic, cache (a look "
            "on disk), history (why it is made), verify, passes, fusion, lower (to kernel IR), tuning, codegen, "
            "assembler (LLVM, Triton), plan, load, dump (writing these files), other.",
            "passes": "Map pass -> milliseconds, of the phase passes.",
            "ms": "Wall milliseconds of the compilation itself.",
            "wall_ms": "Wall milliseconds of it all: the sum of the phases.",
            "flags": "Map of the flags that were not at their default.",
            "kernels": "Steps of its plan that run code.",
            "native": "Of those, the ones that run native code.",
            "what": "'cluster' or 'must'.",
            "device": "What it is for: 'CPU', or 'GPU:N' by CUDA's number.",
            "generic": "Whether it serves many sizes.",
            "inputs": "List: what each HLO parameter is, in words.",
            "key": "Key text of the cache.",
        },
    ),
    "cross_compile": RecordKind(
        "Kernels were made for a machine that is not here (--tfxla_gpu_target); nothing of them ran.",
        {
            "id": "Module number in file names.",
            "module": "Name of the module that was compiled for this machine.",
            "arch": "What for: 'sm_90'.",
            "ms": "Wall milliseconds.",
        },
    ),
    "recompile": RecordKind(
        "A function is compiled again.",
        {
            "function": "Function or cluster.",
            "executables": "How many there were.",
            "failed": "List: guards of the nearest executable that do not hold, in words.",
        },
    ),
    "numerics": RecordKind(
        "A compiled function beside eager TensorFlow (--tfxla_watch_numerics).",
        {
            "function": "Function or cluster.",
            "event": "'parts' (the op gives another value compiled), 'nonfinite' (NaN or an infinity appears at the "
            "op), 'unwatched' (eager TensorFlow does not run it).",
            "op": "Its type; '' for none.",
            "node": "Its name in the graph.",
            "where": "file:line of the user's program.",
            "message": "A sentence.",
        },
    ),
    "limit": RecordKind(
        "A function is compiled no more (--tfxla_recompile_limit).",
        {
            "function": "Function or cluster.",
            "what": "'cluster' or 'must'.",
            "family": "What all traces of one function of the program share.",
            "limit": "The flag.",
            "where": "file:line at which the function begins.",
            "reason": "A sentence.",
            "remedy": "What to do.",
        },
    ),
    "dynamic": RecordKind(
        "Something about sizes that vary.",
        {
            "event": "'symbol' (a size got a name), 'guard' (an executable asks for it), 'proven' (at one more size), "
            "'refused' (no: not the program at that size), 'specialised' (compiled for its own sizes), 'trusted' (at "
            "sizes not proven), 'untrusted' (was to, but is another program at another size).",
            "ok": "False: 'refused', 'untrusted'.",
            "function": "Function or cluster.",
            "family": "What all traces of one function of the program share.",
            "size": "Name of the size.",
            "of": "The input that it is a dimension of, in words.",
            "axis": "Which dimension.",
            "range": "[least, most] of the size; null: no end.",
            "sizes": "Map input -> dims, or name of a size -> what it is.",
            "where": "file:line of the user.",
            "reason": "A sentence.",
        },
    ),
    "ranks": RecordKind(
        "Workers of a distribution strategy compile together (--tfxla_compiler_collectives).",
        {
            "event": "'met' (each said what it has), 'agreed' (on a module), 'compiled' (here), 'loaded' (what another "
            "made), 'alone' (for this worker).",
            "function": "Function or cluster.",
            "family": "What all traces of one function of the program share, on each worker.",
            "task": "This worker: 'worker 0'.",
            "sizes": "Of 'met': map worker -> list of [input, its dimensions there].",
            "missing": "Of 'met': map worker -> why it did not come.",
            "by": "The worker that compiles, or whose word it was.",
            "generic": "Of 'agreed': whether the module serves many sizes.",
            "ms": "Milliseconds that were waited.",
            "reason": "Why alone, or why nothing was handed over, a sentence.",
        },
    ),
    "store": RecordKind(
        "Something happened to the executable store on disk.",
        {"event": "'unusable', 'failed', ...", "reason": "A sentence."},
    ),
    "phase": RecordKind(
        "A timed span.",
        {
            "name": "Phase.",
            "ms": "Milliseconds.",
            "parts": "Map phase inside -> milliseconds.",
            "module": "Module name, if it belongs to one.",
            "cluster": "Cluster or function compiled, if it belongs to one.",
            "function": "TensorFlow function, if it belongs to one.",
        },
    ),
    "fusion": RecordKind(
        "A fusion decision.",
        {
            "module": "Module name.",
            "id": "Module number.",
            "a": "Producer, or (rule 'split') a fusion that is no kernel and came apart.",
            "b": "Consumer.",
            "ok": "Boolean.",
            "rule": "Rule that said no.",
            "reason": "A sentence.",
        },
    ),
    "kernel": RecordKind(
        "A kernel was generated, or a library is called.",
        {
            "module": "Module name.",
            "id": "Module number.",
            "symbol": "Machine code symbol; of a call, the library's function and the instruction.",
            "instr": "The instruction it was first made for.",
            "opcode": "Its opcode.",
            "instrs": "List of HLO instruction names that it computes.",
            "sources": "List of TF node names.",
            "tasks": "Tasks of its first launch: what threads, or a GPU's programs, share.",
            "bytes": "Bytes that this launch reads and writes, of each buffer each byte once.",
            "flops": "Scalar operations of this launch; null: not known.",
            "floor_ms": "Milliseconds that this launch takes at least: bytes by a copy, operations by a product of "
            "matrices (CPUs: measured, the fastest of some; GPUs: by the bandwidth and clock that the driver says).",
            "launches": "List of {instr, tasks, bytes, flops, floor_ms}: one an instruction that it is launched for.",
            "choice": "Map knob -> number of the form it was lowered in; {}: the default.",
            "tuning": "Where that came from: 'default', 'file', 'tuned' or 'given'.",
            "tuning_reason": "A sentence: why the default, when it was tuned.",
            "fingerprint": "Digest of its canonical text, by which results of tuning know it.",
        },
    ),
    "autotune": RecordKind(
        "Results of tuning were read, or a kernel was tuned.",
        {
            "event": "'loaded', 'tuned', 'failed' (the default stands), 'problem' (of a file), 'library' (none).",
            "instr": "The instruction, of one that was tuned.",
            "fusion": "Its canonical text.",
            "device": "What it was tuned on.",
            "choice": "Map knob -> number that won.",
            "ms": "Milliseconds of one run in that form.",
            "default_ms": "Milliseconds of one run in the default form.",
            "candidates": "List of {choice, ms, failure, message}: each that was measured, or why it fell out.",
            "space": "How many candidates there are.",
            "seconds": "That tuning it took.",
            "reason": "A sentence.",
        },
    ),
    "fallback": RecordKind(
        "Something ran another way than asked.",
        {"what": "Function, cluster or op.", "reason": "A sentence.", "to": "What ran instead ('xla', 'tensorflow')."},
    ),
    "execution": RecordKind(
        "Executions of one module so far: while it runs, at exit, when it is dropped. The last of an id holds.",
        {
            "module": "Module name.",
            "id": "Module number; null: found on disk, without files.",
            "count": "Executions so far.",
            "timed": "Of them, the first ones, those whose steps were timed.",
            "ms": "Milliseconds of all steps of those.",
            "steps": "List of {instr, symbol, count, ms, min_ms, median_ms} of those: a step of the plan (its kernel, "
            "routine, or 'copy'), its runs, their milliseconds, the shortest, and the median of the last 32.",
        },
    ),
    "graph": RecordKind(
        "Whether a module loaded for a GPU is launched as a CUDA graph.",
        {
            "module": "Module name.",
            "ok": "Boolean.",
            "rule": "Name of the rule that said no.",
            "reason": "Why not, a sentence.",
        },
    ),
    "cache": RecordKind(
        "A look into a cache.",
        {
            "cache": "'memory', 'disk', 'rank' (another worker's), 'cubin' (a kernel's), or 'lowered (memory)' and "
            "'lowered (disk)' (of functions).",
            "hit": "Boolean.",
            "reason": "Why not.",
            "key": "Key text.",
        },
    ),
    "stats": RecordKind("Counters at exit.", {"stats": "Map name -> number or list, as `tfxla_cluster.stats()`."}),
    "error": RecordKind(
        "An error was raised or swallowed.",
        {
            "what": "Where in the package.",
            "error": "Class name.",
            "message": "Text.",
            "where": "file:line of the user.",
            "op": "Op type.",
            "node": "TF node name.",
            "internal": "True: a bug of this package (`stats()` counts them as internal_errors).",
            "traceback": "Of a bug, its innermost 40 frames.",
        },
    ),
}


def markdown() -> str:
    """Both tables as Markdown, for the documentation."""
    lines = [f"Schema version {SCHEMA_VERSION}.", "", "| file | content |", "|---|---|"]
    for kind in FILE_KINDS:
        prefix = "module_NNNN.NAME." if kind.per_module else ""
        lines.append(f"| `{prefix}{kind.suffix}` | {kind.content} |")
    lines += ["", "| record | field | meaning |", "|---|---|---|"]
    lines += [f"| every | `{name}` | {text} |" for name, text in COMMON.items()]
    for name, record in RECORD_KINDS.items():
        lines.append(f"| **{name}** | | {record.content} |")
        lines += [f"| | `{field}` | {text} |" for field, text in record.fields.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(markdown())
