"""rng-bit-generator: Philox 4x32-10, a block of four 32-bit words a counter value.

Algorithm: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011); the layout of words
in the result and of the state (key, counter low, counter high) is XLA's expander's.
"""
from __future__ import annotations

from collections.abc import Sequence

from ....errors import UnsupportedError
from ....ir import dim as dims_
from ....ir.dtype import U32, U64
from ....ir.node import Instr
from ....target import Target
from ..builder import KernelBuilder
from ..ir import Buffer, Var
from ..unit import Unit, UnitKernel, UnitRef

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
BLOCKS_A_TASK = 2048
ALGORITHMS = ("rng_default", "rng_philox")


def lower(instr: Instr, target: Target) -> Unit:
    """operand: state u64[3] (or u64[2]: key, counter); results: the next state, and random bits of u32 or u64."""
    state, bits = instr.shape.elements
    algorithm, words = instr.attrs["algorithm"], {"u32": 4, "u64": 2, "s32": 4, "s64": 2}
    assert bits.dtype is not None and state.dtype is not None
    if algorithm not in ALGORITHMS or bits.dtype.name not in words or state.dims not in ((2,), (3,)):
        raise UnsupportedError(f"rng-bit-generator {algorithm} of {bits} from {state} has no kernel ({instr.name})")
    per_block = words[bits.dtype.name]
    blocks = (bits.element_count + (per_block - 1)) // per_block
    b = KernelBuilder("philox")
    source, next_state, result = b.input(U64), b.output(U64), b.output(bits.dtype)
    width = int(dims_.sample(state.dims[0]))
    key, low, high = _read(b, source, width)
    first = b.mul(b.task, b.index(BLOCKS_A_TASK))
    stop = b.op("minimum", b.add(first, b.index(BLOCKS_A_TASK)), b.size(blocks))
    with b.loop(first, stop, "vector") as i:
        counter = _add128(b, low, high, b.op("convert", i, dtype=U64))
        values = _philox(b, _split(b, counter), _halves(b, key))
        if per_block == 2:
            values = [_join(b, values[0], values[1]), _join(b, values[2], values[3])]
        for k, value in enumerate(values):
            at = b.add(b.mul(i, b.index(per_block)), b.index(k))
            room = b.compare(at, b.size(bits.element_count), "LT")
            b.store(result, at, b.op("convert", value, dtype=bits.dtype), room)
    b.cond(b.compare(b.task, b.index(0), "EQ"),
           lambda: _write_state(b, next_state, width, key, _add128(
               b, low, high, b.op("convert", b.size(blocks), dtype=U64))), lambda: ())
    tasks = dims_.make("max", (blocks + (BLOCKS_A_TASK - 1)) // BLOCKS_A_TASK, 1)
    kernel = b.finish(tasks, BLOCKS_A_TASK * 60)
    return Unit((UnitKernel(kernel, (UnitRef("operand", 0),), (UnitRef("result", 0), UnitRef("result", 1))),))


def _read(b: KernelBuilder, state: Buffer, width: int) -> tuple[Var, Var, Var]:
    """(key, counter low, counter high); a state of two words has no high counter."""
    parts = [b.load(state, b.index(k)) for k in range(width)]
    return parts[0], parts[1], parts[2] if width == 3 else b.const(0, U64)


def _write_state(
    b: KernelBuilder, state: Buffer, width: int, key: Var, counter: tuple[Var, Var]
) -> Sequence[Var]:
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
        state = (b.op("xor", b.op("xor", high1, state[1]), key[0]), low1,
                 b.op("xor", b.op("xor", high0, state[3]), key[1]), low0)
        key = [b.op("add", k, b.const(w, U32)) for k, w in zip(key, WEYL)]
    return list(state)


def _wide_product(b: KernelBuilder, factor: int, value: Var) -> list[Var]:
    return _halves(b, b.op("multiply", b.const(factor, U64), b.op("convert", value, dtype=U64)))
