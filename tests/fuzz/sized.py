"""Drawn TensorFlow functions for sizes that vary: trees of steps over arguments whose dimensions are drawn too.

A function takes x: f32[n, m], y: f32[k, m] and z: s32[n], and keeps a matrix, on which each step works, whatever its
shape is by then. Some steps read shapes in Python, some call others in a gradient, a function, a branch or a loop.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import tensorflow as tf

SIZES = (2, 3, 4, 5, 7, 8, 11, 12, 13, 16, 17, 24, 31, 33, 40)
MOST = 64  # rows and columns that a step hands on


@dataclass(frozen=True)
class Case:
    """What steps may use beside the matrix; `variable`: f32[5, 3]. roundings: of each step that ran eagerly, by how
    much another order of its sums, or another rounding to a narrow type, may move its largest elements."""

    y: Any
    z: Any
    variable: Any
    roundings: list[float] = field(default_factory=list)


Step = Callable[[Any, Case], Any]
Node = tuple[str, tuple["Node", ...]]  # a step, and the steps that it calls


def _fitted(y: Any, x: Any) -> Any:
    """y padded and cut to the shape of x."""
    rows, columns = x.shape
    return tf.pad(y, [[0, rows], [0, columns]], constant_values=0.5)[:rows, :columns]


def _attend(x: Any, case: Case) -> Any:
    return tf.nn.softmax(tf.matmul(x, x, transpose_b=True) / float(x.shape[1] or 1)) @ x


def _loop(x: Any, case: Case) -> Any:
    return tf.while_loop(lambda i, v: i < x.shape[0] % 4, lambda i, v: (i + 1, v * 0.5 + x), [0, x])[1]


def _rows_loop(x: Any, case: Case) -> Any:
    """A sum over rows read by number, a number of them that the sizes say."""
    count = max(x.shape[0] - 1, 0)
    start = (0, tf.zeros([x.shape[1]]))
    total = tf.while_loop(lambda i, _: i < count, lambda i, v: (i + 1, v * 0.5 + x[i]), start)[1] if count else 0.0
    return x + total


def _halves(x: Any, case: Case) -> Any:
    half = x.shape[0] // 2 * 2
    return tf.reshape(x[:half], [-1, 2, x.shape[1]])[:, 0] if half else x


def _dense(x: Any, case: Case) -> Any:
    return tf.pad(x, [[0, 0], [0, 5]])[:, :5] @ case.variable


def _stored(x: Any, case: Case) -> Any:
    """A variable that is changed, and read again."""
    case.variable.assign_add(tf.fill([5, 3], tf.reduce_sum(tf.tanh(x)) / float(x.shape[0] + 1)))
    return x + case.variable[0, 0]


def _picked(x: Any, case: Case) -> Any:
    return tf.gather(x, case.z % x.shape[0]) if x.shape[0] else x


def _segments(x: Any, case: Case) -> Any:
    ids = tf.pad(case.z, [[0, x.shape[0]]])[: x.shape[0]]
    return tf.math.unsorted_segment_sum(x, ids % 7, 7)


def _scattered(x: Any, case: Case) -> Any:
    ids = tf.pad(case.z, [[0, x.shape[0]]])[: x.shape[0], None]
    return tf.tensor_scatter_nd_add(tf.ones([9, x.shape[1]]), ids % 9, x)


def _masked(x: Any, case: Case) -> Any:
    """Rows of a number that the data says, and back to a size that the sizes say."""
    kept = tf.boolean_mask(x, tf.pad(case.z, [[0, x.shape[0]]])[: x.shape[0]] % 3 > 0)
    return x + tf.reduce_sum(kept, 0) + tf.cast(tf.shape(kept)[0], x.dtype)


def _largest(x: Any, case: Case) -> Any:
    return tf.math.top_k(x, (x.shape[1] + 1) // 2).values


def _parts(x: Any, case: Case) -> Any:
    first = x.shape[0] // 3
    a, b = tf.split(x, [first, x.shape[0] - first], 0)
    return tf.concat([b * 2.0, a], 0)


def _outer(x: Any, case: Case) -> Any:
    wide = x[:9, None, :5, None] * case.y[None, :7, None, :3]
    return tf.reshape(wide, [wide.shape[0] * wide.shape[1], wide.shape[2] * wide.shape[3]])


def _narrow(dtype: Any) -> Step:
    def step(x: Any, case: Case) -> Any:
        _round(x, case, float(ml_dtypes.finfo(dtype.as_numpy_dtype).eps))
        return tf.cast(tf.cast(x, dtype) * tf.cast(0.75, dtype), x.dtype)

    return step


def _round(x: Any, case: Case, share: float) -> None:
    """x is rounded to this share of it, or of what it is made of."""
    if tf.executing_eagerly() and 0 not in x.shape:
        size = float(tf.reduce_max(tf.where(tf.math.is_finite(x), tf.abs(x), 0.0)))
        case.roundings.append(size * share)


def _counted(x: Any, case: Case) -> Any:
    """Integers of sizes and of an argument."""
    numbers = case.z // 2 + x.shape[0] * x.shape[1] - tf.range(tf.size(case.z)) % 5
    return x + tf.cast(tf.reduce_max(tf.pad(numbers, [[0, 1]])), x.dtype) / float(x.shape[0] + x.shape[1] + 1)


def _images(x: Any, case: Case) -> Any:
    """A convolution along the rows."""
    return (
        tf.nn.conv1d(x[:, :, None], tf.constant([[[0.5]], [[1.0]], [[-0.25]]]), 1, "SAME")[..., 0]
        if min(x.shape)
        else x
    )


def _windows(x: Any, of: Callable[[Any], Any]) -> Any:
    """The matrix as an image of one feature."""
    return of(x[None, :, :, None])[0, :, :, 0] if min(x.shape) > 2 else x


KERNEL = np.array([[0.5, -0.25], [1.0, 0.125], [-0.5, 0.25]], np.float32)[:, :, None, None]
STEPS: dict[str, Step] = {
    "tanh": lambda x, case: tf.tanh(x),
    "scaled": lambda x, case: x / float(x.shape[0] + 1),
    "root": lambda x, case: x * (float(x.shape[1]) ** -0.5 if x.shape[1] else 1.0),
    "pairs": lambda x, case: x * (x.shape[0] * (x.shape[0] + 1) / 200),
    "transposed": lambda x, case: tf.transpose(x),
    "softmax": lambda x, case: tf.nn.softmax(x),
    "centred": lambda x, case: x - tf.reduce_mean(x, 0, keepdims=True),
    "norm": lambda x, case: x * tf.math.rsqrt(tf.reduce_mean(x * x, 1, keepdims=True) + 0.1),
    "shifted": lambda x, case: tf.concat([x[1:], x[:1]], 0),
    "doubled": lambda x, case: tf.concat([x, -x], 1),
    "padded": lambda x, case: tf.pad(x, [[1, 2], [0, 1]]),
    "multiple": lambda x, case: tf.pad(x, [[0, -x.shape[0] % 4], [0, 0]]),
    "flat": lambda x, case: tf.reshape(tf.reshape(x, [-1]), [x.shape[1], x.shape[0]]),
    "counted": lambda x, case: x + tf.cast(tf.range(x.shape[0])[:, None], x.dtype) * 0.1,
    "numbers": _counted,
    "odd": lambda x, case: x[::2],
    "backwards": lambda x, case: x[::-1, ::-2],
    "repeated": lambda x, case: tf.repeat(x, 2, 0),
    "sorted": lambda x, case: tf.sort(x, 0),
    "reversed": lambda x, case: tf.reverse(x, [1]),
    "gram": lambda x, case: tf.matmul(x, x, transpose_a=True) * 0.1,
    "einsum": lambda x, case: tf.einsum("ij,kj->ik", x, _fitted(case.y, x)) * 0.1,
    "eye": lambda x, case: x + tf.eye(x.shape[0], x.shape[1]),
    "banded": lambda x, case: x * tf.constant(np.tri(x.shape[0], x.shape[1], 1, dtype=np.float32)),
    "rolled": lambda x, case: tf.roll(x, 2, 0),
    "one": lambda x, case: x + x[:1] - x[:, -1:],
    "specialised": lambda x, case: x * (2.0 if x.shape[0] == 13 else 3.0),
    "limited": lambda x, case: x + float(min(x.shape[0], 12)),
    "constant": lambda x, case: tf.concat([x, tf.ones([33, x.shape[1]])], 0)[-33:],
    "residue": lambda x, case: x if x.shape[0] % 3 else tf.abs(x),
    "part": lambda x, case: x[x.shape[0] // 2 :] if x.shape[0] > 1 else x,
    "parts": _parts,
    "halves": _halves,
    "attend": _attend,
    "other": lambda x, case: x + _fitted(case.y, x) * 0.5,
    "joined": lambda x, case: tf.concat([x, tf.pad(case.y, [[0, 0], [0, x.shape[1]]])[:, : x.shape[1]]], 0),
    "outer": _outer,
    "picked": _picked,
    "segments": _segments,
    "scattered": _scattered,
    "masked": _masked,
    "largest": _largest,
    "dense": _dense,
    "stored": _stored,
    "half": _narrow(tf.float16),
    "brain": _narrow(tf.bfloat16),
    "double": lambda x, case: tf.cast(tf.cast(x, tf.float64) / (x.shape[0] + 3), x.dtype),
    "drawn": lambda x, case: (
        x + tf.random.stateless_uniform(x.shape, tf.pad(case.z, [[0, 2]])[:2] * 0 + tf.constant([3, 5]))
    ),
    "loop": _loop,
    "rows loop": _rows_loop,
    "convolved": _images,
    "strided": lambda x, case: _windows(x, lambda image: tf.nn.conv2d(image, KERNEL, (2, 1), "SAME")),
    "means near": lambda x, case: _windows(x, lambda image: tf.nn.avg_pool2d(image, (3, 2), (2, 1), "SAME")),
    "largest near": lambda x, case: _windows(x, lambda image: tf.nn.max_pool2d(image, (2, 3), (2, 1), "VALID")),
    "summed": lambda x, case: tf.cumsum(x, 0) * 0.1,
    "summed behind": lambda x, case: tf.cumsum(x, 1, exclusive=True, reverse=True) * 0.1,
    "variance": lambda x, case: x * tf.math.reduce_variance(x, 0, keepdims=True),
}
# Not in gradients: ties, a rounding that a last bit decides, large numbers before what saturates, a variable, a loop of
# which XLA is not told how long it is at most.
ROUGH = frozenset(
    (
        "loop",
        "rows loop",
        "residue",
        "half",
        "brain",
        "sorted",
        "largest",
        "largest near",
        "stored",
        "masked",
        "limited",
    )
)
ROUGH |= {"numbers", "constant"}

Apply = Callable[[Any], Any]


def _gradient(x: Any, case: Case, inner: Apply) -> Any:
    """Added to the matrix, about as large: where all of it cancels, its last bits do not count."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = inner(x)
        loss = tf.reduce_mean(y**3) if 0 not in y.shape else tf.reduce_sum(y)
    gradient = tf.convert_to_tensor(tape.gradient(loss, x, unconnected_gradients="zero"))
    return x + gradient / (tf.reduce_max(tf.abs(tf.pad(gradient, [[0, 1], [0, 1]]))) + 0.1)


