"""Programs through the graph pass: equal results, and what is clustered and what is not."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.close import assert_near
from tests.tf.calls import clustering


def check(monkeypatch, function, *args, ready=True, **changes):
    """Results with clustering equal those without; what the pass saw."""
    want = tf.nest.map_structure(np.array, function(*args))
    with clustering(monkeypatch, ready, **changes) as seen:
        got = tf.nest.map_structure(np.array, function(*args))
    tf.nest.map_structure(lambda a, b: assert_near(b, a, 1e-6), want, got)
    return seen


def x(*shape):
    return tf.constant(np.random.default_rng(0).standard_normal(shape).astype(np.float32))


@pytest.mark.parametrize("ready", [True, False])
def test_chain_is_one_cluster(monkeypatch, ready) -> None:
    @tf.function
    def f(a, w):
        return tf.reduce_sum(tf.nn.relu(a @ w + 1.0) * tf.reshape(a, [-1, 4]))

    seen = check(monkeypatch, f, x(3, 4), x(4, 4), ready=ready)
    assert len(seen.functions) == 1
    assert "MatMul" in seen.ops()
    assert "Sum" in seen.ops()


def test_py_function_splits_and_order_holds(monkeypatch) -> None:
    order = []

    @tf.function
    def f(a):
        a = tf.tanh(a * 2.0 + 1.0) - a
        a = tf.py_function(lambda t: order.append("one") or t + 1, [a], tf.float32)
        a.set_shape([4])
        b = tf.sin(a * 3.0) + tf.cos(a)
        tf.py_function(lambda t: order.append("two"), [b], [])
        return tf.exp(b) * 2.0 + a - 1.0

    seen = check(monkeypatch, f, x(4))
    assert order == ["one", "two"] * 2
    assert len(seen.functions) == 2
    assert seen.left()["EagerPyFunc"] == "no_kernel"


def test_variables_are_read_before_and_written_after(monkeypatch) -> None:
    v = tf.Variable(tf.zeros([4]))

    @tf.function
    def f(a):
        v.assign(tf.tanh(v * 0.5 + a) * 2.0 + 1.0)
        b = tf.sin(v * v + a) - tf.cos(v) * 2.0
        v.assign_add(b * b + 1.0)
        return v + a

    v.assign(tf.zeros([4]))
    want, after = f(x(4)), v.numpy()
    v.assign(tf.zeros([4]))
    with clustering(monkeypatch) as seen:
        got = f(x(4))
    np.testing.assert_allclose(want, got, rtol=1e-5)
    np.testing.assert_allclose(after, v.numpy(), rtol=1e-5)
    assert len(seen.functions) == 1, "written values are passed on, so the reads after them split nothing"


def test_assert_raises_after_the_cluster_and_guards_the_assign(monkeypatch) -> None:
    v = tf.Variable(0.0)

    @tf.function
    def f(a):
        a = a * 2.0
        check = tf.debugging.assert_positive(tf.reduce_sum(a), message="must be positive")
        with tf.control_dependencies([check]):
            b = tf.tanh(a + 1.0) - a / 2.0
            v.assign(tf.reduce_sum(b))
        return b * 3.0

    with clustering(monkeypatch) as seen:
        np.testing.assert_allclose(f(tf.ones([3])), 3 * (np.tanh(3.0) - 1) * np.ones(3), rtol=1e-5)
        before = v.numpy()
        with pytest.raises(tf.errors.InvalidArgumentError, match="must be positive") as raised:
            f(-tf.ones([3]))
    assert v.numpy() == before
    assert "test_graph_pass.py" in str(raised.value)
    assert any(rule == "effect" for rule in seen.left().values())
    assert len(seen.functions) == 1


def test_check_numerics_raises(monkeypatch) -> None:
    @tf.function
    def f(a):
        return tf.debugging.check_numerics(tf.sqrt(a) * 2.0 + a, "bad numbers") * 3.0 - 1.0

    with clustering(monkeypatch) as seen:
        f(tf.ones([3]))
        with pytest.raises(tf.errors.InvalidArgumentError, match="bad numbers"):
            f(-tf.ones([3]))
    assert len(seen.functions) == 1


def test_cond_branches_do_not_mix(monkeypatch) -> None:
    @tf.function
    def f(a):
        b = tf.tanh(a * 2.0 + 1.0) - a
        if tf.reduce_sum(b) > 0:
            return tf.exp(b) * 3.0 + tf.fill([4], 2.0) - b
        return tf.sin(b) * 2.0 - tf.cos(b) + 1.0

    for sign in (1, -1):
        seen = check(monkeypatch, f, sign * x(4))
    assert seen is not None


def test_while_body_is_clustered(monkeypatch) -> None:
    @tf.function
    def f(a):
        for _ in tf.range(3):
            a = tf.tanh(a * 2.0 + 1.0) - tf.sin(a)
        return tf.exp(a) * 2.0 - a + 1.0

    seen = check(monkeypatch, f, x(4))
    assert len(seen.functions) >= 2


def test_strings_stay_outside(monkeypatch) -> None:
    @tf.function
    def f(a):
        s = tf.strings.as_string(tf.cast(a * 2.0 + 1.0, tf.int32))
        return tf.strings.join([s, s]), tf.tanh(a * 2.0 - 1.0) + tf.sin(a)

    with clustering(monkeypatch) as seen:
        assert f(tf.ones([2]))[0].numpy().tolist() == [b"33", b"33"]
    assert {"no_kernel", "string"} & set(seen.left().values())


def test_functions_run_before_enabling_are_covered(monkeypatch) -> None:
    @tf.function
    def f(a):
        return tf.tanh(a * 2.0 + 1.0) - a * a

    f(x(4))
    assert check(monkeypatch, f, x(4)).functions
    with clustering(monkeypatch, tf_xla_min_cluster_size=50) as seen:
        f(x(4))
    assert not seen.functions
    assert "too_small" in seen.left().values()


def test_dataset_map_and_session(monkeypatch) -> None:
    with clustering(monkeypatch) as seen:
        rows = list(tf.data.Dataset.from_tensor_slices(x(3, 4)).map(lambda a: tf.tanh(a * 2.0 + 1.0) - a))
        np.testing.assert_allclose(rows[1], np.tanh(x(3, 4)[1] * 2 + 1) - x(3, 4)[1], rtol=1e-5)
        assert len(seen.functions) == 1
        with tf.Graph().as_default():
            p = tf.compat.v1.placeholder(tf.float32, [2])
            out = tf.tanh(p * 2.0 + 1.0) - tf.sin(p)
            with tf.compat.v1.Session() as session:
                got = session.run(out, {p: [1.0, 2.0]})
        np.testing.assert_allclose(got, np.tanh([3.0, 5.0]) - np.sin([1.0, 2.0]), rtol=1e-5)
        assert len(seen.functions) == 1 + 1


def test_keras_fit(monkeypatch) -> None:
    def train():
        tf.keras.utils.set_random_seed(1)
        model = tf.keras.Sequential(
            [
                tf.keras.layers.Input([8, 8, 1]),
                tf.keras.layers.Conv2D(4, 3),
                tf.keras.layers.BatchNormalization(),
                tf.keras.layers.ReLU(),
                tf.keras.layers.MaxPooling2D(),
                tf.keras.layers.Flatten(),
                tf.keras.layers.Dense(10),
            ]
        )
        model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
        data = np.random.default_rng(0).standard_normal((32, 8, 8, 1)).astype("f"), np.arange(32) % 10
        history = model.fit(*data, batch_size=8, epochs=2, verbose=0, shuffle=False)
        return history.history["loss"], model.predict(data[0], verbose=0)

    want = train()
    with clustering(monkeypatch) as seen:
        got = train()
    np.testing.assert_allclose(want[0], got[0], rtol=1e-3)
    assert_near(got[1], want[1], 1e-3)
    assert {"Conv2D", "Conv2DBackpropFilter", "MatMul"} <= set(seen.ops())


def test_dropout_gives_tensorflows_values(monkeypatch) -> None:
    def run():
        layer = tf.keras.layers.Dropout(0.5, seed=3)
        f = tf.function(lambda a: tf.tanh(layer(a * 2.0, training=True)) - 1.0)
        return [f(tf.ones([64])).numpy() for _ in range(3)]

    want = run()
    with clustering(monkeypatch) as seen:
        got = run()
    np.testing.assert_allclose(want, got, rtol=1e-6)
    assert len(seen.functions) == 1
    assert "StatelessRandomUniformFullIntV2" in seen.ops()
    assert "random_values" not in seen.left().values()


def test_jit_scope_without_flags(monkeypatch) -> None:
    @tf.function
    def f(a):
        with tf.xla.experimental.jit_scope():
            b = tf.tanh(a) + 1.0
        return b * 3.0 - a * a + tf.exp(a)

    seen = check(monkeypatch, f, x(4), tf_xla_auto_jit="0")
    assert sorted(seen.ops()) == ["AddV2", "Tanh"]
    assert "not_marked" in seen.left().values()


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"tf_xla_cluster_exclude_ops": "Tanh"}, "excluded_by_flag"),
        ({"tf_xla_ops_to_cluster": "PW"}, "not_in_ops_to_cluster"),
        ({"tf_xla_min_cluster_size": 100}, "too_small"),
        ({"tf_xla_clustering_fuel": 0}, "fuel"),
    ],
)
def test_flags_leave_ops_out_with_a_reason(monkeypatch, changes, rule) -> None:
    f = tf.function(lambda a: tf.reduce_sum(tf.tanh(a * 2.0 + 1.0) - a * a, 0))
    assert rule in check(monkeypatch, f, x(4, 4), **changes).left().values()


def test_unknown_op_in_the_flag_is_named(monkeypatch) -> None:
    from tfxla_cluster.tf.clustering import support

    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=r"The operation 'Foo' passed to --tf_xla_ops_to_cluster is not supported by XLA\.",
    ):
        support.resolve_ops("PW,Foo")


def test_maximum_size(monkeypatch) -> None:
    f = tf.function(lambda a: tf.sin(tf.cos(tf.sin(tf.cos(tf.sin(tf.cos(tf.sin(tf.cos(a)))))))))
    seen = check(monkeypatch, f, x(4), tf_xla_max_cluster_size=4)
    assert [len(f.nodes) for f in seen.functions] == [4, 4]


def test_a_switched_off_optimizer_is_said_once(monkeypatch, capsys) -> None:
    with clustering(monkeypatch) as seen:
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
        try:
            f = tf.function(lambda a: tf.sin(a) * 2.0 + tf.cos(a) - tf.tanh(a))
            for _ in range(2):
                f(x(3))
        finally:
            tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})
    assert not seen.functions
    assert capsys.readouterr().err.count("disable_meta_optimizer") == 1
