"""batch-contraction: a sum over batch dimensions of a dot --> a dot that contracts them.

The gradient of a matrix that all of a batch is multiplied by is such a sum: one product for each member of the batch
would be written and read again. The sum keeps the type that it adds up in: products of 16-bit floats that were rounded
before they were added up are not any more, as in XLA where it allows excess precision (its default).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..ir.dtype import F32
from ..ir.node import Computation, Instr
from ..ir.rewrite import rebuild
from .base import of_computations
from .match import dtype_of, is_value, make


def contract_batches(comp: Computation) -> Computation:
    """The computation with every such sum as a dot; the same one where there is none."""
    users = comp.users()
    new = {i: dot for i in comp.instrs if i.opcode == "reduce" and (dot := _contracted(i, users)) is not None}
    return rebuild(comp, new, drop_dead=True) if new else comp


def _contracted(reduce: Instr, users: Mapping[Instr, Sequence[Instr]]) -> Instr | None:
    """The dot that a reduce is; None where it is none, or the dot's own result is read elsewhere, too."""
    if len(reduce.operands) != 2 or not _adds(reduce.attrs["to_apply"]) or not is_value(reduce.operands[1], 0):
        return None
    dot = _summed_dot(reduce.operands[0], users)
    summed = set(reduce.attrs["dimensions"])
    if dot is None or reduce.control or not summed or max(summed) >= len(dot.attrs["lhs_batch_dims"]):
        return None
    numbers: dict[str, tuple[int, ...]] = {}
    for side in ("lhs", "rhs"):
        batch = dot.attrs[f"{side}_batch_dims"]
        numbers[f"{side}_batch_dims"] = tuple(d for n, d in enumerate(batch) if n not in summed)
        more = tuple(d for n, d in enumerate(batch) if n in summed)
        numbers[f"{side}_contracting_dims"] = more + tuple(dot.attrs[f"{side}_contracting_dims"])
    made = make(dot, "dot", reduce.shape, dot.operands, **{**dot.attrs, **numbers})
    return made.replace(sources=dot.sources | reduce.sources)


def _summed_dot(x: Instr, users: Mapping[Instr, Sequence[Instr]]) -> Instr | None:
    """The dot whose results `x` is, as they are or a 16-bit one's as f32: dots add those up in f32 anyway."""
    if len(users[x]) > 1:
        return None
    if x.opcode == "dot" and not x.control:
        return x if not dtype_of(x).is_float or dtype_of(x).bits >= F32.bits else None
    if x.opcode != "convert" or dtype_of(x) != F32:
        return None
    dot = x.operands[0]
    narrow = dtype_of(dot).is_float and dtype_of(dot).bits == 16
    return dot if dot.opcode == "dot" and narrow and not dot.control and len(users[dot]) == 1 else None


def _adds(combiner: Computation) -> bool:
    root = combiner.root
    return root.opcode == "add" and set(root.operands) == set(combiner.params)


PASS = of_computations("batch-contraction", contract_batches)
