"""The kinds of files that dumps hold, by name: one table, ours (tfxla_cluster.dump.schema) and those of XLA."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of file. `pattern` matches the end of a module file's name (group `kernel`, if any, is the
    kernel or pass it belongs to), or the whole name where `per_module` is false. `form`: how its bytes become
    text ('' text as it is; a key of decoders.DECODERS; 'binary' never). `like`: the kinds that its text is
    one of, where the dump has no file of that kind itself."""

    name: str
    pattern: re.Pattern[str]
    title: str
    per_module: bool = True
    form: str = ""
    like: tuple[str, ...] = ()


def _module(name: str, pattern: str, title: str, form: str = "", like: tuple[str, ...] = ()) -> Kind:
    return Kind(name, re.compile(rf"(?:^|\.){pattern}(?:\.gz)?$", re.DOTALL), title, True, form, like)


def _plain(name: str, pattern: str, title: str, form: str = "", like: tuple[str, ...] = ()) -> Kind:
    return Kind(name, re.compile(rf"{pattern}(?:\.gz)?$", re.DOTALL), title, False, form, like)


_AFTER = r"(?P<target>cpu|gpu|tpu|xpu|sm_[\w.]+?_gpu|gfx\w+?_gpu|[a-z]\w*)_after_optimizations"
_STEP = r"(?P<step>\d{4,})\."
_BETWEEN = _STEP + r"(?P<pipeline>.+?)\.after_(?P<after>.+?)\.before_(?P<before>.+?)"
_DURING = _STEP + r"(?P<pipeline>.+?)\.(?P<after>[^.]+)"  # the pass, and the step of its own
_KERNEL = r"(?:(?P<kernel>.+)\.)?"
_DRAWN = r"\.(?:dot|html|url)"
_TEXTPROTO = r"\.(?:pbtxt|textproto|txtpb|prototxt|txt)"

# First match wins.
KINDS: tuple[Kind, ...] = (
    _module("before", r"before_optimizations\.txt", "HLO before optimisation"),
    _module("before_proto", r"before_optimizations\.hlo\.pb", "HLO before optimisation (proto)", "hlo", ("before",)),
    _module("buffers", _AFTER + r"-buffer-assignment\.txt", "Buffer assignment"),
    _module("values", _AFTER + r"-buffer-assignment-values\.txt", "Values of buffers"),
    _module("live", _AFTER + r"-live-range\.txt", "Live ranges of buffers"),
    _module("memory", _AFTER + r"-memory-usage-report\.txt", "Memory report"),
    _module("memory_proto", _AFTER + r"-memory-usage-report\.pb", "Memory report (proto)", "proto", ("memory",)),
    _module("after", _AFTER + r"\.txt", "Optimised HLO"),
    _module("after_proto", _AFTER + r"\.hlo\.pb", "Optimised HLO (proto)", "hlo", ("after", "buffers")),
    _module("drawing", rf"(?:before_optimizations|{_AFTER})(?:\.top_level)?{_DRAWN}", "XLA's drawing", "binary"),
    _module("pass", _BETWEEN + r"\.txt", "HLO between passes"),
    _module("pass_proto", _BETWEEN + r"\.hlo\.pb", "HLO between passes (proto)", "hlo", ("pass",)),
    _module("drawing", _BETWEEN + _DRAWN, "XLA's drawing", "binary"),
    _module("decisions", r"fusion_decisions\.json", "Fusion decisions"),
    _module("plan", r"launch_plan\.json", "Launch plan"),
    _module("lives", r"buffers\.json", "When values are in memory"),
    _module("kernels", r"kernels\.json", "Kernel table"),
    _module("timings", r"timings\.json", "Timings"),
    _module("sources", r"sources\.json", "User source lines"),
    _module("kernel_ir", r"kernel_ir\.txt", "Kernel IR"),
    _module("llvm_before", _KERNEL + r"ir-no-opt\.ll", "LLVM IR as emitted"),
    _module("llvm", _KERNEL + r"ir-with-opt\.ll", "LLVM IR as compiled"),
    _module("assembly", _KERNEL + r"s", "Assembly"),
    _module("triton", _KERNEL + r"triton\.py", "Triton source"),
    _module("ttir", _KERNEL + r"ttir", "Triton IR"),
    _module("ttgir", _KERNEL + r"ttgir", "Triton GPU IR"),
    _module("ptx", _KERNEL + r"ptx", "PTX"),
    _module("cubin", r"(?P<kernel>.+)\.cubin", "GPU machine code", "binary"),
    _module("thunks", r"thunk_sequence\.txt", "Thunk sequence"),
    _module("object", r"(?:obj-file\.(?P<kernel>.+)\.)?o", "Object file", "binary"),
    _module("mlir", r"(?P<kernel>.+)-(?:pre-optimization|post-optimization|post-lowering)\.mlir", "Emitter MLIR"),
    _module("mlir_log", _KERNEL + r"mlir-passes\.log", "Passes of the emitter"),
    _module("options", r"debug_options", "Debug options"),
    _module("config", rf"config{_TEXTPROTO}", "Module configuration"),
    _module("metadata", rf"metadata{_TEXTPROTO}", "Times of passes"),
    _module("autotune", rf"autotune_results{_TEXTPROTO}", "Autotuning results"),
    _module("gpu_target", rf"gpu_target_config{_TEXTPROTO}", "GPU that it was compiled for"),
    _module("gpu_executable", rf"gpu_executable_proto{_TEXTPROTO}", "GPU executable"),
    _module(
        "gpu_executable_proto", r"gpu_executable_proto[\w.-]*", "GPU executable (proto)", "proto", ("gpu_executable",)
    ),
    _module("fdo", r"fdo_profile", "Profile that guided it", "proto"),
    _module(
        "snapshot_unoptimized", r"execution_\d+\.hlo_unoptimized_snapshot\.pb", "Snapshot", "snapshots", ("before",)
    ),
    _module("snapshot_text", r"execution_\d+\.hlo_unoptimized_snapshot\.txt", "Snapshot (text)", "", ()),
    _module("snapshot", r"(?:execution_\d+\.hlo_snapshot|snapshot\.-?\d+)\.pb", "Snapshot", "snapshot", ("before",)),
    _module("frontend_mlir", r"module\.mlir", "MLIR of the frontend"),
    _module("compile_options", r"compile_options\.(?:textproto|pbtxt|txt)", "Compile options"),
    _module(
        "compile_options_proto", r"compile_options(?:\.pb)?", "Compile options (proto)", "proto", ("compile_options",)
    ),
    _module("topology", r"topology\.(?:textproto|pbtxt|txt)", "Devices"),
    _module("topology_proto", r"topology(?:\.pb)?", "Devices (proto)", "proto", ("topology",)),
    _module("fusion_explorer", r"_fusion\.html", "XLA's fusion explorer", "binary"),
    _module("pass_inner", _DURING + r"\.txt", "HLO within a pass"),
    _module("pass_inner_proto", _DURING + r"\.hlo\.pb", "HLO within a pass (proto)", "hlo", ("pass_inner",)),
    _module("drawing", _DURING + _DRAWN, "XLA's drawing", "binary"),
    _plain("graph_annotated", r"mark_for_compilation_annotated(?:_\d+)?\.pbtxt", "Annotated TF graph"),
    _plain("graph", r"mark_for_compilation(?:_\d+)?\.pbtxt", "TF graph with clusters"),
    _plain("graph", r"must_compile(?:_\d+)?\.pbtxt", "TF graph with clusters"),
    _plain("graph_before", r"before_mark_for_compilation(?:_\d+)?\.pbtxt", "TF graph before clustering"),
    _plain("autotune_all", rf"autotun\w*results?\w*{_TEXTPROTO}", "Autotuning results"),
    _plain("graph_other", r".*\.pbtxt", "Other TF graph"),
    _plain("trace", r"trace\.(?P<pid>\d+)\.jsonl", "Trace"),
    _plain("manifest", r"manifest\.json", "Manifest"),
    _plain("log", r"(?!)", "Log with dumped files in it"),  # by its content alone
)
BY_NAME = {kind.name: kind for kind in reversed(KINDS)}
TITLES = {kind.name: kind.title for kind in KINDS}

