"""The files of one compiled module: each function writes one stage's, as soon as the stage is done,
so that a program killed in the middle of a compilation leaves what led there."""

from __future__ import annotations

import dataclasses
import json
import linecache
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..ir import dim as dims
from ..ir import proto, text
from ..ir.dim import DimExpr
from ..ir.dtype import DType
from ..ir.node import Instr, Module
from ..ir.shape import Shape
from ..runtime.plan import LaunchPlan, Placed
from ..target import Target
from .buffer_lives import buffer_lives
from .buffer_text import buffer_assignment
from .schema import MARKER
from .sink import ModuleDump


@dataclass(frozen=True, slots=True)
class KernelRow:
    """A kernel in kernels.json. `instr` is the scheduled instruction it was first made for. `facts` go into the row
    as they are (tasks, key, milliseconds, ...)."""

    symbol: str
    instr: Instr | None = None
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def row(self) -> dict[str, Any]:
        """The kernel's row in kernels.json and the fields of its trace record."""
        row: dict[str, Any] = {"symbol": self.symbol}
        if self.instr is not None:
            row |= {
                "instr": self.instr.name,
                "opcode": self.instr.opcode,
                "instrs": fused_names(self.instr),
                "sources": sorted(self.instr.sources),
            }
        row.update((name, plain(value)) for name, value in self.facts.items())
        return row


# The comment sign of a language, by its suffix in the dump.
_COMMENTS = {"ir-no-opt.ll": ";", "ir-with-opt.ll": ";", "s": "#", "triton.py": "#"}


def before(dump: ModuleDump, module: Module) -> None:
    """The module as lowered: text as the flags say, and a proto with all literals."""
    dump.hlo("before_optimizations", lambda: hlo_text(dump, module), lambda: proto.write(module))


def after(dump: ModuleDump, module: Module, target: Target) -> None:
    """The module after passes and fusion, in schedule order."""
    dump.hlo(f"{target.dump_name}_after_optimizations", lambda: hlo_text(dump, module), lambda: proto.write(module))


def hlo_text(dump: ModuleDump, module: Module) -> str:
    """HLO text, literals and metadata as the dump's options say."""
    return text.render(module, elide_literals=not dump.options.large_constants, metadata=dump.options.metadata)


def fusion_decisions(dump: ModuleDump, decisions: Iterable[Mapping[str, Any]]) -> None:
    """What `fusion.planner.fuse` recorded."""
    if dump:
        _json(dump, "fusion_decisions.json", list(decisions))


def buffers(dump: ModuleDump, plan: LaunchPlan, placed: Sequence[Placed], moments: Sequence[tuple[int, str]]) -> None:
    """buffers.json, as `buffer_lives`."""
    if dump:
        _json(dump, "buffers.json", buffer_lives(plan, placed, moments), indent=None)


def launch_plan(dump: ModuleDump, plan: LaunchPlan, module: Module, target: Target) -> None:
    """The plan as JSON, and the buffer assignment it stands for as XLA's text."""
    if dump:
        _json(dump, "launch_plan.json", plan)
        dump.text(
            f"{target.dump_name}_after_optimizations-buffer-assignment.txt", lambda: buffer_assignment(plan, module)
        )


def kernel_table(dump: ModuleDump, rows: Sequence[KernelRow]) -> None:
    """kernels.json."""
    if dump:
        _json(dump, "kernels.json", [row.row() for row in rows])


def kernel_texts(dump: ModuleDump, suffix: str, parts: Sequence[tuple[str, str]]) -> None:
    """The file of one language: each (heading, text) after a marker line. A kernel's heading is 'kernel SYMBOL'."""
    if parts:
        comment = _COMMENTS.get(suffix, "//")
        marked = (f"{comment} {MARKER.format(heading=heading)}\n{body.rstrip()}\n" for heading, body in parts)
        dump.text(suffix, "\n".join(marked))


def timings(dump: ModuleDump, phases: Mapping[str, float], total_ms: float, target: Target, **facts: Any) -> None:
    """Milliseconds of each phase of this module's compilation."""
    if dump:
        _json(dump, "timings.json", {"phases": phases, "total_ms": total_ms, "target": target, **facts})


def sources(dump: ModuleDump, module: Module, lines: Mapping[str, str]) -> None:
    """The user's lines behind the module: `lines` gives 'file:line' of TF nodes, from the side table of
    tracebacks; only nodes that some instruction came from are written."""
    if dump:
        nodes = {name for comp in module.computations() for i in comp.instrs for name in _nodes(i)}
        _json(dump, "sources.json", {name: [_frame(lines[name])] for name in sorted(nodes) if name in lines})


def _nodes(instr: Instr) -> set[str]:
    return {*instr.sources, *filter(None, (instr.metadata.op_name,))}


def _frame(place: str) -> dict[str, Any]:
    file, _, line = place.rpartition(":")
    number = int(line) if line.isdigit() else 0
    return {"file": file, "line": number, "text": linecache.getline(file, number).strip()}


def fused_names(instr: Instr) -> list[str]:
    """Names of the instructions that run in `instr`: those of a fusion's body (parameters and the
    result tuple left out), or itself."""
    if instr.opcode != "fusion":
        return [instr.name]
    body = instr.called[0]
    return [i.name for i in body.instrs if i.opcode not in ("parameter", "tuple", "get-tuple-element")]


def plain(value: Any) -> Any:
    """`value` as JSON data: dataclasses become objects with their class as "type", expressions over
    sizes {"dim", "sample"}, byte strings their length, shapes and dtypes text."""
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    if isinstance(value, DimExpr):
        return {"dim": str(value), "sample": dims.sample(value)}
    if isinstance(value, (Shape, DType)):
        return str(value)
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in (value if isinstance(value, (list, tuple)) else sorted(value))]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"type": type(value).__name__, **fields}
    return str(value)


def _json(dump: ModuleDump, suffix: str, value: Any, indent: int | None = 1) -> None:
    dump.text(suffix, lambda: json.dumps(plain(value), indent=indent, allow_nan=True) + "\n")
