"""Immutable HLO: instructions, computations, modules.

Nodes compare by identity, so "changed" is `new is not old`. A pass builds new nodes for what it
changes and for their users (`ir.rewrite`), and shares the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from .dim import Dim
from .guard import Guard
from .shape import Shape

# Attributes that hold a Computation, or a tuple of them, in the order HLO protos list them.
CALLED_ATTRS = (
    "to_apply",
    "calls",
    "body",
    "condition",
    "true_computation",
    "false_computation",
    "select",
    "scatter",
    "branch_computations",
    "called_computations",
)
# Opcodes that may have one of them: asking the others would cost a look-up for each attribute.
_CALLING = frozenset(
    (
        "call",
        "map",
        "reduce",
        "reduce-window",
        "scatter",
        "select-and-scatter",
        "sort",
        "while",
        "conditional",
        "fusion",
        "custom-call",
        "all-reduce",
        "all-reduce-start",
        "reduce-scatter",
        "async-start",
        "async-update",
        "async-done",
    )
)
EMPTY: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Metadata:
    """What lowering said of an instruction: TF op type, TF node name, source file and line."""

    op_type: str = ""
    op_name: str = ""
    source_file: str = ""
    source_line: int = 0


NO_METADATA = Metadata()


@dataclass(frozen=True, slots=True)
class WindowDim:
    """One dimension of a window (xla_data.proto, WindowDimension). Strides and dilations are numbers: where one
    follows a size there is no module for all sizes."""

    size: Dim
    stride: int = 1
    pad_low: Dim = 0
    pad_high: Dim = 0
    base_dilation: int = 1
    window_dilation: int = 1
    reversal: bool = False


@dataclass(frozen=True, slots=True)
class ConvDims:
    """Which dimension of lhs, rhs and output is what (HLO text `dim_labels=b01f_01io->b01f`)."""

    lhs_batch: int
    lhs_feature: int
    lhs_spatial: tuple[int, ...]
    rhs_input: int
    rhs_output: int
    rhs_spatial: tuple[int, ...]
    out_batch: int
    out_feature: int
    out_spatial: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Instr:
    """One instruction.

    `opcode` is a key of `opcode.OPCODES` (the HLO text name). `attrs` is read-only and named as in
    HLO text: numbers, strings, tuples, `WindowDim` tuples (window), `ConvDims` (dim_labels), a
    Computation or a tuple of them, a NumPy array (`literal` of a constant; a tuple literal is a
    tuple of arrays). `sources` are the TF nodes it came from: every pass and fusion keeps their union.
    """

    name: str
    opcode: str
    shape: Shape
    operands: tuple[Instr, ...] = ()
    attrs: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    sources: frozenset[str] = frozenset()
    metadata: Metadata = NO_METADATA
    control: tuple[Instr, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.attrs, MappingProxyType):
            object.__setattr__(self, "attrs", MappingProxyType(dict(self.attrs)))

    @property
    def called(self) -> tuple[Computation, ...]:
        """The computations this instruction calls, in CALLED_ATTRS order."""
        if self.opcode not in _CALLING:
            return ()
        found: list[Computation] = []
        for key in CALLED_ATTRS:
            value = self.attrs.get(key)
            if isinstance(value, Computation):
                found.append(value)
            elif value is not None:
                found.extend(value)
        return tuple(found)

    def replace(self, **changes: Any) -> Instr:
        """A copy with fields changed; `attrs` given here replaces all attributes."""
        return replace(self, **changes)

    def with_attrs(self, **changes: Any) -> Instr:
        """A copy with single attributes changed (None removes one)."""
        merged = {**self.attrs, **changes}
        return replace(self, attrs={k: v for k, v in merged.items() if v is not None})

    def __repr__(self) -> str:
        operands = ", ".join(o.name for o in self.operands)
        return f"%{self.name} = {self.shape} {self.opcode}({operands})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Computation:
    """`instrs` in an order where operands come first; `root` is one of them; `params` by number.
    `facts`: answers of `holds`, which cannot change."""

    name: str
    instrs: tuple[Instr, ...]
    root: Instr
    params: tuple[Instr, ...] = field(init=False)
    facts: dict[str, bool] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        found = [i for i in self.instrs if i.opcode == "parameter"]
        found.sort(key=lambda i: int(i.attrs["parameter_number"]))
        object.__setattr__(self, "params", tuple(found))

    def users(self) -> dict[Instr, list[Instr]]:
        """Each instruction's users, in schedule order (one entry a user, however often it uses it)."""
        table: dict[Instr, list[Instr]] = {i: [] for i in self.instrs}
        for instr in self.instrs:
            for operand in dict.fromkeys(instr.operands):
                table[operand].append(instr)
        return table

    def __repr__(self) -> str:
        return f"<computation {self.name}: {len(self.instrs)} instructions>"


@dataclass(frozen=True, slots=True)
class Alias:
    """Output at `output_index` shares the buffer of parameter `parameter` at `parameter_index`."""

    output_index: tuple[int, ...]
    parameter: int
    parameter_index: tuple[int, ...] = ()
    must: bool = False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Module:
    """An HLO module: the entry computation (others hang from its instructions) and its aliases.

    `guards`: sizes, by name, that passes made it right for; text and proto leave them out.
    """

    name: str
    entry: Computation
    aliases: tuple[Alias, ...] = ()
    is_scheduled: bool = False
    guards: tuple[Guard, ...] = ()

    @property
    def param_shapes(self) -> tuple[Shape, ...]:
        """Of the entry's parameters, by number."""
        return tuple([param.shape for param in self.entry.params])

    def computations(self) -> Iterator[Computation]:
        """Every reachable computation once, callees before callers, the entry last."""
        return iter(callees_first([self.entry]))

    def replace(self, **changes: Any) -> Module:
        return replace(self, **changes)

    def __repr__(self) -> str:
        return f"<module {self.name}: {sum(len(c.instrs) for c in self.computations())} instructions>"


def callees_first(
    roots: Iterable[Computation], called: Callable[[Instr], Sequence[Computation]] = lambda instr: instr.called
) -> list[Computation]:
    """`roots` and all they call, each once, callees before callers; `called` says which calls to follow.

    No recursion: programs may nest deeper than Python's stack, and share callees more often than can be walked.
    """

    def callees(comp: Computation) -> Iterator[Computation]:
        return (callee for instr in comp.instrs if instr.opcode in _CALLING for callee in called(instr))

    found: list[Computation] = []
    seen: set[Computation] = set()
    for root in roots:
        stack = [] if root in seen else [(root, callees(root))]
        seen.add(root)
        while stack:
            comp, rest = stack[-1]
            fresh = next((callee for callee in rest if callee not in seen), None)
            if fresh is None:
                found.append(comp)
                stack.pop()
            else:
                seen.add(fresh)
                stack.append((fresh, callees(fresh)))
    return found


def holds(instr: Instr, name: str, test: Callable[[Instr], bool]) -> bool:
    """Whether `test` holds for the instruction or for one in the computations that it calls, directly or not.

    `name` names the test: its answer for a computation is found once, and kept there.
    """
    called = instr.called
    for comp in callees_first(called, lambda i: [c for c in i.called if name not in c.facts]) if called else ():
        if name not in comp.facts:
            comp.facts[name] = any(test(i) or any(c.facts[name] for c in i.called) for i in comp.instrs)
    return test(instr) or any(comp.facts[name] for comp in called)