# Kinds of names that other programs give too: alone they make no dump.
ANYBODYS = frozenset(("unknown", "manifest", "graph_other"))
# What a frontend writes of a module (JAX).
FRONTEND = frozenset(["frontend_mlir", "compile_options", "compile_options_proto", "topology", "topology_proto"])
# Kinds whose suffix alone tells where the module's name ends.
ANCHORS = FRONTEND | frozenset(
    [
        "before",
        "before_proto",
        "after",
        "after_proto",
        "buffers",
        "decisions",
        "kernels",
        "lives",
        "plan",
        "timings",
        "pass",
        "pass_proto",
        "drawing",
        "options",
        "snapshot",
        "snapshot_text",
        "snapshot_unoptimized",
    ]
)


def of_module(rest: str) -> tuple[Kind, re.Match[str]] | None:
    """The kind of a module's file by the end of its name; None where no kind is named so."""
    return _first(rest, _possible(_ending(rest), True))


def anchor(rest: str) -> re.Match[str] | None:
    """Where the kind's suffix begins, if it is one of ANCHORS."""
    found = _first(rest, [kind for kind in _possible(_ending(rest), True) if kind.name in ANCHORS])
    return found[1] if found else None


def plain(name: str) -> tuple[Kind, re.Match[str]] | None:
    """The kind of a file that is no module's, by its whole name."""
    for kind in _possible(_ending(name), False):
        if match := kind.pattern.fullmatch(name):
            return kind, match
    return None


def _first(rest: str, kinds: Iterable[Kind]) -> tuple[Kind, re.Match[str]] | None:
    for kind in kinds:
        if match := kind.pattern.search(rest):
            return kind, match
    return None


def _ending(name: str) -> str:
    return name.removesuffix(".gz").rpartition(".")[2]


@functools.lru_cache(maxsize=4096)
def _possible(ending: str, per_module: bool) -> tuple[Kind, ...]:
    """The kinds whose pattern has the ending as a word of its own, or ends with anything: the others need no search
    (100,000 names are classified in a second)."""
    word = re.compile(rf"(?<![A-Za-z]){re.escape(re.escape(ending))}(?![A-Za-z])")
    return tuple(
        kind
        for kind in KINDS
        if kind.per_module == per_module
        and (_ANY_END.search(kind.pattern.pattern) or word.search(kind.pattern.pattern))
    )


_ANY_END = re.compile(r"\*\(\?:\\\.gz\)\?\$$")
