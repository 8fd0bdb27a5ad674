"""dce: drop what neither the root nor an effect needs. Parameters stay."""

from __future__ import annotations

from ..ir.rewrite import rebuild
from .base import of_computations

PASS = of_computations("dce", lambda comp: rebuild(comp, {}, drop_dead=True))
