"""The flag registry: every flag of TF_XLA_FLAGS and XLA_FLAGS that concerns us, and our own.

Values come, later over earlier, from: the defaults below, the environment variable TFXLA_FLAGS
(read once, at `enable` or first use), `enable(**flags)`, and `patch(**flags)` (scoped). TF_XLA_FLAGS and
XLA_FLAGS themselves stay stock XLA's.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from .errors import FlagError

ENV = "TFXLA_FLAGS"
_TRUE, _FALSE = ("true", "t", "1", "yes"), ("false", "f", "0", "no")


@dataclass(frozen=True, slots=True)
class Flag:
    """`kind` one of bool, int, str, regex, enum (then `choices`) and level (of auto-clustering). `least`, `most`: of
    an int.
    `no_effect`: why a flag that XLA has does nothing here; whoever sets it is told once.

    `origin` 'tf' (TF_XLA_FLAGS), 'xla' (XLA_FLAGS) or 'own'.
    """

    name: str
    kind: str
    default: Any
    help: str
    choices: tuple[str, ...] = ()
    no_effect: str = ""
    least: int = 0
    most: int = 2**63 - 1

    @property
    def origin(self) -> str:
        if self.name.startswith("tf_xla_"):
            return "tf"
        return "xla" if self.name.startswith("xla_") else "own"


_INT32_MAX, _INT64_MAX = 2**31 - 1, 2**63 - 1
_MOST_THREADS = 1024

FLAGS: dict[str, Flag] = {
    flag.name: flag
    for flag in (
        # --- TF_XLA_FLAGS: what is clustered ---
        Flag(
            "tf_xla_auto_jit",
            "level",
            "0",
            "Auto-clustering level: 0 as tf.config.optimizer.set_jit says, -1 off, 1 or 2 on, 'fusible' on "
            "with --tf_xla_ops_to_cluster=FUSIBLE, 'single-gpu(N)' as N.",
        ),
        Flag("tf_xla_cpu_global_jit", "bool", False, "Auto-clustering on the CPU too (needs a level)."),
        Flag("tf_xla_min_cluster_size", "int", 4, "Smallest cluster kept, in operations."),
        Flag("tf_xla_max_cluster_size", "int", _INT32_MAX, "Largest cluster, in graph nodes."),
        Flag("tf_xla_ops_to_cluster", "str", "", "Only these ops and groups (PW, RED, FUSIBLE, ...), comma separated."),
        Flag("tf_xla_cluster_exclude_ops", "str", "", "Ops never clustered, comma separated."),
        Flag("tf_xla_clustering_debug", "bool", False, "Write the clustering graphs to TF_DUMP_GRAPH_PREFIX."),
        Flag("tf_xla_clustering_fuel", "int", _INT64_MAX, "Operations that may be clustered in this process."),
        Flag("tf_xla_deterministic_cluster_names", "bool", False, "Cluster names from a hash of the function."),
        Flag("tf_xla_disable_deadness_safety_checks_for_debugging", "bool", False, "Ignore deadness when merging."),
        Flag(
            "tf_xla_disable_resource_variable_safety_checks_for_debugging",
            "bool",
            False,
            "Ignore variable hazards when merging.",
            no_effect="clusters hold no variable ops: variables are read before and written after them",
        ),
        Flag("tf_xla_disable_constant_folding", "bool", False, "No folding of constants (pass constant-folding)."),
        # --- TF_XLA_FLAGS: when and how it is compiled ---
        Flag(
            "tf_xla_enable_lazy_compilation",
            "bool",
            True,
            "Compile at first execution.",
            no_effect="compilation happens at first execution always",
        ),
        Flag("tf_xla_async_compilation", "bool", False, "Run TensorFlow's ops while a cluster compiles."),
        Flag("tf_xla_always_defer_compilation", "bool", False, "Never compile clusters; for testing the fall-back."),
        Flag("tf_xla_persistent_cache_directory", "str", "", "Directory of the executable cache on disk ('' off)."),
        Flag("tf_xla_persistent_cache_device_types", "str", "", "Device types cached on disk, by comma ('' all)."),
        Flag("tf_xla_persistent_cache_read_only", "bool", False, "Read the cache on disk, never write."),
        Flag("tf_xla_persistent_cache_prefix", "str", "xla_compile_cache", "Prefix of file names in that cache."),
        Flag("tf_xla_print_cluster_outputs", "bool", False, "Print each cluster's outputs."),
        Flag("tf_xla_check_cluster_input_numerics", "bool", False, "Raise where a cluster's input has NaN or inf."),
        Flag("tf_xla_check_cluster_output_numerics", "bool", False, "Raise where a cluster's output has NaN or inf."),
        # --- XLA_FLAGS: dumps ---
        Flag("xla_dump_to", "str", "", "Directory of the dump ('' off)."),
        Flag("xla_dump_hlo_as_text", "bool", True, "HLO as text."),
        Flag("xla_dump_hlo_as_proto", "bool", True, "HLO as HloProto (.hlo.pb), with all literals."),
        Flag("xla_dump_hlo_module_re", "regex", ".*", "Only modules whose name matches."),
        Flag("xla_dump_hlo_pass_re", "regex", "", "Also the HLO between passes whose name matches ('' none)."),
        Flag("xla_dump_hlo_pipeline_re", "regex", ".*", "Of pass dumps, only pipelines whose name matches."),
        Flag("xla_dump_include_timestamp", "bool", False, "Begin file names with the time in microseconds."),
        Flag("xla_dump_max_hlo_modules", "int", -1, "Modules dumped at most (-1 all).", least=-1),
        Flag("xla_dump_disable_metadata", "bool", False, "Leave metadata out of HLO text."),
        Flag("xla_dump_large_constants", "bool", True, "Print literals of more than 10 elements in full."),
        Flag("xla_dump_compress_protos", "bool", False, "Gzip the protos."),
        Flag("xla_enable_dumping", "bool", True, "Master switch of dumping."),
        # --- XLA_FLAGS: compilation ---
        Flag(
            "xla_cpu_enable_fast_math",
            "bool",
            False,
            "Let kernels ignore NaN, inf and signed zero.",
            no_effect="kernels always keep NaN, inf and signed zero",
        ),
        Flag(
            "xla_gpu_graph_min_graph_size",
            "int",
            2,
            "On a GPU, kernels and copies from which a cluster that needs nothing from the host between them is "
            "launched as one CUDA graph (0: none is).",
        ),
        Flag("xla_disable_hlo_passes", "str", "", "Passes left out, comma separated."),
        Flag("xla_disable_all_hlo_passes", "bool", False, "No optimisation pass at all."),
        # --- XLA_FLAGS: tuning, on GPUs and CPUs ---
        Flag(
            "xla_gpu_autotune_level", "int", 4, "0: no kernel is tuned and no result used; 1 to 4 all the same.", most=4
        ),
        Flag("xla_gpu_dump_autotune_results_to", "str", "", "File (or URL) that results of tuning are merged into."),
        Flag("xla_gpu_load_autotune_results_from", "str", "", "File (or URL) of results of tuning to use."),
        Flag("xla_gpu_per_fusion_autotune_cache_dir", "str", "", "Directory with a file of results a kernel."),
        Flag("xla_gpu_experimental_autotune_cache_mode", "enum", "UPDATE", "Of that directory.", ("UPDATE", "READ")),
        Flag("xla_gpu_require_complete_aot_autotune_results", "bool", False, "A kernel without a result is an error."),
        # --- our own ---
        Flag("tfxla_autotune", "enum", "auto", "Tune kernels; auto: where results are kept.", ("auto", "on", "off")),
        Flag("tfxla_autotune_budget_s", "int", 600, "Seconds that a process may spend on tuning (0: any)."),
        Flag("tfxla_autotune_progress", "bool", True, "Show on a terminal how far tuning is."),
        Flag("tfxla_dynamic", "enum", "auto", "One executable for all sizes; auto: on CPUs.", ("auto", "on", "off")),
        Flag("tfxla_dynamic_verify", "enum", "always", "Which sizes are proven to be its.", ("always", "first", "off")),
        Flag(
            "tfxla_must_compile_fallback",
            "enum",
            "xla",
            "An op that stock XLA compiles and this package does not yet: 'xla' lets stock compile that "
            "function (said once, counted), 'raise' raises InvalidArgumentError.",
            ("xla", "raise"),
        ),
        Flag(
            "tfxla_threads", "int", 0, "Threads of the kernel pool (0: all this process may use).", most=_MOST_THREADS
        ),
        Flag("tfxla_cache_capacity", "int", 256, "Executables kept in memory; the least recently used goes first."),
        Flag(
            "tfxla_compile_threads",
            "int",
            0,
            "Threads, for GPUs processes, that compile the kernels of a module (0: as many as this process may use, at "
            "most 16).",
            most=_MOST_THREADS,
        ),
        Flag("tfxla_timings", "bool", False, "Time every step of every execution, for the dump."),
        Flag(
            "tfxla_gpu_target",
            "enum",
            "",
            "With --xla_dump_to: dump each module's kernels for this GPU too (Triton source, its IR, PTX, cubins). "
            "No GPU needs to be there, and nothing runs on one.",
            ("", "sm_80", "sm_90"),
        ),
        Flag(
            "tfxla_dump_graph_rewrite_re",
            "str",
            "",
            "Also the TensorFlow graph (pbtxt) after graph rewrites whose name matches ('' none).",
        ),
        Flag("tfxla_fast_path", "bool", True, "Call compiled functions directly where the guards hold."),
    )
}


def parse(text: str, source: str = ENV) -> dict[str, Any]:
    """Flags of one string such as `--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit`.

    `--flag`, `--flag=value`, `--noflag` for booleans. Raises FlagError for an unknown flag (naming the
    nearest) or a bad value.
    """
    return _typed(_words(text, source), source)


def _words(text: str, source: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise FlagError(f"{source}: {error}", "Close the quotation") from None


def _typed(words: list[str], source: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for word in words:
        if not word.startswith("--"):
            raise FlagError(f"{source}: expected a flag that starts with '--', got '{word}'")
        name, equals, value = word[2:].partition("=")
        if name not in FLAGS and not equals and name.startswith("no") and name[2:] in FLAGS:
            name, equals, value = name[2:], "=", "false"
        found[name] = convert(name, value if equals else None, source)
    return found


def divide(text: str, source: str) -> tuple[str, str]:
    """(flags of one of XLA's variables that are ours, the others). FlagError for a bad value, and for a name so near
    one of ours that it must be misspelt."""
    ours: list[str] = []
    theirs: list[str] = []
    for word in _words(text, source):
        name = word.removeprefix("--").partition("=")[0]
        known = name in FLAGS or name.removeprefix("no") in FLAGS
        if known or difflib.get_close_matches(name, FLAGS, n=1, cutoff=0.95):
            _typed([word], source)
        (ours if known else theirs).append(word)
    return shlex.join(ours), shlex.join(theirs)


def convert(name: str, value: Any, source: str = "") -> Any:
    """`value` (text, or already typed; None: given with no value) as the flag's type; FlagError otherwise."""
    flag = FLAGS.get(name)
    prefix = f"{source}: " if source else ""
    if flag is None:
        raise FlagError(f"{prefix}unknown flag --{name}", _about_unknown(name))
    if value is None and flag.kind != "bool":
        raise FlagError(f"{prefix}--{name} needs a value", f"Write --{name}={_EXAMPLES.get(flag.kind, flag.default)}")
    try:
        return _CONVERT[flag.kind](flag, True if value is None else value)
    except ValueError:
        wanted = (
            " or ".join(choice or "''" for choice in flag.choices)
            or {"bool": "true or false", "int": _range(flag), "level": _LEVELS, "regex": "a regular expression"}[
                flag.kind
            ]
        )
        raise FlagError(f"{prefix}--{name} wants {wanted}, got '{value}'") from None


def _about_unknown(name: str) -> str:
    near = difflib.get_close_matches(name, FLAGS, n=1, cutoff=_NEAR)
    known = "`tfxla-run --help-flags` lists all"
    if near:
        return f"Did you mean --{near[0]}? {known}"
    variable = "TF_XLA_FLAGS" if name.startswith("tf_xla_") else "XLA_FLAGS"
    if name.startswith(("tf_xla_", "xla_")):
        return f"If it is one of XLA's, this package does not know it: give it in {variable} for stock XLA; {known}"
    return known


_NEAR = 0.85  # of difflib's ratio: from here on a name is a misspelling


def _to_bool(flag: Flag, value: Any) -> bool:
    word = str(value).lower()
    if word not in _TRUE + _FALSE:
        raise ValueError(value)
    return word in _TRUE


def _to_enum(flag: Flag, value: Any) -> str:
    if value not in flag.choices:
        raise ValueError(value)
    return str(value)


def _to_int(flag: Flag, value: Any) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+", str(value)):  # int() also takes 4_0 and digits of other scripts
        raise ValueError(value)
    if not flag.least <= int(value) <= flag.most:
        raise ValueError(value)
    return int(value)


def check_names(flag: str, exists: Callable[[str], bool], names: Iterable[str]) -> None:
    """FlagError where the flag's value, names by comma, has one that does not exist: the nearest of `names` is told."""
    for name in filter(None, (word.strip() for word in str(get(flag)).split(","))):
        if not exists(name):
            near = difflib.get_close_matches(name, list(names), n=1, cutoff=0.6)
            raise FlagError(f"--{flag}: there is no '{name}'", f"Did you mean {near[0]}?" if near else "")


def _range(flag: Flag) -> str:
    return f"an integer from {flag.least}" + (f" to {flag.most}" if flag.most < _INT32_MAX else "")


_LEVELS = "-1, 0, 1, 2, fusible or single-gpu(N)"
_LEVEL = re.compile(r"-1|0|1|2|fusible|single-gpu\((-1|0|1|2)\)|")
_EXAMPLES = {"level": "2"}


def _to_level(flag: Flag, value: Any) -> str:
    if not _LEVEL.fullmatch(str(value)):
        raise ValueError(value)
    return str(value)


def _to_regex(flag: Flag, value: Any) -> str:
    try:
        re.compile(str(value))
    except re.error:
        raise ValueError(value) from None
    return str(value)


_CONVERT = {
    "regex": _to_regex,
    "bool": _to_bool,
    "int": _to_int,
    "level": _to_level,
    "str": lambda flag, value: str(value),
    "enum": _to_enum,
}

_base: dict[str, Any] = {name: flag.default for name, flag in FLAGS.items()}
_told: set[str] = set()
_environment_read = False
_lock = threading.RLock()


def read_environment() -> None:
    """Take TFXLA_FLAGS into the process's values, once; FlagError if it is malformed."""
    global _environment_read
    with _lock:
        if not _environment_read:
            _environment_read = True
            set_values(parse(os.environ.get(ENV, "")))


def set_values(changes: Mapping[str, Any]) -> None:
    """Set flags process-wide; values are converted and checked first, so all are set or none."""
    typed = {name: convert(name, value) for name, value in changes.items()}
    with _lock:
        _base.update(typed)
    for name, value in typed.items():
        if FLAGS[name].no_effect and value != FLAGS[name].default and name not in _told:
            _told.add(name)
            print(f"tfxla_cluster: --{name} has no effect: {FLAGS[name].no_effect}", file=sys.stderr)  # noqa: T201


def reset_values() -> None:
    """Back to the defaults; TFXLA_FLAGS is read again at the next use."""
    global _environment_read
    with _lock:
        _base.update({name: flag.default for name, flag in FLAGS.items()})
        _environment_read = False


def get(name: str) -> Any:
    """The flag's value now; KeyError for a name that is not in the registry."""
    if not _environment_read:
        read_environment()
    return _base[name]


def values() -> dict[str, Any]:
    """All flags as they are now."""
    read_environment()
    return dict(_base)


def non_default() -> dict[str, Any]:
    """The flags whose value is not the default, for dumps."""
    return {name: value for name, value in values().items() if value != FLAGS[name].default}


@contextmanager
def patch(**changes: Any) -> Iterator[None]:
    """Change flags for the length of a `with` block or a decorated call; FlagError as `convert`.

    Process-wide, since compilation runs on TensorFlow's threads too: two overlapping patches of one
    flag in two threads see each other.
    """
    read_environment()
    before = {name: _base.get(name) for name in changes}
    set_values(changes)
    try:
        yield
    finally:
        set_values(before)


def help_text() -> str:
    """All flags, a paragraph each, for `tfxla-run --help-flags`."""
    lines = []
    for flag in FLAGS.values():
        kind = "|".join(choice or "''" for choice in flag.choices) or flag.kind
        note = f" No effect here: {flag.no_effect}." if flag.no_effect else ""
        lines.append(f"--{flag.name}=<{kind}>  (default: {flag.default!r})\n      {flag.help}{note}")
    return "\n".join(lines)
