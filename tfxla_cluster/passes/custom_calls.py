"""custom-call-simplifier: custom calls that stand for an opcode, or for nothing on one device.

TopK(x) --> topk; lapack_*trsm_ffi(a, b) --> triangular-solve; Sharding(x), SPMDFullToShardShape(x),
SPMDShardToFullShape(x) --> x.
"""

from __future__ import annotations

from ..ir.custom_calls import equivalent
from .base import of_rules

PASS = of_rules("custom-call-simplifier", {"custom-call": [equivalent]})