def _branch(x: Any, case: Case, inner: Apply) -> Any:
    yes = lambda: tf.reduce_sum(tf.tanh(inner(x)))
    return x + tf.cond(tf.reduce_sum(case.z) % 2 == 0, yes, lambda: float(x.shape[0]) + tf.reduce_sum(x))


def _repeated(x: Any, case: Case, inner: Apply) -> Any:
    body = lambda i, v: (i + 1, v * 0.5 + _fitted(tf.tanh(inner(v)), x))
    return tf.while_loop(lambda i, v: i < x.shape[1] % 3 + 1, body, [0, x])[1]


CALLERS: dict[str, Callable[[Any, Case, Apply], Any]] = {
    "gradient": _gradient,
    "branch": _branch,
    "repeated by": _repeated,
    "function": lambda x, case, inner: tf.function(inner)(x),
    "must-compile function": lambda x, case, inner: tf.function(inner, jit_compile=True)(x),
}


def applied(x: Any, case: Case, nodes: tuple[Node, ...]) -> Any:
    """The steps, one after the other."""
    for name, called in nodes:
        if called:
            x = CALLERS[name](x, case, lambda v, called=called: applied(v, case, called))
        else:
            x = STEPS[name](x, case)
        x = x[:MOST, :MOST]
        _round(x, case, 1e-6)
    return x


