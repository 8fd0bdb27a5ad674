"""The seam to the compiler: what the TensorFlow side asks for and what it gets. `api` sets `compile_hlo`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..errors import InternalError
from ..ir.guard import Guard, Names
from ..ir.shape import Shape


@dataclass(frozen=True)
class CompileRequest:
    """One module to compile.

    name: of the TensorFlow function or cluster, for dumps and messages. kind: 'must' (a jit_compile
    function) or 'cluster'. inputs: what each HLO parameter is, in words ("argument 'x'", "variable 'w'").
    lines: TF node -> the user's `file:line`. guards: what is asked for, about the inputs of the function or cluster;
    names: how to speak of these. device: the TensorFlow device type that the executable is for, one of
    tf.devices.BACKENDS.
    """

    name: str
    kind: str
    inputs: tuple[str, ...] = ()
    lines: Mapping[str, str] = field(default_factory=dict)
    guards: tuple[Guard, ...] = ()
    names: Names | None = None
    device: str = "CPU"


class Loaded(Protocol):
    """An executable in memory. `record` and `entry` are addresses: `entry(record, inputs, outputs, sizes)`.

    outputs: array shapes of the results in order; their dims may be expressions over the symbols of
    `sizes`, whose items have `symbol`, `input` (HLO parameter) and `axis`, or are produced by the run (`is_produced`)
    and at most `bound`. guards: what it holds for, about the HLO parameters. The object keeps the code alive.
    """

    record: int
    entry: int
    outputs: tuple[Shape, ...]
    sizes: tuple[Any, ...]
    guards: tuple[Guard, ...]


def _not_set(proto: bytes, request: CompileRequest) -> Loaded:
    raise InternalError("tfxla_cluster is not enabled: no compiler is installed")


def _no_seed(seed: int | None) -> None:
    """Nothing compiled draws random numbers yet."""


# The global seed (None: there is none) -> the state that compiled stateful random ops draw from starts over.
seed_random: Callable[[int | None], None] = _no_seed
# HloModuleProto bytes, request -> Loaded; raises UnsupportedError for what the compiler does not do yet.
compile_hlo: Callable[[bytes, CompileRequest], Loaded] = _not_set
