"""rng-bit-generator: Philox 4x32-10 (a block of four 32-bit words a counter value) and Threefry 2x32-20.

Algorithms: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011); the layout of words
in the result and of the state (key, counter low, counter high) is XLA's expander's, as in `ir.evaluator`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from ....errors import UnsupportedError
from ....ir import dim as dims_
from ....ir.dim import Dim
from ....ir.dtype import U32, U64
from ....ir.evaluator.random import split_axis
from ....ir.node import Instr
from ....ir.shape import Shape
from ....target import Target
from ..builder import KernelBuilder
from ..ir import Buffer, Var
from ..unit import Unit, UnitKernel, UnitRef
from .grid import Blocks
from .space import delinearize

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA
BLOCKS_A_TASK = {"cpu": 2048, "gpu": 256}  # of the cipher, in lanes on a GPU


def lower(instr: Instr, target: Target) -> Unit:
    """operand: state u64[3] (or u64[2]: key, counter); results: the next state, and random bits of integers.

    Of 8 and 16 bits: the low part of 32-bit words.
    """
    state, bits = instr.shape.elements
    make = _ALGORITHMS.get((instr.attrs["algorithm"], state.dims))
    if make is None or not bits.element_type.is_integer or state.element_type != U64:
        algorithm = instr.attrs["algorithm"]
        raise UnsupportedError(f"rng-bit-generator {algorithm} of {bits} from {state} has no kernel ({instr.name})")
    b, size = KernelBuilder(instr.attrs["algorithm"]), BLOCKS_A_TASK[target.backend]
    blocks = make(b, bits, int(dims_.sample(state.dims[0])), instr.name, size)
    kernel = b.finish(dims_.make("max", Blocks(blocks, size).count, 1), size * 60)
    return Unit((UnitKernel(kernel, (UnitRef("operand", 0),), (UnitRef("result", 0), UnitRef("result", 1))),))


def _loop(b: KernelBuilder, blocks: Dim, size: int) -> AbstractContextManager[Var]:
    """Over the blocks of this task."""
    return b.loop(*Blocks(blocks, size).bounds(b, b.task), "vector", size)


def _philox_kernel(b: KernelBuilder, bits: Shape, width: int, name: str, size: int) -> Dim:
    """A block of the cipher gives neighbouring elements; how many blocks there are."""
    per_block = 2 if bits.element_type.bits == 64 else 4
    blocks = (bits.element_count + (per_block - 1)) // per_block
    source, next_state, result = b.input(U64), b.output(U64), b.output(bits.element_type)
    key, low, high = _read(b, source, width)
    with _loop(b, blocks, size) as i:
        counter = _add128(b, low, high, b.op("convert", i, dtype=U64))
        values = _philox(b, _split(b, counter), _halves(b, key))
        if per_block == 2:
            values = [_join(b, values[0], values[1]), _join(b, values[2], values[3])]
        for k, value in enumerate(values):
            at = b.add(b.mul(i, b.index(per_block)), b.index(k))
            room = b.compare(at, b.size(bits.element_count), "LT")
            b.store(result, at, b.op("convert", value, dtype=bits.element_type), room)
    _advance(b, next_state, width, key, (low, high), blocks)
    return blocks


def _threefry_kernel(b: KernelBuilder, bits: Shape, width: int, name: str, size: int) -> Dim:
    """64 bits: a block an element. 32 bits: a block gives two neighbours along one dimension."""
    source, next_state, result = b.input(U64), b.output(U64), b.output(bits.element_type)
    key, counter = b.load(source, b.index(0)), b.load(source, b.index(1))
    if bits.element_type.bits == 64:
        blocks: Dim = bits.element_count
        with _loop(b, blocks, size) as i:
            words = _threefry(b, _halves(b, key), _halves(b, b.op("add", counter, b.op("convert", i, dtype=U64))))
            b.store(result, i, b.op("convert", _join(b, *words), dtype=bits.element_type))
    else:
        blocks = _threefry_pairs(b, result, bits, (key, counter), name, size)
    _advance(b, next_state, width, key, (counter, b.const(0, U64)), blocks)
    return blocks


def _threefry_pairs(b: KernelBuilder, result: Buffer, bits: Shape, state: tuple[Var, Var], name: str, size: int) -> Dim:
    sizes = [d for d in bits.dims if isinstance(d, int)]
    if len(sizes) != bits.rank:
        raise UnsupportedError(
            f"rng-bit-generator rng_three_fry of {bits}: which words are drawn depends on "
            f"sizes that are not known ({name})"
        )
    sizes, axis = sizes or [1], split_axis(sizes)
    inner = dims_.product(sizes[axis + 1 :])
    half = (sizes[axis] + 1) // 2
    blocks = dims_.product([*sizes[:axis], half, inner])
    with _loop(b, blocks, size) as i:
        counter = b.op("add", state[1], b.op("convert", i, dtype=U64))
        words = _threefry(b, _halves(b, state[0]), _halves(b, counter))
        outer, pair, rest = delinearize(b, i, (dims_.product(sizes[:axis]), half, inner))
        for k, word in enumerate(words):
            along = b.add(b.mul(pair, b.index(2)), b.index(k))
            at = b.add(b.mul(b.add(b.mul(outer, b.size(sizes[axis])), along), b.size(inner)), rest)
            room = b.compare(along, b.size(sizes[axis]), "LT")
            b.store(result, at, b.op("convert", word, dtype=bits.element_type), room)
    return blocks


_ALGORITHMS: dict[tuple[str, tuple[Dim, ...]], Callable[[KernelBuilder, Shape, int, str, int], Dim]] = {
    ("rng_three_fry", (2,)): _threefry_kernel,
    **{(name, (width,)): _philox_kernel for name in ("rng_default", "rng_philox") for width in (2, 3)},
}


def _advance(b: KernelBuilder, next_state: Buffer, width: int, key: Var, counter: tuple[Var, Var], blocks: Dim) -> None:
    """The first task writes the state after all blocks."""
    b.cond(
        b.compare(b.task, b.index(0), "EQ"),
        lambda: _write_state(
            b, next_state, width, key, _add128(b, *counter, b.op("convert", b.size(blocks), dtype=U64))
        ),
        lambda: (),
    )


def _read(b: KernelBuilder, state: Buffer, width: int) -> tuple[Var, Var, Var]:
    """(key, counter low, counter high); of a state of two words the key is also the high counter."""
    parts = [b.load(state, b.index(k)) for k in range(width)]
    return parts[0], parts[1], parts[2] if width == 3 else parts[0]


def _write_state(b: KernelBuilder, state: Buffer, width: int, key: Var, counter: tuple[Var, Var]) -> Sequence[Var]:
    for k, value in enumerate((key, *counter)[:width]):
        b.store(state, b.index(k), value)
    return ()


def _add128(b: KernelBuilder, low: Var, high: Var, amount: Var) -> tuple[Var, Var]:
    total = b.op("add", low, amount)
    carry = b.op("convert", b.compare(total, low, "LT"), dtype=U64)
    return total, b.op("add", high, carry)


def _halves(b: KernelBuilder, value: Var) -> list[Var]:
    """The low and high u32 of a u64."""
    high = b.op("shift-right-logical", value, b.const(32, U64))
    return [b.op("convert", value, dtype=U32), b.op("convert", high, dtype=U32)]


def _split(b: KernelBuilder, counter: tuple[Var, Var]) -> list[Var]:
    return [*_halves(b, counter[0]), *_halves(b, counter[1])]


def _join(b: KernelBuilder, low: Var, high: Var) -> Var:
    wide = b.op("shift-left", b.op("convert", high, dtype=U64), b.const(32, U64))
    return b.op("or", wide, b.op("convert", low, dtype=U64))


def _philox(b: KernelBuilder, state: Sequence[Var], key: Sequence[Var]) -> list[Var]:
    """The four words of a block: ROUNDS rounds, the key raised by the Weyl constants between them."""
    for _ in range(ROUNDS):
        low0, high0 = _wide_product(b, MULTIPLIERS[0], state[0])
        low1, high1 = _wide_product(b, MULTIPLIERS[1], state[2])
        state = (
            b.op("xor", b.op("xor", high1, state[1]), key[0]),
            low1,
            b.op("xor", b.op("xor", high0, state[3]), key[1]),
            low0,
        )
        key = [b.op("add", k, b.const(w, U32)) for k, w in zip(key, WEYL)]
    return list(state)


def _wide_product(b: KernelBuilder, factor: int, value: Var) -> list[Var]:
    return _halves(b, b.op("multiply", b.const(factor, U64), b.op("convert", value, dtype=U64)))


def _threefry(b: KernelBuilder, key: Sequence[Var], counter: Sequence[Var]) -> tuple[Var, Var]:
    """The two words of a block: 20 rounds, a part of the key added after every fourth."""
    parity = b.op("xor", b.op("xor", key[0], key[1]), b.const(PARITY, U32))
    parts = [*key, parity]
    x, y = b.op("add", counter[0], parts[0]), b.op("add", counter[1], parts[1])
    for group in range(5):
        for turn in ROTATIONS[group % 2]:
            x = b.op("add", x, y)
            left = b.op("shift-left", y, b.const(turn, U32))
            y = b.op("xor", x, b.op("or", left, b.op("shift-right-logical", y, b.const(32 - turn, U32))))
        x = b.op("add", x, parts[(group + 1) % 3])
        y = b.op("add", b.op("add", y, parts[(group + 2) % 3]), b.const(group + 1, U32))
    return x, y