def _steps(rng: random.Random, count: int, smooth: bool) -> tuple[Node, ...]:
    names = [name for name in STEPS if not (smooth and name in ROUGH)]
    return tuple((rng.choice(names), ()) for _ in range(count))


def drawn(rng: random.Random) -> tuple[Node, ...]:
    """Two to five steps, up to two of which call one or two others."""
    nodes = list(_steps(rng, rng.randint(2, 5), False))
    for _ in range(rng.choice((0, 1, 1, 2))):
        name = rng.choice(list(CALLERS))
        smooth = name != "function"  # a branch's or a loop's steps change no variable
        nodes[rng.randrange(len(nodes))] = (name, _steps(rng, rng.randint(1, 2), smooth))
    return tuple(nodes)


TIES: dict[str, Callable[[random.Random], tuple[int, int, int]]] = {
    "rows": lambda rng: (rng.choice(SIZES), 4, 5),
    "columns": lambda rng: (5, rng.choice(SIZES[:9]), 5),
    "two": lambda rng: (rng.choice(SIZES), rng.choice(SIZES[:9]), 6),
    "three": lambda rng: (rng.choice(SIZES), rng.choice(SIZES[:9]), rng.choice(SIZES)),
    "square": lambda rng: (rng.choice(SIZES),) * 3,
    "the other's rows": lambda rng: (7, 4, rng.choice(SIZES)),
}


def sizes(rng: random.Random, count: int) -> list[tuple[int, int, int]]:
    """(n, m, k) of each call: which of them vary, and together, is drawn; sizes 0 and 1 come last."""
    kind = rng.choice([*TIES, "twice"])
    if kind == "twice":
        found = [(n, 3, 2 * n) for n in (rng.choice(SIZES) for _ in range(count))]
    else:
        found = [TIES[kind](rng) for _ in range(count)]
    n, m, k = found[0]
    return [*found, (1, m, k), (0, m, k), (n, 1, k)]
