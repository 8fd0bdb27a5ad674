"""How often a counted loop runs: from its instructions, and as an attribute of the while (XLA's own: backend_config).

A loop is counted where its condition compares an integer of the state with a literal and the body adds a literal to
it. A condition may be the `and` of several such comparisons: the first that fails ends the loop.
"""

from __future__ import annotations

import json
from typing import Any

from .dtype import DType
from .node import Computation, Instr
from .rewrite import keeps

_KEY = "known_trip_count"
_FLIPPED = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE", "NE": "NE"}


def known(loop: Instr) -> int | None:
    """The count that the while carries; None where it carries none."""
    config = _config(loop)
    try:
        return int(config[_KEY]["n"])
    except (KeyError, TypeError, ValueError):
        return None


def annotated(loop: Instr, count: int | None) -> Instr:
    """The while with this count, or without any; itself where that is how it is."""
    if known(loop) == count and (_KEY in _config(loop)) == (count is not None):
        return loop
    config = {name: value for name, value in _config(loop).items() if name != _KEY}
    if count is not None:
        config[_KEY] = {"n": str(count)}
    attrs = {name: value for name, value in loop.attrs.items() if name != "backend_config"}
    return loop.replace(attrs=attrs | ({"backend_config": json.dumps(config, separators=(",", ":"))} if config else {}))


def _config(loop: Instr) -> dict[str, Any]:
    """What is no JSON object counts as nothing."""
    try:
        found = json.loads(loop.attrs.get("backend_config", "") or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def counted(loop: Instr) -> int | None:
    """How often the while runs its body, None where its instructions do not say."""
    body, condition = loop.attrs["body"], loop.attrs["condition"]
    start = loop.operands[0]
    if start.opcode != "tuple" or body.root.opcode != "tuple" or any(map(keeps, condition.instrs)):
        return None
    counts = []
    for test in _conjuncts(condition.root):
        count = _count(test, start, body, condition)
        if count is None:
            return None
        counts.append(count)
    return min(counts)


def _conjuncts(root: Instr) -> list[Instr]:
    if root.opcode == "and" and root.shape.element_type.kind == "pred":
        return [part for operand in root.operands for part in _conjuncts(operand)]
    return [root]


def _count(test: Instr, start: Instr, body: Computation, condition: Computation) -> int | None:
    """How often `test`, of the condition, holds before it fails."""
    if test.opcode != "compare" or test.attrs["direction"] not in _FLIPPED:
        return None
    direction, (left, right) = test.attrs["direction"], test.operands
    if _element(left, condition) is None:
        direction, left, right = _FLIPPED[direction], right, left
    number, limit = _element(left, condition), _integer(right)
    if number is None or limit is None:
        return None
    first, step = _integer(start.operands[number]), _increment(body.root.operands[number], number, body)
    if first is None or step is None:
        return None
    return _rounds(direction, first, limit, step, left.shape.element_type)


def _element(x: Instr, comp: Computation) -> int | None:
    """The number of the element of the computation's state that `x` is."""
    is_element = x.opcode == "get-tuple-element" and x.operands[0] is comp.params[0]
    return int(x.attrs["index"]) if is_element and x.shape.is_array else None


def _integer(x: Instr) -> int | None:
    """The value of a literal integer."""
    if x.opcode != "constant" or x.shape.rank != 0 or not x.shape.element_type.is_integer:
        return None
    return int(x.attrs["literal"])


def _increment(new: Instr, number: int, body: Computation) -> int | None:
    """What the body adds to its state's element of that number; 0 where it hands it on."""
    if _element(new, body) == number:
        return 0
    if new.opcode not in ("add", "subtract"):
        return None
    left, right = new.operands
    if new.opcode == "add" and _element(right, body) == number:
        left, right = right, left
    step = _integer(right)
    if _element(left, body) != number or step is None:
        return None
    return step if new.opcode == "add" else -step


def _rounds(direction: str, first: int, limit: int, step: int, dtype: DType) -> int | None:
    """None where the counter would leave its type, or never ends the loop."""
    if direction == "NE":
        ends = first == limit or (step != 0 and (limit - first) % step == 0 and (limit - first) // step > 0)
        return 0 if first == limit else (limit - first) // step if ends else None
    if direction in ("GT", "GE"):  # as a loop that counts up
        first, limit, step = -first, -limit, -step
    if direction in ("LE", "GE"):
        limit += 1
    if first >= limit:
        return 0
    if step <= 0:
        return None
    count = -((first - limit) // step)
    last = first + count * step
    lowest, highest = _range(dtype)
    bound = highest if direction in ("LT", "LE") else -lowest
    return count if last <= bound else None


def _range(dtype: DType) -> tuple[int, int]:
    if dtype.kind == "uint":
        return 0, (1 << dtype.bits) - 1
    return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
