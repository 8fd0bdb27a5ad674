"""Options: what can change a compilation is in its key, and the flags reach it."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from tfxla_cluster import flag_options, flags
from tfxla_cluster.options import DEFAULT, CompileOptions, ProfileOptions, StoreOptions

# Field -> another value than the default; None: it changes no code.
OTHER = {
    "passes": False,
    "passes_off": frozenset(["cse", "dce"]),
    "fusion": False,
    "threads": 3,
    "compile_threads": 7,
    "timed_executions": 5,
    "least_graph": 1,
    "store": StoreOptions("somewhere"),
    "any_order": False,
}
NO_CODE = {"compile_threads", "store", "timed_executions"}


@pytest.mark.parametrize("name", [field.name for field in fields(CompileOptions)])
def test_the_key_holds_what_changes_a_compilation(name: str) -> None:
    changed = replace(DEFAULT, **{name: OTHER[name]})
    assert changed != DEFAULT
    assert (changed.key() == DEFAULT.key()) == (name in NO_CODE)


def test_the_key_is_the_same_text_in_every_process() -> None:
    """Sets are in no order that hashes of strings could change."""
    names = [f"pass-{n}" for n in range(50)]
    one, other = (replace(DEFAULT, passes_off=frozenset(found)) for found in (names, reversed(names)))
    assert str(one.key()) == str(other.key())


@pytest.mark.parametrize(
    ("flag", "value", "changes"),
    [
        ("xla_disable_all_hlo_passes", True, {"passes": False}),
        ("xla_disable_hlo_passes", "cse,,dce", {"passes_off": frozenset(["cse", "dce"])}),
        ("tf_xla_disable_constant_folding", True, {"passes_off": frozenset(["constant-folding"])}),
        ("tfxla_threads", 3, {"threads": 3}),
        ("tfxla_compile_threads", 7, {"compile_threads": 7}),
        ("tfxla_timings", True, {"timed_executions": 1 << 62}),
        ("xla_gpu_graph_min_graph_size", 9, {"least_graph": 9}),
        ("xla_gpu_deterministic_ops", True, {"any_order": False}),
        ("tf_xla_persistent_cache_directory", "d", {"store": StoreOptions("d", "xla_compile_cache")}),
    ],
)
def test_flags_become_options(flag: str, value: Any, changes: dict[str, Any]) -> None:
    assert flag_options.compile_options() == DEFAULT
    with flags.patch(**{flag: value}):
        assert flag_options.compile_options() == replace(DEFAULT, **changes)


def test_one_store_for_all_that_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(flag_options.JOB_ENV, "job")
    with flags.patch(tfxla_store="s3://bucket/kept/"):
        assert flag_options.store_options("CPU") == StoreOptions("s3://bucket/kept/", "xla_compile_cache")
        assert flag_options.profile_options() == ProfileOptions("job", "s3://bucket/kept/profiles")
        tuning = flag_options.tuning_options()
        assert (tuning.directory, tuning.directory_read_only, tuning.tune) == ("s3://bucket/kept/tuning", False, False)
        with flags.patch(tf_xla_persistent_cache_read_only=True):
            assert flag_options.store_options("CPU").read_only
            assert flag_options.profile_options().read_only
            assert flag_options.tuning_options().directory_read_only
        own = {"tfxla_pgo": "p", "xla_gpu_per_fusion_autotune_cache_dir": "t", "tf_xla_persistent_cache_directory": "e"}
        with flags.patch(**own):
            assert flag_options.store_options("CPU").url == "e"
            assert flag_options.profile_options().url == "p"
            assert flag_options.tuning_options().directory == "t"
        with flags.patch(tfxla_pgo="off"):
            assert flag_options.profile_options() is None
    with flags.patch(tfxla_store="kept.zip"):
        assert flag_options.store_options("CPU").url == "kept.zip"
        assert flag_options.profile_options() == ProfileOptions("job", "kept.zip/profiles", read_only=True)
        assert flag_options.tuning_options().directory == "kept.zip/tuning"


def test_a_store_for_other_devices_is_none() -> None:
    with flags.patch(tf_xla_persistent_cache_directory="d", tf_xla_persistent_cache_device_types="GPU"):
        assert flag_options.compile_options().store is None
        assert flag_options.compile_options("GPU:1").store is not None
    with flags.patch(tf_xla_persistent_cache_directory="d", tf_xla_persistent_cache_device_types="GPU,CPU"):
        assert flag_options.compile_options().store is not None
