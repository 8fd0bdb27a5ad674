"""Checks of data in compiled programs: where TensorFlow's kernels raise for an index out of range or a division by
zero, the executable does.

A check is a custom call of TARGET without results, with a side effect. Operand 0 holds the values; operand 1, of the
kinds that have one, the limits (s32) of the columns of operand 0. Its backend_config is a `Check`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from .errors import UnsupportedError

TARGET = "tfxla.check"
ROUTINE = "tfxla_check"  # of the runtime, which ends an execution where data are bad
MAX_COLUMNS = 16  # of one check
SHOWN = 16  # values that a message lists at most


@dataclass(frozen=True, slots=True)
class Probe:
    """A value `v` of so many bits is found where `(v & mask) - base >= limit`, all unsigned. `limit` None: it is
    operand 1's."""

    mask: int
    base: int
    limit: int | None


NOTHING = Probe(0, 0, 0)
"""No probe: a mask of 0."""


@dataclass(frozen=True, slots=True)
class Check:
    """What is checked (`kind`: a row of KINDS) and what is said: `op` and `node` of the program, `message` its own."""

    kind: str
    op: str
    node: str
    message: str = ""

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)


def from_json(text: str) -> Check:
    """What `to_json` wrote; UnsupportedError for anything else."""
    try:
        check = Check(**json.loads(text))
    except (ValueError, TypeError) as error:
        raise UnsupportedError(f"a custom call of {TARGET} says nothing that can be read ({error})") from None
    if check.kind not in KINDS:
        raise UnsupportedError(f"a custom call of {TARGET} has the unknown kind '{check.kind}'")
    return check


def _finite(bits: int, exponent: int) -> tuple[Probe, ...]:
    """An infinity or NaN; NaNs; infinities."""
    absolute = (1 << (bits - 1)) - 1
    return Probe(exponent, 0, exponent), Probe(absolute, 0, exponent + 1), Probe(absolute, exponent + 1, -1)


_EXPONENTS = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000, "f64": 0x7FF0 << 48}

# Kind -> the probes of it for a type's bits and name; the first tells whether the check fails, others what is there.
KINDS: Mapping[str, Callable[[int, str], tuple[Probe, ...]]] = {
    "in range": lambda bits, name: (Probe(-1, 0, None),),
    "below": lambda bits, name: (Probe(-1, -(1 << (bits - 1)), None),),
    "not negative": lambda bits, name: (Probe(-1, 0, -(1 << (bits - 1))),),
    "not zero": lambda bits, name: (Probe(-1, 1, -1),),
    "true": lambda bits, name: (Probe(-1, 1, -1),),
    "finite": lambda bits, name: _finite(bits, _EXPONENTS[name]),
}


@dataclass(frozen=True, slots=True)
class Found:
    """What a check found: the number of the first bad row, its values, the limits, `dims` and first elements of
    operand 0, and which of the further probes found something."""

    row: int
    values: Sequence[int]
    limits: Sequence[int]
    dims: Sequence[int]
    head: Sequence[int]
    further: Sequence[bool]


def words(check: Check, found: Found) -> str:
    """What TensorFlow's kernel says."""
    return _WORDS[check.op](check, found)


def _at(dims: Sequence[int], row: int) -> str:
    place = ",".join(map(str, np.unravel_index(row, dims))) if dims else ""
    return f"[{place}]" if place else ""


def _index(check: Check, found: Found) -> str:
    return f"indices{_at(found.dims, found.row)} = {found.values[0]} is not in [0, {found.limits[0]})"


def _row(where: str, end: str = "") -> Callable[[Check, Found], str]:
    def text(check: Check, found: Found) -> str:
        values, limits = ", ".join(map(str, found.values)), ",".join(map(str, found.limits))
        place = _at(found.dims[:-1], found.row)
        return f"indices{place} = [{values}] does not index into {where} [{limits}]{end.format(check.node)}"

    return text


def _segment(check: Check, found: Found) -> str:
    return f"segment_ids{_at(found.dims, found.row)} = {found.values[0]} is out of range [0, {found.limits[0]})"


def _partition(check: Check, found: Found) -> str:
    return f"partitions{_at(found.dims, found.row)} = {found.values[0]} is not in [0, {found.limits[0]})"


def _label(check: Check, found: Found) -> str:
    more = " ..." if int(np.prod(found.dims)) > len(found.head) else ""
    return (
        f"Received a label value of {found.values[0]} which is outside the valid range of [0, {found.limits[0]}).  "
        f"Label values: {' '.join(map(str, found.head))}{more}"
    )


def _numerics(check: Check, found: Found) -> str:
    nan, infinite = found.further
    what = " and ".join(["Inf"] * infinite + ["NaN"] * nan)
    return f"{check.message} : Tensor had {what} values"


def _own(check: Check, found: Found) -> str:
    return check.message


def _says(text: str) -> Callable[[Check, Found], str]:
    return lambda check, found: text


TENSOR_SCATTERS = tuple(f"TensorScatter{way}" for way in ("Update", "Add", "Sub", "Max", "Min"))
SEGMENTS = tuple(f"UnsortedSegment{way}" for way in ("Sum", "Prod", "Max", "Min"))
DIVISIONS = ("Div", "FloorDiv", "FloorMod", "Mod", "TruncateDiv", "TruncateMod")
RESOURCE_SCATTERS = tuple(f"ResourceScatter{way}" for way in ("Update", "Add", "Sub", "Mul", "Div", "Min", "Max"))
_WORDS: Mapping[str, Callable[[Check, Found], str]] = {
    **dict.fromkeys(("GatherV2", "ResourceGather", *RESOURCE_SCATTERS), _index),
    "GatherNd": _row("param shape", ", node name: {}"),
    **dict.fromkeys(("ScatterNd", *TENSOR_SCATTERS), _row("shape")),
    **dict.fromkeys(SEGMENTS, _segment),
    "DynamicPartition": _partition,
    "SparseSoftmaxCrossEntropyWithLogits": _label,
    **dict.fromkeys(DIVISIONS, _says("Integer division by zero")),
    **dict.fromkeys(("Bincount", "DenseBincount"), _says("Input arr must be non-negative!")),
    "Pow": _says("Integers to negative integer powers are not allowed"),
    "CheckNumerics": _numerics,
    "Assert": _own,
}
ROW_OPS = frozenset(("GatherNd", "ScatterNd", *TENSOR_SCATTERS))
"""Ops of which the last dimension of the values is an index in several dimensions."""
