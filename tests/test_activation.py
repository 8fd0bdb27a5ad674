"""Activation by .pth and tfxla-run, flags, and programs that must not notice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tfxla_cluster import flags
from tfxla_cluster.cli import common
from tfxla_cluster.cli import run as run_cli
from tfxla_cluster.errors import FlagError

ROOT = Path(__file__).resolve().parents[1]


def python(code: str, **environment: str) -> subprocess.CompletedProcess:
    env = {k: v for k, v in os.environ.items() if k not in ("TFXLA_FLAGS", "TF_XLA_FLAGS", "XLA_FLAGS")}
    env.update(environment, TF_CPP_MIN_LOG_LEVEL="2", PYTHONPATH=str(ROOT))
    return subprocess.run(
        [sys.executable, "-c", "import tfxla_cluster.bootstrap\n" + code],
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_parse_forms():
    found = flags.parse("--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit --noxla_enable_dumping --xla_dump_to='/a b'")
    assert found == {
        "tf_xla_auto_jit": "2",
        "tf_xla_cpu_global_jit": True,
        "xla_enable_dumping": False,
        "xla_dump_to": "/a b",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("--tf_xla_autojit=2", "Did you mean --tf_xla_auto_jit"),
        ("--tf_xla_min_cluster_size=four", "wants an integer from 0, got 'four'"),
        ("--tf_xla_cpu_global_jit=maybe", "true or false"),
        ("--tfxla_must_compile_fallback=never", "xla or raise"),
        ("--tfxla_gpu_target=sm_1", "'' or sm_80 or sm_90"),
        ("--xla_dump_to", "needs a value"),
        ("xla_dump_to=x", "starts with '--'"),
    ],
)
def test_wrong_flags_name_the_mistake(text, message):
    with pytest.raises(FlagError, match=message):
        flags.parse(text)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("xla_dump_to", r"--xla_dump_to needs a value\. Give it text, or '': Directory of the dump"),
        ("tfxla_gpu_target", r"needs a value\. Give '' or sm_80 or sm_90$"),
        ("tfxla_threads", r"needs a value\. Write --tfxla_threads=0$"),
        ("tf_xla_auto_jit", r"needs a value\. Write --tf_xla_auto_jit=2$"),
    ],
)
def test_a_flag_without_a_value(name, said):
    with pytest.raises(FlagError, match=said):
        flags.set_values({name: None})


def test_patch_restores_also_after_an_error():
    before = flags.get("tf_xla_min_cluster_size")

    @flags.patch(tf_xla_min_cluster_size=1)
    def fails():
        assert flags.get("tf_xla_min_cluster_size") == 1
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert flags.get("tf_xla_min_cluster_size") == before


def test_set_values_sets_all_or_none():
    before = flags.values()
    with pytest.raises(FlagError):
        flags.set_values({"tf_xla_min_cluster_size": 9, "tfxla_threads": "x"})
    assert flags.values() == before


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"tf_xla_auto_jit": "sometimes"}, "wants -1, 0, 1, 2, fusible or single-gpu"),
        ({"tfxla_threads": -3}, "an integer from 0"),
        ({"xla_dump_max_hlo_modules": -2}, "an integer from -1"),
    ],
)
def test_values_out_of_range(change, wanted):
    with pytest.raises(FlagError, match=wanted.replace("(", ".")):
        flags.set_values(change)


def test_run_moves_the_stock_variables():
    moved = run_cli.moved_environment({"TF_XLA_FLAGS": "--tf_xla_auto_jit=2", "XLA_FLAGS": "--xla_dump_hlo_as_text"})
    assert "TF_XLA_FLAGS" not in moved
    assert "XLA_FLAGS" not in moved
    assert flags.parse(moved["TFXLA_FLAGS"]) == {"tf_xla_auto_jit": "2", "xla_dump_hlo_as_text": True}


def test_run_leaves_stock_xlas_other_flags_to_it():
    moved = run_cli.moved_environment(
        {
            "XLA_FLAGS": "--xla_dump_hlo_as_text --xla_cpu_multi_thread_eigen=false",
            "TF_XLA_FLAGS": "--tf_xla_enable_xla_devices",
        }
    )
    assert moved["XLA_FLAGS"] == "--xla_cpu_multi_thread_eigen=false"
    assert moved["TF_XLA_FLAGS"] == "--tf_xla_enable_xla_devices"
    assert moved["TFXLA_FLAGS"] == "--xla_dump_hlo_as_text"


@pytest.mark.parametrize(("argv", "code"), [([], 2), (["no-such-program-here"], 3), (["--help-flags"], 0)])
def test_run_exit_codes(argv, code, capsys):
    assert common.run("tfxla-run", run_cli.main, argv) == code
    assert len(capsys.readouterr().err.splitlines()) <= 1


def test_run_refuses_a_wrong_flag_in_one_line(monkeypatch, capsys):
    monkeypatch.setenv("TF_XLA_FLAGS", "--tf_xla_autojit=2")
    assert common.run("tfxla-run", run_cli.main, [sys.executable, "-c", "pass"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_unwritable_dump_directory_is_one_line(tmp_path, capsys, monkeypatch):
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("XLA_FLAGS", f"--xla_dump_to={file}/dump")
    monkeypatch.delenv("TFXLA_FLAGS", raising=False)
    assert common.run("tfxla-run", run_cli.main, [sys.executable, "-c", "pass"]) == 6
    assert capsys.readouterr().err.count("\n") == 1


def test_program_without_tensorflow_pays_nothing():
    done = python("import sys; print('tensorflow' in sys.modules, 'llvmlite' in sys.modules)", TFXLA_FLAGS="")
    assert done.stdout.split() == ["False", "False"], done.stderr


def test_enabled_once_tensorflow_is_imported():
    done = python(
        "import tensorflow as tf, tfxla_cluster\n"
        "f = tf.function(lambda x: tf.reduce_sum(x * 2.0 + 1.0), jit_compile=True)\n"
        "print(float(f(tf.ones([3]))), tfxla_cluster.stats()['executions'])",
        TFXLA_FLAGS="",
    )
    assert done.stdout.split() == ["9.0", "1"], done.stderr[-2000:]


def test_a_wrong_flag_in_the_environment_is_one_line():
    done = python("import tensorflow", TFXLA_FLAGS="--tf_xla_autojit=2")
    assert done.returncode != 0
    assert "Did you mean" in done.stderr
    assert "Traceback" not in done.stderr


CHILD = """
import multiprocessing as mp
def work(queue):
    import tensorflow as tf, tfxla_cluster
    f = tf.function(lambda x: tf.reduce_sum(x * 2.0 + 1.0), jit_compile=True)
    queue.put((float(f(tf.ones([3]))), tfxla_cluster.stats()['executions']))
if __name__ == '__main__':
    context = mp.get_context('{method}')
    queue = context.Queue()
    process = context.Process(target=work, args=(queue,))
    process.start()
    print(*queue.get(timeout=200))
    process.join()
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_worker_processes(method, tmp_path):
    program = tmp_path / "prog.py"
    program.write_text("import tfxla_cluster.bootstrap\n" + CHILD.replace("{method}", method))
    env = {**os.environ, "TFXLA_FLAGS": "--tf_xla_min_cluster_size=4", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(program)], env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.split() == ["9.0", "1"], done.stderr[-2000:]
