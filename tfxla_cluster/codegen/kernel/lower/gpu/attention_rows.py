"""A number a row instead of two: what the probabilities of attention are powers of 2 by, in its gradient.

p = exp(s - top) / total = 2^(s log2(e) - (top log2(e) + log2(total))). Rounded to f32 the number of a row errs by as
much as it is large, and where all keys of a row are masked, total is lost beside top: so there are bounds.
"""

from __future__ import annotations

from collections.abc import Sequence

from .....fusion.attention_form import Form
from .....fusion.index import Access, Splitter
from .....fusion.moves import sources
from .....ir.dim import ceil_div, product
from .....ir.dtype import F32
from .....ir.opcode import is_elementwise
from ...contraction_ports import Ports
from ...ir import Var
from ...unit import UnitKernel
from ..grid import minimum
from .attention_scores import LOG2E, Probability, probability_of
from .shapes import MULTIPLE, lanes

_BOUNDS = {4: 16.0, 2: 256.0}  # of a row's maximum, by the bytes of what its probabilities are rounded to
_LANES, _WARPS = 256, 2


def probabilities(form: Form) -> Probability | None:
    """The probabilities that a gradient's weights are made of, computed again; None where it computes none, or more
    than those."""
    found: set[Probability] = set()
    todo: list[Access] = [o.weight for o in form.outer]
    seen, inner = set(todo), set(form.inner_accesses)
    while todo:
        access = todo.pop()
        probability = probability_of(access)
        if probability is not None:
            found.add(probability)
        elif access not in inner and is_elementwise(access.instr.opcode):
            fresh = [s for s in sources(access, Splitter()) if s not in seen]
            seen.update(fresh)
            todo.extend(fresh)
    return found.pop() if len(found) == 1 and form.softmax is None else None


def logarithms(name: str, rows: Probability, operands: Sequence[int], bytes_of_weights: int, temp: int) -> UnitKernel:
    """Stores top log2(e) + log2(total) of each row, both of which are f32 `operands` by number, in the temporary
    number `temp`; NaN where top is beyond the bounds."""
    p = Ports(f"{name}.rows", MULTIPLE)
    b, count = p.b, product(rows.top.instr.shape.dims)
    width = lanes(count, _LANES)
    start = b.mul(b.task, b.index(width))
    full = isinstance(count, int) and count % width == 0
    with b.tile(start, minimum(b, b.add(start, b.index(width)), b.size(count)), width, full) as i:
        top, total = (b.load(p.read("operand", n, F32), i) for n in operands)
        b.store(p.write("temp", temp, F32), i, _logarithm(p, top, total, _BOUNDS[bytes_of_weights]))
    return p.kernel(ceil_div(count, width), width, _WARPS)


def _logarithm(p: Ports, top: Var, total: Var, bound: float) -> Var:
    b = p.b
    joined = b.op("multiply", b.op("add", top, b.op("log", total)), b.const(LOG2E, F32))
    inside = b.compare(b.op("abs", top), b.const(bound, F32), "LE")
    return b.op("select", inside, joined, b.const(float("nan"), F32), dtype=F32)
