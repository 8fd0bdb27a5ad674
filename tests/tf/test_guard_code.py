"""The native op's machine code decides guards as `ir.guard` does."""

from __future__ import annotations

import ctypes
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest
import tensorflow as tf

from tfxla_cluster.ir import guard as guards
from tfxla_cluster.ir.guard import Guard
from tfxla_cluster.tf.native_op.builder import GUARD_KINDS
from tfxla_cluster.tf.native_op.library import InputView, Library
from tfxla_cluster.tf.native_op.records import guard_rows

KINDS = [np.float32, np.int32, np.float64, np.int8]
DRAWS = 3000


@contextmanager
def tensors(arrays: Sequence[np.ndarray]) -> Iterator[list[int]]:
    """A TF_Tensor of each array."""
    lib = Library.get().tf
    made = []
    for array in arrays:
        dims = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
        kind = tf.dtypes.as_dtype(array.dtype).as_datatype_enum
        made.append(lib.TF_AllocateTensor(kind, dims, array.ndim, array.nbytes))
        ctypes.memmove(lib.TF_TensorData(made[-1]), array.tobytes(), array.nbytes)
    try:
        yield made
    finally:
        for tensor in made:
            lib.TF_DeleteTensor(tensor)


def holds(found: Sequence[Guard], made: Sequence[int]) -> bool:
    """What the machine code says."""
    address = Library.get().engine.get_function_address("hold")
    pointer = ctypes.c_void_p
    function = ctypes.CFUNCTYPE(ctypes.c_bool, pointer, ctypes.c_int64, pointer, pointer)(address)
    rows = guard_rows(found)
    return bool(function(rows.address, len(found), (pointer * len(made))(*made), None))


def drawn_array(rng: random.Random) -> np.ndarray:
    shape = [rng.choice([0, 1, 2, 3, 4, 6, 8]) for _ in range(rng.randrange(4))]
    return np.array(rng.choices(range(3), k=int(np.prod(shape))), rng.choice(KINDS)).reshape(shape)


def drawn_guards(rng: random.Random, arrays: Sequence[np.ndarray]) -> tuple[Guard, ...]:
    """Ranks that hold for all inputs, and one more guard, which holds about every second time."""
    places = [(k, axis) for k, array in enumerate(arrays) for axis in range(array.ndim)]
    number, array = rng.choice(list(enumerate(arrays)))
    kind = rng.choice(GUARD_KINDS if places else ("dtype", "rank", "value"))
    place = rng.choice(places) if places else (0, 0)
    size = arrays[place[0]].shape[place[1]] if places else 0
    least = max(size + rng.randrange(-2, 2), 0)
    one = {
        "dtype": lambda: Guard(kind, number, tf.dtypes.as_dtype(rng.choice([array.dtype, *KINDS])).as_datatype_enum),
        "rank": lambda: Guard(kind, number, array.ndim + rng.randrange(2)),
        "equal": lambda: Guard(kind, place, size + rng.randrange(2)),
        "range": lambda: guards.in_range(place, least, least + rng.randrange(3)),
        "divisible": lambda: guards.divisible(place, rng.randrange(1, 4)),
        "residue": lambda: guards.Guard(kind, place, (3, rng.randrange(3))),
        "same": lambda: Guard(kind, place, rng.choice(places)),
        "value": lambda: (
            Guard(kind, number, rng.choice([array, array + array.dtype.type(1), array[:0]]).tobytes())
            if array.ndim
            else Guard(kind, number, (array + array.dtype.type(rng.randrange(2))).tobytes())
        ),
    }[kind]()
    return guards.ordered([one, *(Guard("rank", k, a.ndim) for k, a in enumerate(arrays))])


def test_is_as_in_python() -> None:
    rng = random.Random(1)
    outcomes: Counter[tuple[str, bool]] = Counter()
    for _ in range(DRAWS):
        arrays = [drawn_array(rng) for _ in range(rng.randrange(1, 4))]
        found = drawn_guards(rng, arrays)
        with tensors(arrays) as made:
            views = [Library.get()._view(tensor) for tensor in made]
            want = guards.hold(found, views)
            assert holds(found, made) is want, (found, arrays)
        outcomes.update({(guard.kind, want) for guard in found})
    assert (
        {kind for kind, want in outcomes if want} == {kind for kind, want in outcomes if not want} == set(GUARD_KINDS)
    )


def test_a_dim_needs_its_rank_first() -> None:
    """TensorFlow ends the process where a dim is asked for that a tensor does not have."""
    with pytest.raises(ValueError, match="before the rank"):
        guard_rows([Guard("equal", (0, 0), 1), Guard("rank", 0, 1)])
    with pytest.raises(ValueError, match="before the rank"):
        guard_rows([Guard("rank", 0, 1), Guard("same", (0, 0), (1, 0))])


def test_extreme_sizes() -> None:
    with tensors([np.zeros([0, 2**40, 3], np.int8)]) as made:
        view = Library.get()._view(made[0])
        assert view == InputView(view.dtype, (0, 2**40, 3), view.address, 0)
        rank = Guard("rank", 0, 3)
        for guard in (
            Guard("equal", (0, 1), 2**40),
            guards.in_range((0, 1), 2**40, 2**62),
            guards.divisible((0, 1), 2**20),
        ):
            assert guard.holds([view])
            assert holds([rank, guard], made)
        assert not holds([rank, guards.in_range((0, 1), 0, 2**40 - 1)], made)
