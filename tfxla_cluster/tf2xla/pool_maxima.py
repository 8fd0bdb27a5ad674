"""Maxima of TensorFlow's pools, which pass over NaN as its kernels do.

A maximum of HLO is NaN where one of its operands is. The kernels of max pools keep what they have unless the next
element is larger, and begin with the least number:

    maximum(have, next)    -->    select(next > have, next, have)        in reduce-window of MaxPool

On a CPU that is one instruction. A window of NaN alone gives -infinity, where kernels give the least finite number
(oneDNN's of bf16 -infinity). Gradients of pools have their form in tf/rewrites/nan_forms.py.
"""

from __future__ import annotations

from typing import Any

from ..ir import proto
from ..ir.dtype import BY_NUMBER, PRED
from ..ir.proto.reader import LOCAL

_POOLS = frozenset({"MaxPool", "MaxPoolV2", "MaxPool3D"})


def over_numbers(module: bytes) -> bytes:
    """A serialised module with the maxima of its pools so; the same bytes where there is none."""
    if b"MaxPool" not in module:
        return module
    message = proto.decode(module)
    computations = {comp.id: comp for comp in message.computations}
    pools: set[int] = set()
    others: set[int] = set()
    for comp in message.computations:
        for instr in comp.instructions:
            is_pool = instr.opcode == "reduce-window" and instr.metadata.op_type in _POOLS
            (pools if is_pool else others).update(instr.called_computation_ids)
    changed = [_select_larger(computations[number]) for number in sorted(pools - others)]
    return bytes(message.SerializeToString()) if any(changed) else module


def _select_larger(comp: Any) -> bool:
    """Replace the maximum of its two parameters that a computation of floats is; was it one?"""
    root = next(instr for instr in comp.instructions if instr.id & LOCAL == comp.root_id & LOCAL)
    dtype = BY_NUMBER.get(root.shape.element_type)
    if root.opcode != "maximum" or dtype is None or not dtype.is_float:
        return False
    by_id = {instr.id & LOCAL: instr for instr in comp.instructions}
    have, following = sorted((by_id[i & LOCAL] for i in root.operand_ids), key=lambda instr: instr.parameter_number)
    if {have.opcode, following.opcode} != {"parameter"}:
        return False
    larger = comp.instructions.add()
    larger.CopyFrom(root)
    larger.name, larger.opcode, larger.id = f"{root.name}.larger", "compare", root.id + 1
    larger.shape.element_type = PRED.number
    larger.operand_ids[:] = [following.id, have.id]
    larger.comparison_direction, larger.comparison_type = "GT", "FLOAT"
    chosen = comp.instructions.add()
    chosen.CopyFrom(root)
    chosen.opcode, chosen.id = "select", root.id + 2
    chosen.operand_ids[:] = [larger.id, following.id, have.id]
    comp.instructions.remove(root)
    comp.root_id = chosen.id
    return True
