"""The table of flags: those of TF_XLA_FLAGS and XLA_FLAGS that concern us, and our own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Flag:
    """`kind` one of bool, int, str, regex, enum (then `choices`), level (of auto-clustering), sizes (a list as
    `size_spec.parse` reads it) and sources (the same with nothing said about sizes). `least`, `most`: of an int.
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


INT32_MAX, _INT64_MAX = 2**31 - 1, 2**63 - 1
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
        Flag("tf_xla_max_cluster_size", "int", INT32_MAX, "Largest cluster, in graph nodes."),
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
        Flag(
            "xla_gpu_deterministic_ops",
            "bool",
            False,
            "On a GPU, add the updates of a scatter that meet in a fixed order, as "
            "tf.config.experimental.enable_op_determinism() does too. All else always has the same bits.",
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
        Flag("tfxla_dynamic", "enum", "on", "One executable for all sizes.", ("on", "off")),
        Flag(
            "tfxla_dynamic_verify",
            "enum",
            "always",
            "Which sizes are proven to be its: each, or (first: after one more) none near those where it is right.",
            ("always", "first", "off"),
        ),
        Flag(
            "tfxla_dynamic_sources",
            "sizes",
            "",
            "Inputs, by name or pattern, that vary (`:N`: dimension N; `x:0=n[2..512]`: with name and range).",
        ),
        Flag("tfxla_static_sources", "sources", "", "Inputs that each size compiles anew for; outweighs all else."),
        Flag(
            "tfxla_compiler_collectives",
            "bool",
            False,
            "Workers of a MultiWorkerMirroredStrategy tell each other the sizes of a function before they compile it, "
            "so that all have one module; one of them compiles it.",
        ),
        Flag(
            "tfxla_compiler_collectives_timeout",
            "int",
            300,
            "Seconds that a worker waits for the others before it compiles a function; then it says who is missing.",
            least=1,
        ),
        Flag("tfxla_dynamic_variables", "bool", False, "Sizes of variables and captured constants may vary too."),
        Flag(
            "tfxla_dynamic_python_ints",
            "bool",
            False,
            "Python integers that `tfxla_cluster.jit` functions take are sizes: one executable for many values.",
        ),
        # 64, as many as the op of one trace holds. PyTorch ends at 8 a frame, where what Python reads of a size is a
        # guard; here it takes an executable of its own, so that a program may need more before something is amiss.
        Flag("tfxla_recompile_limit", "int", 64, "Executables that a function may have (0: any); then it falls back."),
        Flag(
            "tfxla_pgo", "str", "local", "Where profiles of sizes are: local, off, a directory or URL (TFXLA_JOB_ID)."
        ),
        Flag(
            "tfxla_store",
            "str",
            "",
            "One store (directory or URL) of executables, profiles and autotuning results, where their own flags name "
            "none; or a pack of one (.zip), which is only read.",
        ),
        Flag("tfxla_pgo_read_only", "bool", False, "Never write them."),
        Flag(
            "tfxla_check_data",
            "bool",
            True,
            "Compiled code on the CPU raises where TensorFlow's kernels raise for their data: indices and labels "
            "out of range, integer division by zero, asserts, check_numerics.",
        ),
        Flag(
            "tfxla_watch_numerics",
            "bool",
            False,
            "Run each execution of a compiled function op by op in eager TensorFlow too, and name the first op whose "
            "value parts, or where NaN or an infinity appears. Slow; read when a function is first called.",
        ),
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
        Flag(
            "tfxla_timings", "bool", False, "Time every step of every execution, not of the first only, for the dump."
        ),
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
