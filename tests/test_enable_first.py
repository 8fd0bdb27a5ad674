"""`enable` before the import of tensorflow, with the .pth at work; another TensorFlow; steady state is silent."""

from __future__ import annotations

import pytest

from tests.programs_in_child import AUTO, ours, run

CALLS = """
import tensorflow as tf
f = tf.function(lambda x: tf.reduce_sum(x * 2.0 + 1.0), jit_compile=True)
@tf.function
def g(x):
    y = tf.sin(x) * 2.0 + 1.0
    return tf.reduce_sum(y * y)
for _ in range(100):
    f(tf.ones([3])), g(tf.ones([3]))
print(float(f(tf.ones([3]))), tfxla_cluster.stats()["executions"])
"""


@pytest.mark.parametrize(
    "first",
    [
        "import tfxla_cluster; tfxla_cluster.enable()",
        "import tfxla_cluster.service, tfxla_cluster",
        "import tfxla_cluster; from tfxla_cluster.tf import graph_pass",
    ],
)
def test_our_modules_before_tensorflow(first: str) -> None:
    done = run(first + CALLS, AUTO)
    assert done.stdout.split() == ["9.0", "201"], done.stderr[-2000:]
    assert not ours(done.stderr)


def test_another_version_of_tensorflow_is_one_line(tmp_path) -> None:
    (tmp_path / "tensorflow.py").write_text("__version__ = '2.19.0'\n")
    done = run(f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport tensorflow", AUTO)
    assert done.returncode == 7
    assert done.stderr.count("\n") == 1, done.stderr
    assert "tensorflow 2.19.0 is installed; this package works with 2.21" in done.stderr
