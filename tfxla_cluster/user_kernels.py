"""Users' Triton kernels as data: the source of each, and how a module's custom call says what it launches.

The sources stay in this process, by digest: a custom call names one, and nothing that a dump or a store holds is
ever run as a kernel's source.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from .errors import UserKernelError

TARGET = "tfxla.triton"  # the custom call's


@dataclass(frozen=True, slots=True)
class KernelSource:
    """`text` defines the jitted `function` and what it uses. `parameters`: their names; `optional`: those with a
    default. `places`: (function, file, line of its `def`) of each function of the text."""

    function: str
    text: str
    parameters: tuple[str, ...]
    optional: frozenset[str]
    places: tuple[tuple[str, str, int], ...]

    @property
    def digest(self) -> str:
        return hashlib.sha256(f"{self.function}\n{self.text}".encode()).hexdigest()[:32]

    @property
    def where(self) -> str:
        """file:line of the kernel."""
        return next((f"{file}:{line}" for name, file, line in self.places if name == self.function), "")


@dataclass(frozen=True, slots=True)
class KernelCall:
    """One launch of the kernel `name`, whose source has the digest `kernel`.

    arguments: parameter -> 'in 0' (pointer to operand 0), 'out 0' (to result 0), or the Triton text of a scalar.
    constexprs: parameter -> its value as Python text. grid: programs along three axes. aliases: pairs (operand,
    result) that are one buffer.
    """

    kernel: str
    name: str
    arguments: Mapping[str, str]
    constexprs: Mapping[str, str]
    grid: tuple[int, int, int]
    num_warps: int = 4
    num_stages: int = 3
    num_ctas: int = 1
    enable_fp_fusion: bool = True
    aliases: tuple[tuple[int, int], ...] = ()

    def to_json(self) -> str:
        """As the custom call's backend_config; equal calls give equal text."""
        return json.dumps(asdict(self), sort_keys=True)


def from_json(text: str) -> KernelCall:
    """What `to_json` wrote; UserKernelError for anything else."""
    try:
        found = json.loads(text)
        found["grid"] = tuple(found["grid"])
        found["aliases"] = tuple((operand, result) for operand, result in found["aliases"])
        return KernelCall(**found)
    except (ValueError, TypeError, KeyError) as error:
        raise UserKernelError(f"a custom call of {TARGET} says nothing that can be read ({error})") from None


_sources: dict[str, KernelSource] = {}


def register(source: KernelSource) -> str:
    """The digest by which `find` gives the source in this process."""
    digest = source.digest
    _sources.setdefault(digest, source)
    return digest


def find(call: KernelCall) -> KernelSource:
    """The source of the kernel that is called; UserKernelError where this process has none."""
    if call.kernel not in _sources:
        raise UserKernelError(
            f"the source of Triton kernel '{call.name}' is not known in this process",
            "Run the program that defines it: a dump or a SavedModel names a kernel and does not hold it",
        )
    return _sources[call.kernel]
