"""The opcode table: every HLO opcode, its arity, what kind of operation it is and what it costs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Opcode:
    """`name` as HLO text spells it; `arity` None when variable.

    `category`: 'elementwise' (each output element from the operands' elements at the same index),
    'leaf' (no operand), 'move' (elements are moved or repeated, not computed), 'reduce'
    (elements are combined), 'contraction', 'control', 'random', 'sort', 'dynamic', 'tuple',
    'collective', 'host', 'other'. `effect` marks what must run once, in order. `cost`: roughly how many
    scalar operations an element of the result takes, what it calls apart; 0 where compiled code has nothing
    to do for it. Every stage that weighs work reads it here.
    """

    name: str
    arity: int | None
    category: str
    effect: bool = False
    cost: int = 1


# `cost` of what a processor has an instruction of many cycles for, or code of tens of instructions.
SLOW, FUNCTION = 4, 12


def _rows(category: str, arity: int | None, names: str, effect: bool = False, cost: int = 1) -> list[Opcode]:
    return [Opcode(name, arity, category, effect, cost) for name in names.split()]


OPCODES: dict[str, Opcode] = {
    row.name: row
    for row in (
        *_rows(
            "elementwise",
            1,
            """
            abs bitcast-convert ceil convert count-leading-zeros floor imag is-finite negate not popcnt real
            reduce-precision round-nearest-afz round-nearest-even sign stochastic-convert""",
        ),
        *_rows("elementwise", 1, "copy", cost=0),
        *_rows("elementwise", 1, "rsqrt sqrt", cost=SLOW),
        *_rows(
            "elementwise",
            1,
            """
            acos acosh asin asinh atan atanh cbrt cosh cosine erf exponential exponential-minus-one log
            log-plus-one logistic sine sinh tan tanh""",
            cost=FUNCTION,
        ),
        *_rows(
            "elementwise",
            2,
            """
            add and compare complex maximum minimum multiply or shift-left shift-right-arithmetic
            shift-right-logical subtract xor""",
        ),
        *_rows("elementwise", 2, "divide", cost=SLOW),
        *_rows("elementwise", 2, "atan2 power remainder", cost=FUNCTION),
        *_rows("elementwise", 3, "clamp select"),
        *_rows("elementwise", None, "map"),
        *_rows("leaf", 0, "parameter constant", cost=0),
        *_rows("leaf", 0, "iota partition-id replica-id"),
        *_rows("move", 1, "bitcast broadcast reshape", cost=0),
        *_rows("move", 1, "reverse slice transpose opt-barrier"),
        *_rows("move", 2, "pad"),
        *_rows("move", None, "concatenate dynamic-reshape dynamic-update-slice"),
        *_rows("move", None, "dynamic-slice", cost=SLOW),
        *_rows("move", 2, "gather", cost=SLOW),
        *_rows("reduce", None, "reduce", cost=0),
        *_rows("reduce", None, "reduce-window scatter"),
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
        *_rows("tuple", None, "tuple", cost=0),
        *_rows("tuple", 1, "get-tuple-element", cost=0),
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


def element_cost(opcode: str) -> int:
    """Rough scalar operations an element of the result."""
    return OPCODES[opcode].cost


def has_effect(opcode: str) -> bool:
    """True when the instruction must not be dropped, merged with an equal one, or repeated."""
    return OPCODES[opcode].effect
