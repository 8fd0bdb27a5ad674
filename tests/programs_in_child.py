"""Python programs in a process of their own, with our flags and nothing of ours or XLA's from the environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_OURS = ("TFXLA_FLAGS", "TFXLA_LOGS", "TF_XLA_FLAGS", "XLA_FLAGS", "TF_DUMP_GRAPH_PREFIX")
AUTO = "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit"


def environment(flags: str, **variables: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in _OURS}
    # 3: no line of TensorFlow's own, so that stderr holds ours alone.
    return {**kept, "TFXLA_FLAGS": flags, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(ROOT), **variables}


def start(code: str, flags: str = AUTO, **variables: str) -> subprocess.Popen[str]:
    """The program `code`; the package is enabled by `flags` as the .pth does it."""
    return subprocess.Popen(
        [sys.executable, "-c", "import tfxla_cluster.bootstrap\n" + code],
        env=environment(flags, **variables),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(code: str, flags: str = AUTO, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """The same, to its end (at most 200 s), with `stdin` as its standard input."""
    with start(code, flags, **variables) as child:
        try:
            out, err = child.communicate(stdin, timeout=200)
        except BaseException:
            child.kill()
            raise
    return subprocess.CompletedProcess(child.args, child.returncode, out, err)


def ours(stderr: str) -> list[str]:
    """The lines of stderr that this package wrote."""
    return [line for line in stderr.splitlines() if "tfxla" in line]
