"""The opcode table: every HLO opcode, its arity and what kind of operation it is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Opcode:
    """`name` as HLO text spells it; `arity` None when variable.

    `category`: 'elementwise' (each output element from the operands' elements at the same index),
    'leaf' (no operand), 'move' (elements are moved or repeated, not computed), 'reduce'
    (elements are combined), 'contraction', 'control', 'random', 'sort', 'dynamic', 'tuple',
    'collective', 'host', 'other'. `effect` marks what must run once, in order.
    """

    name: str
    arity: int | None
    category: str
    effect: bool = False


def _rows(category: str, arity: int | None, names: str, effect: bool = False) -> list[Opcode]:
    return [Opcode(name, arity, category, effect) for name in names.split()]


OPCODES: dict[str, Opcode] = {
    row.name: row
    for row in (
        *_rows(
            "elementwise",
            1,
            """
            abs acos acosh asin asinh atan atanh bitcast-convert cbrt ceil convert cosh count-leading-zeros
            cosine erf exponential exponential-minus-one floor imag is-finite log log-plus-one logistic
            negate not popcnt real reduce-precision round-nearest-afz round-nearest-even rsqrt sign
            sine sinh sqrt stochastic-convert tan tanh copy""",
        ),
        *_rows(
            "elementwise",
            2,
            """
            add and atan2 compare complex divide maximum minimum multiply or power remainder
            shift-left shift-right-arithmetic shift-right-logical subtract xor""",
        ),
        *_rows("elementwise", 3, "clamp select"),
        *_rows("elementwise", None, "map"),
        *_rows("leaf", 0, "parameter constant iota partition-id replica-id"),
        *_rows(
            "move",
            1,
            """
            bitcast broadcast reshape reverse slice transpose opt-barrier""",
        ),
        *_rows("move", 2, "pad"),
        *_rows("move", None, "concatenate dynamic-reshape dynamic-slice dynamic-update-slice"),
        *_rows("move", 2, "gather"),
        *_rows("reduce", None, "reduce reduce-window scatter"),
        *_rows("reduce", 3, "select-and-scatter"),
        *_rows("contraction", 2, "dot convolution"),
        *_rows("contraction", None, "ragged-dot"),
        *_rows("control", None, "call conditional while fusion async-start async-update async-done"),
        *_rows("random", 1, "rng-bit-generator"),
        *_rows("random", None, "rng", effect=True),
        *_rows("random", 0, "rng-get-and-update-state", effect=True),
        *_rows("sort", None, "sort"),
        *_rows("sort", 1, "topk"),
        *_rows("dynamic", 1, "get-dimension-size"),
        *_rows("dynamic", 2, "set-dimension-size"),
        *_rows("tuple", None, "tuple"),
        *_rows("tuple", 1, "get-tuple-element"),
        *_rows("other", 1, "cholesky domain fft"),
        *_rows("other", 2, "triangular-solve"),
        *_rows("other", 3, "batch-norm-inference batch-norm-training"),
        *_rows("other", 5, "batch-norm-grad"),
        *_rows("other", None, "after-all add-dependency"),
        *_rows("other", None, "custom-call", effect=True),
        *_rows(
            "collective",
            None,
            """
            all-gather all-gather-done all-gather-start all-reduce all-reduce-done all-reduce-start
            all-to-all collective-broadcast collective-permute collective-permute-done
            collective-permute-start partition-id ragged-all-to-all reduce-scatter""",
            effect=True,
        ),
        *_rows(
            "host",
            None,
            """
            infeed outfeed recv recv-done send send-done copy-start copy-done""",
            effect=True,
        ),
    )
}
OPCODES["partition-id"] = Opcode("partition-id", 0, "leaf")
OPCODES["batch-norm-inference"] = Opcode("batch-norm-inference", 5, "other")


def is_elementwise(opcode: str) -> bool:
    return OPCODES[opcode].category == "elementwise"


def has_effect(opcode: str) -> bool:
    """True when the instruction must not be dropped, merged with an equal one, or repeated."""
    return OPCODES[opcode].effect
