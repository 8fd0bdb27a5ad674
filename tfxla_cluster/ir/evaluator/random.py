"""Random bits: the counter-based generators of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3".

`philox4x32` and `threefry2x32` are the ciphers; what surrounds them (counters, order of the words) is
XLA's, so that values agree with it bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import UnsupportedError
from ..node import Instr
from .core import Array, Evaluator, Meaning

_U32, _U64 = np.uint32, np.uint64
_MASK = _U64(0xFFFFFFFF)
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


def threefry2x32(key: Array, counter: Array) -> tuple[Array, Array]:
    """20 rounds over each 64-bit counter (low word first) with a 64-bit key."""
    words = [_low(key), _high(key)]
    words.append(words[0] ^ words[1] ^ _U32(0x1BD11BDA))
    x, y = _low(counter) + words[0], _high(counter) + words[1]
    for group in range(5):
        for turn in _ROTATIONS[group % 2]:
            x = x + y
            y = x ^ ((y << _U32(turn)) | (y >> _U32(32 - turn)))
        x = x + words[(group + 1) % 3]
        y = y + words[(group + 2) % 3] + _U32(group + 1)
    return x, y


def philox4x32(key: Array, low: Array, high: Array) -> list[Array]:
    """10 rounds over each 128-bit counter (two 64-bit halves) with a 64-bit key."""
    words = [_low(low), _high(low), _low(high), _high(high)]
    k0, k1 = _low(key), _high(key)
    for _ in range(10):
        first = words[0].astype(_U64) * _U64(0xD2511F53)
        second = words[2].astype(_U64) * _U64(0xCD9E8D57)
        words = [_high(second) ^ words[1] ^ k0, _low(second), _high(first) ^ words[3] ^ k1, _low(first)]
        k0, k1 = k0 + _U32(0x9E3779B9), k1 + _U32(0xBB67AE85)
    return words


def _low(x: Array) -> Array:
    return np.asarray((x & _MASK).astype(_U32))


def _high(x: Array) -> Array:
    return np.asarray((x >> _U64(32)).astype(_U32))


def _join(low: Array, high: Array) -> Array:
    return np.asarray(low.astype(_U64) | (high.astype(_U64) << _U64(32)))


def _threefry_bits(key: Array, counter: Array, dims: Sequence[int], bits: int) -> tuple[Array, Array]:
    """Random words of `dims` and the counter after them."""
    if bits == 64:
        count = int(np.prod(dims, dtype=int))
        words = threefry2x32(key, counter + np.arange(count, dtype=_U64))
        return _join(*words).reshape(dims), counter + _U64(count)
    axis = split_axis(dims)
    whole = list(dims) or [1]
    half = list(whole)
    half[axis] = (whole[axis] + 1) // 2
    count = int(np.prod(half, dtype=int))
    first, second = threefry2x32(key, counter + np.arange(count, dtype=_U64))
    pairs = np.stack([first.reshape(half), second.reshape(half)], axis=axis + 1)
    joined = pairs.reshape([2 * n if i == axis else n for i, n in enumerate(half)])
    taken = joined[tuple(slice(n) for n in whole)]
    return taken.reshape(dims), counter + _U64(count)


def split_axis(dims: Sequence[int]) -> int:
    """The dimension whose neighbours come from one cipher block: the first even one, else the largest."""
    even = [i for i, n in enumerate(dims) if n % 2 == 0]
    return even[0] if even else int(np.argmax(dims)) if dims else 0


def _philox_bits(key: Array, low: Array, high: Array, dims: Sequence[int], bits: int) -> tuple[Array, Array, Array]:
    """Random words of `dims` and the counter after them."""
    count = int(np.prod(dims, dtype=int))
    blocks = -(-count // (2 if bits == 64 else 4))
    lows, highs = _add(low, high, np.arange(blocks, dtype=_U64))
    words = philox4x32(key, lows, highs)
    rows = [_join(*words[:2]), _join(*words[2:])] if bits == 64 else words
    flat = np.stack(rows, axis=1).reshape(-1)[:count]
    return (flat.reshape(dims), *_add(low, high, _U64(blocks)))


def _add(low: Array, high: Array, steps: Any) -> tuple[Array, Array]:
    total = low + steps
    return np.asarray(total), np.asarray(high + (total < low).astype(_U64))


def random_bits(algorithm: str, state: Array, dims: Sequence[int], bits: int) -> tuple[Array, Array]:
    """The new state and unsigned words of `dims`; 8 and 16 bits are the low part of 32-bit words."""
    wide = max(bits, 32)
    key = state[0]
    if algorithm == "rng_three_fry":
        words, counter = _threefry_bits(key, state[1], dims, wide)
        new = np.array([key, counter], _U64)
    else:
        low, high = (state[1], state[2]) if len(state) > 2 else (state[1], key)
        words, low, high = _philox_bits(key, low, high, dims, wide)
        new = np.array([key, low, high][: len(state)], _U64)
    return new, words.astype(_UNSIGNED[bits])


def _rng_bit_generator(ev: Evaluator, instr: Instr, args: list[Any]) -> Any:
    """rng_default is Philox, as on XLA's CPU and GPU."""
    shape = instr.shape.elements[1]
    if args[0].dtype != np.uint64:
        raise UnsupportedError(f"%{instr.name}: a state of {args[0].dtype}", "Use a state of u64[2] or u64[3].")
    new, words = random_bits(instr.attrs["algorithm"], args[0], ev.dims(shape), shape.element_type.bits)
    dtype = shape.element_type.numpy
    return new, words.view(dtype) if words.ndim else words.reshape(1).view(dtype)[0]


def _rng(ev: Evaluator, instr: Instr, args: list[Any]) -> Array:
    """Uniform in [a, b), or normal with mean a and deviation b; which values is not defined."""
    a, b = args
    dims, dtype = ev.dims(instr.shape), instr.shape.element_type
    if instr.attrs["distribution"] == "rng_normal":
        return np.asarray((ev.random.standard_normal(dims) * float(b) + float(a)).astype(dtype.numpy))
    if dtype.is_float:
        return np.asarray((ev.random.random(dims) * (float(b) - float(a)) + float(a)).astype(dtype.numpy))
    return np.asarray(ev.random.integers(int(a), int(b), dims).astype(dtype.numpy))


def _rng_get_and_update_state(ev: Evaluator, instr: Instr, args: list[Any]) -> Array:
    """The state of this run of the evaluator, then advanced by delta."""
    ev.random_state += instr.attrs["delta"]
    return np.full(ev.dims(instr.shape), ev.random_state - instr.attrs["delta"], np.uint64)


MEANINGS: dict[str, Meaning] = {
    "rng-bit-generator": _rng_bit_generator,
    "rng": _rng,
    "rng-get-and-update-state": _rng_get_and_update_state,
}
