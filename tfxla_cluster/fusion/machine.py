"""What fusion knows of the machine that it plans for: numbers and one question, given by the backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..decision import YES, Decision
from ..ir.node import Instr
from .attention_form import Form


@dataclass(frozen=True, slots=True)
class Costs:
    """From where on a machine runs one kernel worse than two. Never a matter of correctness.

    max_instrs: of one kernel. max_repeats: elements of values that a kernel computes at more than one index, the
    first not counted. plain_instrs: up to so many, elementwise work on equal dims is joined unseen. max_buffers:
    arrays of one kernel. max_prologue: operations an element of a contraction's operand, which is computed whenever
    it is packed. max_again: an instruction of more operations an element is not computed again in another kernel to
    save writing and reading its result. long_row: reduced elements from which a row alone is work for several cores;
    rows_per_core: so many rows then occupy them. long_column: reduced elements up to which rows that lie across
    memory may be passed over several times. shared_bytes: a smaller value is no reason to join two kernels that read
    it. max_readers: of one value, looked at for joining.
    """

    max_instrs: int
    max_repeats: int
    plain_instrs: int
    max_buffers: int
    max_prologue: int
    max_again: int
    long_row: int
    rows_per_core: int
    long_column: int
    shared_bytes: int
    max_readers: int


def holds_all(instrs: Sequence[Instr]) -> Decision:
    """For machines whose kernels hold whatever is legal."""
    return YES


@dataclass(frozen=True, slots=True)
class Machine:
    """`cores`: that run the rows of a kernel. `holds(instrs)`: whether these may stand in one kernel; asked of each
    instruction alone before any is grouped, then of every group before it is made. `attention(form)`: whether it has a
    kernel of two levels of products of this form (None: it has none at all)."""

    costs: Costs
    cores: int
    holds: Callable[[Sequence[Instr]], Decision] = holds_all
    attention: Callable[[Form], Decision] | None = None
