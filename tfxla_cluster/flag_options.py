"""The flags of this moment as frozen options: the one place between the flags and all that compiles and dumps."""

from __future__ import annotations

import os

from . import flags, trace
from .options import (
    ALL_EXECUTIONS,
    PACK,
    PROFILES_FOLDER,
    TUNING_FOLDER,
    CompileOptions,
    DumpOptions,
    ProfileOptions,
    RankOptions,
    StoreOptions,
    TuningOptions,
)

JOB_ENV = "TFXLA_JOB_ID"
_FIRST_EXECUTIONS = 64
"""Of each executable, timed for a dump: enough for a median, and over before anybody waits for them."""


def compile_options(device: str = "CPU") -> CompileOptions:
    """How modules are compiled now for a device: a TensorFlow device type, perhaps with `:N`."""
    off = set(filter(None, flags.get("xla_disable_hlo_passes").split(",")))
    if flags.get("tf_xla_disable_constant_folding"):
        off.add("constant-folding")
    return CompileOptions(
        passes=not flags.get("xla_disable_all_hlo_passes"),
        passes_off=frozenset(off),
        threads=flags.get("tfxla_threads"),
        compile_threads=flags.get("tfxla_compile_threads"),
        timed_executions=_timed_executions(),
        least_graph=flags.get("xla_gpu_graph_min_graph_size"),
        store=store_options(device.partition(":")[0]),
        any_order=not flags.get("xla_gpu_deterministic_ops"),
    )


def _timed_executions() -> int:
    if flags.get("tfxla_timings"):
        return ALL_EXECUTIONS
    return _FIRST_EXECUTIONS if trace.directory() else 0


def is_dynamic() -> bool:
    """May one executable serve several sizes now?"""
    return str(flags.get("tfxla_dynamic")) == "on"


def are_data_checked(device: str) -> bool:
    """Do programs on this device raise where TensorFlow's kernels raise for their data?"""
    return bool(flags.get("tfxla_check_data")) and device.startswith("CPU")


def is_trusted(proofs: int) -> bool:
    """May a module for many sizes, proven at so many besides those that it was made from, run at others unproven?"""
    verify = flags.get("tfxla_dynamic_verify")
    return verify == "off" or (verify == "first" and proofs > 0)


def recompile_limit() -> int:
    """How many executables one function of the program may have; 0: any."""
    return int(flags.get("tfxla_recompile_limit"))


def profile_options() -> ProfileOptions | None:
    """None where the program has no name (TFXLA_JOB_ID), or --tfxla_pgo=off."""
    job, where = os.environ.get(JOB_ENV, ""), str(flags.get("tfxla_pgo"))
    if not job or where == "off":
        return None
    read_only = bool(flags.get("tfxla_pgo_read_only"))
    if where == "local" and (folder := _in_store(PROFILES_FOLDER)):
        return ProfileOptions(job, folder, read_only or _is_kept_read_only())
    return ProfileOptions(job, "" if where == "local" else where, read_only)


def rank_options() -> RankOptions | None:
    """None where each worker of a strategy compiles for itself."""
    timeout = int(flags.get("tfxla_compiler_collectives_timeout"))
    return RankOptions(timeout) if flags.get("tfxla_compiler_collectives") else None


def store_options(device_type: str) -> StoreOptions | None:
    """The store of --tf_xla_persistent_cache_directory (--tfxla_store) and its relatives; None when off for such
    devices."""
    directory = str(flags.get("tf_xla_persistent_cache_directory") or flags.get("tfxla_store"))
    devices = str(flags.get("tf_xla_persistent_cache_device_types"))
    if not directory or (devices and device_type not in devices.split(",")):
        return None
    return StoreOptions(directory, str(flags.get("tf_xla_persistent_cache_prefix")), _is_store_read_only())


def _is_store_read_only() -> bool:
    return bool(flags.get("tf_xla_persistent_cache_read_only"))


def _in_store(folder: str) -> str:
    """The folder in --tfxla_store; '' without one."""
    store = str(flags.get("tfxla_store"))
    return f"{store.rstrip('/')}/{folder}" if store else ""


def _is_kept_read_only() -> bool:
    """Is what --tfxla_store has beside executables only read? A pack is."""
    return _is_store_read_only() or str(flags.get("tfxla_store")).endswith(PACK)


def tuning_options() -> TuningOptions:
    """How kernels are tuned now: with --tfxla_autotune=auto where results are kept somewhere."""
    on = int(flags.get("xla_gpu_autotune_level")) > 0
    dump = str(flags.get("xla_gpu_dump_autotune_results_to"))
    directory = str(flags.get("xla_gpu_per_fusion_autotune_cache_dir"))
    read_only = flags.get("xla_gpu_experimental_autotune_cache_mode") == "READ"
    kept = bool(dump or (directory and not read_only))
    asked = str(flags.get("tfxla_autotune"))
    if not directory and (directory := _in_store(TUNING_FOLDER)):
        read_only = read_only or _is_kept_read_only()
    return TuningOptions(
        use=on,
        tune=on and (asked == "on" or (asked == "auto" and kept)),
        load=str(flags.get("xla_gpu_load_autotune_results_from")),
        dump=dump,
        directory=directory,
        directory_read_only=read_only,
        require=bool(flags.get("xla_gpu_require_complete_aot_autotune_results")),
        budget_s=float(flags.get("tfxla_autotune_budget_s")),
        workers=int(flags.get("tfxla_compile_threads")),
        progress=bool(flags.get("tfxla_autotune_progress")),
    )


def dump_options() -> DumpOptions:
    """What is dumped now; nowhere without --xla_dump_to."""
    return DumpOptions(
        directory=trace.target(),
        text=flags.get("xla_dump_hlo_as_text"),
        proto=flags.get("xla_dump_hlo_as_proto"),
        compress_protos=flags.get("xla_dump_compress_protos"),
        module_re=flags.get("xla_dump_hlo_module_re"),
        pass_re=flags.get("xla_dump_hlo_pass_re"),
        pipeline_re=flags.get("xla_dump_hlo_pipeline_re"),
        max_modules=flags.get("xla_dump_max_hlo_modules"),
        timestamp=flags.get("xla_dump_include_timestamp"),
        metadata=not flags.get("xla_dump_disable_metadata"),
        large_constants=flags.get("xla_dump_large_constants"),
        gpu_target=flags.get("tfxla_gpu_target"),
        graph_rewrite_re=flags.get("tfxla_dump_graph_rewrite_re"),
    )
