"""HLO text: `parse` and `render`. XLA's own parser accepts what `render` writes."""

from __future__ import annotations

from .parser import parse, parse_elided
from .printer import render, render_computation, render_instruction

__all__ = ["parse", "parse_elided", "render", "render_computation", "render_instruction"]
