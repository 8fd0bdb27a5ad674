"""What a comparison found, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def verdict(difference: Mapping[str, Any]) -> str:
    """Of one output, as `arrays.compare` gives it."""
    if "reason" in difference:
        return f"differs: {difference['reason']}"
    errors = f"largest error {difference['max_abs']:.3g}, relative {difference['max_rel']:.3g}"
    if not difference["mismatches"]:
        return f"agrees ({errors})"
    first = difference["first"]
    where = f"first at {first['at']}: {first['is']}, expected {first['expected']}"
    return f"differs in {difference['mismatches']} elements ({errors}; {where})"
