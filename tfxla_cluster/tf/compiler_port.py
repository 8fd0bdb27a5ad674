"""The seam to the compiler: what the TensorFlow side asks for and what it gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..decision import Decision
from ..errors import LoweringError
from ..held import Held
from ..ir.guard import Guard, Key, Names
from ..ir.shape import Shape
from ..size_spec import Mark


def _alone(sizes: Mapping[tuple[int, int], int]) -> bytes:
    raise LoweringError("it is known at its own sizes alone")


@dataclass(frozen=True)
class Trace:
    """A trace up to its sizes. function: a number of the Python function that it is of. nodes: (which function of those
    that it calls, name) -> (op, what else it is but for numbers)."""

    function: int
    nodes: Mapping[tuple[int, str], tuple[str, str]]


@dataclass(frozen=True)
class CompileRequest:
    """One module to compile.

    name: of the TensorFlow function or cluster, for dumps and messages. kind: 'must' (a jit_compile
    function) or 'cluster'. inputs: what each HLO parameter is, in words ("argument 'x'", "variable 'w'").
    lines: TF node -> the user's `file:line`. guards: what is asked for, about the inputs of the function or cluster;
    names: how to speak of these. device: what the executable is for, as tf.devices.device_of names it. family: the
    same for the traces of one function of the program. named: the user's name of each HLO parameter; variables: those
    that are; constants: those that the function captures; integers: those that stand for Python integers.
    dynamic: whether one executable may serve several sizes, None as soon as one changes. open:
    (HLO parameter, axis) that the trace leaves open; untold: HLO parameters of whose sizes nothing is known. relower:
    the proto of the same function at other sizes of some (HLO parameter, axis); LoweringError where it does not lower
    so. marks: what the program says about sizes of (HLO parameter, axis). title: the user's name of the function, that
    of which a cluster is a part. place(): the user's `file:line` at which it begins ('' unknown), None once
    TensorFlow removed it. python: the Python values that it was traced for, by name. costs: milliseconds of 'trace'
    and 'lowering', as far as known. called: the stack of its first call. stack(node): that of a TF node; both outermost
    frame first, each {file, line, text, function, user}. traced(): the trace, None where it is of no function that is
    known. ordered: sums must have the same bits in each run. question(): what the function asks about its sizes, in
    words with the user's line, '' where it asks nothing.
    """

    name: str
    kind: str
    inputs: tuple[str, ...] = ()
    lines: Mapping[str, str] = field(default_factory=dict)
    guards: tuple[Guard, ...] = ()
    names: Names | None = None
    device: str = "CPU"
    family: str = ""
    named: tuple[str, ...] = ()
    variables: frozenset[int] = frozenset()
    dynamic: bool | None = None
    open: frozenset[tuple[int, int]] = frozenset()
    relower: Callable[[Mapping[tuple[int, int], int]], bytes] = _alone
    marks: Mapping[tuple[int, int], Mark] = field(default_factory=dict)
    constants: frozenset[int] = frozenset()
    integers: frozenset[int] = frozenset()
    title: str = ""
    place: Callable[[], str | None] = lambda: ""
    python: Mapping[str, str] = field(default_factory=dict)
    costs: Mapping[str, float] = field(default_factory=dict)
    called: Sequence[Mapping[str, Any]] = ()
    stack: Callable[[str], Sequence[Mapping[str, Any]]] = lambda node: ()
    untold: frozenset[int] = frozenset()
    traced: Callable[[], Trace | None] = lambda: None
    ordered: bool = False
    question: Callable[[], str] = str

    @property
    def has_predicates(self) -> bool:
        """Some sizes have an executable of their own, by what a mark says of them."""
        return any(mark.size.specialize_on for mark in self.marks.values())

    @property
    def values(self) -> tuple[Guard, ...]:
        """What lowering took the values of some inputs to be."""
        return tuple(guard for guard in self.guards if guard.kind == "value")


class Loaded(Protocol):
    """An executable in memory. `record` and `entry` are addresses: `entry(record, inputs, outputs, sizes, launch)`,
    where `launch` (null on the CPU) points at builder.LAUNCH_WORDS words.

    outputs: array shapes of the results in order; their dims may be expressions over the symbols of
    `sizes`, whose items have `symbol`, `input` (HLO parameter) and `axis`, or are produced by the run (`is_produced`)
    and at most `bound`. guards: what it holds for, about the HLO parameters. The object keeps the code alive.
    """

    @property
    def record(self) -> int: ...

    @property
    def entry(self) -> int: ...

    @property
    def outputs(self) -> tuple[Shape, ...]: ...

    @property
    def sizes(self) -> tuple[Any, ...]: ...

    @property
    def guards(self) -> tuple[Guard, ...]: ...


class Served(Protocol):
    """What runs a module. exact: it is known to be right at the sizes of the request alone; ranges: else in which it
    is, about the HLO parameters. compiled: as the executable was not there before. handed: what it takes besides the
    module's parameters, aligned as a tensor is."""

    @property
    def loaded(self) -> Loaded: ...

    @property
    def exact(self) -> bool: ...

    @property
    def compiled(self) -> bool: ...

    @property
    def handed(self) -> tuple[Held, ...]: ...

    @property
    def ranges(self) -> tuple[Guard, ...]: ...


class Compiler(Protocol):
    """What the TensorFlow side is made with; called on any thread."""

    def usable(self, device_type: str) -> Decision:
        """Can executables for devices of this TensorFlow type be made, and run in this process?"""
        ...

    def compile_hlo(self, proto: bytes, request: CompileRequest) -> Served:
        """The executable of HloModuleProto bytes; UnsupportedError for what the compiler does not do yet."""
        ...

    def recall(self, key: Key, device: str) -> Mapping[str, bytes] | None:
        """What `keep` kept under a key, in this process or an earlier one; None for nothing. device: what it is for."""
        ...

    def keep(self, key: Key, device: str, sections: Mapping[str, bytes], about: Mapping[str, str]) -> None:
        """For `recall`. What cannot be kept is lost without harm. about: what it is, in words by name."""
        ...

    def explain(self, status: int) -> Exception:
        """What it means that an executable's entry returned `status`, which is not 0."""
        ...

    def seed_random(self, seed: int | None) -> None:
        """TensorFlow's global seed was set (None: there is none): the state that compiled stateful random ops draw
        from starts over."""
        ...
