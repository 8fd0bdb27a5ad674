"""LLVM IR of the block product (`kernel.ir.Product`): explicit vectors, register tiles, no optimiser needed.

A product calls a function that all kernels with such products share,
    void NAME(ptr c, i64 c_stride, ptr a, i64 a_stride, ptr b, i64 b_stride,
              i64 rows, i64 cols, i64 depth, i1 accumulate)
with a, b, c advanced to their offsets and strides in elements.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from ..kernel.contraction import PANEL_DEPTH, Tile, tile
from ..kernel.ir import Product
from .emission import Emission
from .texts import Shared

_PREFETCH = "@llvm.prefetch.p0"
_REACH = 8  # rows of b between the one in use and the one fetched
_LLVM_TYPE = {"f32": "float", "f64": "double"}


@dataclass(frozen=True, slots=True)
class Spec:
    """What distinguishes two product functions."""

    dtype: str
    tile: Tile
    depth_major: bool
    packed: bool

    @property
    def name(self) -> str:
        flags = ("d" if self.depth_major else "r") + ("p" if self.packed else "u")
        return f"product.{self.dtype}.{self.tile.rows[0]}x{self.tile.panel}.{flags}"

    @property
    def scalar(self) -> str:
        return _LLVM_TYPE[self.dtype]

    @property
    def vector(self) -> str:
        return f"<{self.tile.lanes} x {self.scalar}>"

    @property
    def fma(self) -> str:
        return f"@llvm.fma.v{self.tile.lanes}{self.dtype}"

    @property
    def align(self) -> int:
        return 4 if self.dtype == "f32" else 8


def emit_product(e: Emission, stmt: Product) -> None:
    """Call the product's function, which all kernels with such a product share."""
    asm, dtype = e.asm, stmt.c.dtype
    spec = Spec(dtype.name, tile(dtype, e.target), stmt.a_major == "depth", stmt.packed)
    assert stmt.panel == spec.tile.panel, (stmt.panel, spec)
    e.shared[spec.name] = shared_function(spec)
    arguments = []
    for buffer, offset, stride in (
        (stmt.c, stmt.c_offset, stmt.c_stride),
        (stmt.a, stmt.a_offset, stmt.a_stride),
        (stmt.b, stmt.b_offset, stmt.b_stride),
    ):
        pointer = asm.gep(e.pointer(buffer), spec.scalar, e.scalar(offset))
        arguments += [f"ptr {pointer.text}", f"i64 {e.scalar(stride).text}"]
    arguments += [f"i64 {e.scalar(size).text}" for size in (stmt.rows, stmt.cols, stmt.depth)]
    asm.line(f"call void @{spec.name}({', '.join(arguments)}, i1 {e.scalar(stmt.accumulate).text})")


@functools.cache
def shared_function(spec: Spec) -> Shared:
    """The product's function for all its callers."""
    fma, prefetch = spec.fma.removeprefix("@"), _PREFETCH.removeprefix("@")
    declares = {
        fma: f"declare {spec.vector} @{fma}({', '.join([spec.vector] * 3)})",
        prefetch: f"declare void @{prefetch}(ptr, i32, i32, i32)",
    }
    prototype = f"declare void @{spec.name}(ptr, i64, ptr, i64, ptr, i64, i64, i64, i64, i1)"
    return Shared(function_text(spec), declares, prototype)


def function_text(spec: Spec) -> str:
    """The function and its register tiles, without declarations."""
    lines: list[str] = []
    for rows in spec.tile.rows:
        lines.extend(_tile_text(spec, rows, False))
        if not spec.packed:
            lines.extend(_tile_text(spec, rows, True))
    lines.extend(_loops_text(spec))
    return "\n".join(lines) + "\n"


# --- one register tile ---
def _tile_text(spec: Spec, rows: int, first: bool) -> list[str]:
    """A function that runs one register tile of `rows` rows over the whole depth.

    `first`: it reads b in place, and leaves a packed copy of the panel for the tiles below.
    """
    cells = [(i, v) for i in range(rows) for v in range(spec.tile.vectors)]
    names = [f"{i}_{v}" for i, v in cells]
    b_step = "%b_stride" if first else str(spec.tile.panel)
    return [
        f"define internal void @{spec.name}.{'f' if first else 't'}{rows}(ptr noalias %c, i64 %c_stride, "
        "ptr noalias %a, i64 %a_stride, ptr noalias %b, i64 %b_stride, i64 %depth, i1 %accumulate, "
        "ptr noalias %panel) {",
        "entry:",
        *_row_pointers(spec, "c", rows),
        *([] if spec.depth_major else _row_pointers(spec, "a", rows)),
        *(f"  call void {_PREFETCH}(ptr %c{i}, i32 1, i32 3, i32 1)" for i in range(rows)),
        *([f"  %reach = mul i64 %b_stride, {_REACH}"] if first else []),
        "  %any = icmp sgt i64 %depth, 0",
        "  br i1 %any, label %loop, label %done",
        "loop:",
        "  %k = phi i64 [ 0, %entry ], [ %k_next, %loop ]",
        "  %bk = phi ptr [ %b, %entry ], [ %bk_next, %loop ]",
        *(["  %pk = phi ptr [ %panel, %entry ], [ %pk_next, %loop ]"] if first else []),
        *(["  %ak = phi ptr [ %a, %entry ], [ %ak_next, %loop ]"] if spec.depth_major else []),
        *(f"  %acc_{x} = phi {spec.vector} [ zeroinitializer, %entry ], [ %next_{x}, %loop ]" for x in names),
        *(line for v in range(spec.tile.vectors) for line in _load(spec, f"%b_{v}", "bk", v)),
        *(_copy_panel_row(spec) if first else []),
        *(line for i in range(rows) for line in _row_step(spec, i)),
        *(_prefetch_next_panel(spec) if spec.packed else []),
        f"  %bk_next = getelementptr {spec.scalar}, ptr %bk, i64 {b_step}",
        *([f"  %ak_next = getelementptr {spec.scalar}, ptr %ak, i64 %a_stride"] if spec.depth_major else []),
        "  %k_next = add nuw nsw i64 %k, 1",
        "  %again = icmp slt i64 %k_next, %depth",
        "  br i1 %again, label %loop, label %done",
        "done:",
        *(f"  %sum_{x} = phi {spec.vector} [ zeroinitializer, %entry ], [ %next_{x}, %loop ]" for x in names),
        "  br i1 %accumulate, label %resume, label %finish",
        "resume:",
        *(line for i, v in cells for line in _load(spec, f"%old_{i}_{v}", f"c{i}", v)),
        *(f"  %both_{x} = fadd {spec.vector} %old_{x}, %sum_{x}" for x in names),
        "  br label %finish",
        "finish:",
        *(f"  %total_{x} = phi {spec.vector} [ %sum_{x}, %done ], [ %both_{x}, %resume ]" for x in names),
        *(line for i, v in cells for line in _store(spec, f"%total_{i}_{v}", f"c{i}", v)),
        "  ret void",
        "}",
    ]


def _copy_panel_row(spec: Spec) -> list[str]:
    """Keep this row of the panel in the packed copy; fetch the one some rows on (strides defeat hardware)."""
    lines = [line for v in range(spec.tile.vectors) for line in _store(spec, f"%b_{v}", "pk", v, "copy")]
    return [
        *lines,
        f"  %pk_next = getelementptr {spec.scalar}, ptr %pk, i64 {spec.tile.panel}",
        f"  %far = getelementptr {spec.scalar}, ptr %bk, i64 %reach",
        f"  call void {_PREFETCH}(ptr %far, i32 0, i32 3, i32 1)",
    ]


def _prefetch_next_panel(spec: Spec) -> list[str]:
    """Bring the next panel to L2 while this one, in L1, is in use: its first tile then does not wait for L3."""
    return [
        f"  %ahead = getelementptr {spec.scalar}, ptr %bk, i64 %b_stride",
        f"  call void {_PREFETCH}(ptr %ahead, i32 0, i32 2, i32 1)",
    ]


def _row_pointers(spec: Spec, base: str, rows: int) -> list[str]:
    """`%c0`, `%c1`, ...: where the tile's rows begin."""
    return [
        f"  %{base}0 = getelementptr {spec.scalar}, ptr %{base}, i64 0",
        *(
            f"  %{base}{i} = getelementptr {spec.scalar}, ptr %{base}{i - 1}, i64 %{base}_stride"
            for i in range(1, rows)
        ),
    ]


def _row_step(spec: Spec, i: int) -> list[str]:
    """Broadcast a[i, k] and add its products to row i."""
    place = f"%ak, i64 {i}" if spec.depth_major else f"%a{i}, i64 %k"
    lines = [
        f"  %pa_{i} = getelementptr {spec.scalar}, ptr {place}",
        f"  %s_{i} = load {spec.scalar}, ptr %pa_{i}, align {spec.align}",
        f"  %i_{i} = insertelement {spec.vector} poison, {spec.scalar} %s_{i}, i64 0",
        f"  %w_{i} = shufflevector {spec.vector} %i_{i}, {spec.vector} poison, "
        f"<{spec.tile.lanes} x i32> zeroinitializer",
    ]
    for v in range(spec.tile.vectors):
        operands = ", ".join(f"{spec.vector} {name}" for name in (f"%w_{i}", f"%b_{v}", f"%acc_{i}_{v}"))
        lines.append(f"  %next_{i}_{v} = call {spec.vector} {spec.fma}({operands})")
    return lines


def _load(spec: Spec, out: str, base: str, v: int) -> list[str]:
    return [
        f"  {out}.p = getelementptr {spec.scalar}, ptr %{base}, i64 {v * spec.tile.lanes}",
        f"  {out} = load {spec.vector}, ptr {out}.p, align {spec.align}",
    ]


def _store(spec: Spec, value: str, base: str, v: int, label: str = "to") -> list[str]:
    return [
        f"  {value}.{label} = getelementptr {spec.scalar}, ptr %{base}, i64 {v * spec.tile.lanes}",
        f"  store {spec.vector} {value}, ptr {value}.{label}, align {spec.align}",
    ]


# --- loops over register tiles ---
def _loops_text(spec: Spec) -> list[str]:
    """For each panel of b (it stays in L1), for each tile of rows."""
    panel, scalar = spec.tile.panel, spec.scalar
    return [
        f"define weak_odr void @{spec.name}(ptr noalias %c, i64 %c_stride, ptr noalias %a, i64 %a_stride, "
        "ptr noalias %b, i64 %b_stride, i64 %rows, i64 %cols, i64 %depth, i1 %accumulate) {",
        "entry:",
        *([] if spec.packed else [f"  %panel = alloca [{PANEL_DEPTH * panel} x {scalar}], align 64"]),
        "  br label %panels",
        "panels:",
        "  %j = phi i64 [ 0, %entry ], [ %j_next, %panel_done ]",
        "  %cj = phi ptr [ %c, %entry ], [ %cj_next, %panel_done ]",
        "  %bj = phi ptr [ %b, %entry ], [ %bj_next, %panel_done ]",
        "  %more = icmp slt i64 %j, %cols",
        "  br i1 %more, label %tiles, label %exit",
        "tiles:",
        "  %i = phi i64 [ 0, %panels ], [ %i_next, %tile_done ]",
        "  %left = sub i64 %rows, %i",
        "  %some = icmp sgt i64 %left, 0",
        "  br i1 %some, label %tile, label %panel_done",
        "tile:",
        "  %c_skip = mul i64 %i, %c_stride",
        f"  %ci = getelementptr {scalar}, ptr %cj, i64 %c_skip",
        "  %a_skip = " + ("add i64 %i, 0" if spec.depth_major else "mul i64 %i, %a_stride"),
        f"  %ai = getelementptr {scalar}, ptr %a, i64 %a_skip",
        *_dispatch(spec),
        "tile_done:",
        "  %i_next = add i64 %i, %count",
        "  br label %tiles",
        "panel_done:",
        f"  %j_next = add i64 %j, {panel}",
        f"  %cj_next = getelementptr {scalar}, ptr %cj, i64 {panel}",
        f"  %bj_next = getelementptr {scalar}, ptr %bj, i64 {'%b_stride' if spec.packed else panel}",
        "  br label %panels",
        "exit:",
        "  ret void",
        "}",
    ]


def _dispatch(spec: Spec) -> list[str]:
    """Call the highest tile that fits into `%left` rows (`%count`); two second-highest end an even rest."""
    rows = spec.tile.rows
    lines = [f"  %count_{len(rows) - 1} = add i64 0, {rows[-1]}"]
    for n in range(len(rows) - 2, -1, -1):
        lines.append(f"  %fits_{n} = icmp sge i64 %left, {rows[n]}")
        lines.append(f"  %count_{n} = select i1 %fits_{n}, i64 {rows[n]}, i64 %count_{n + 1}")
    lines += [
        f"  %twice = icmp eq i64 %left, {2 * rows[1]}",
        f"  %count = select i1 %twice, i64 {rows[1]}, i64 %count_0",
    ]
    if spec.packed:
        return lines + _calls(spec, "t", "%bj")
    return [
        *lines,
        "  %is_first = icmp eq i64 %i, 0",
        "  br i1 %is_first, label %pick_f, label %pick_t",
        "pick_f:",
        *_calls(spec, "f", "%bj"),
        "pick_t:",
        *_calls(spec, "t", "%panel"),
    ]


def _calls(spec: Spec, kind: str, b: str) -> list[str]:
    """Call the tile of kind 't' or 'f' for `%count` rows."""
    panel = "%panel" if not spec.packed else "null"
    arguments = (
        f"ptr %ci, i64 %c_stride, ptr %ai, i64 %a_stride, ptr {b}, i64 %b_stride, i64 %depth, "
        f"i1 %accumulate, ptr {panel}"
    )
    cases = " ".join(f"i64 {r}, label %run_{kind}{r}" for r in spec.tile.rows)
    lines = [f"  switch i64 %count, label %tile_done [ {cases} ]"]
    for r in spec.tile.rows:
        call = f"  call void @{spec.name}.{kind}{r}({arguments})"
        lines += [f"run_{kind}{r}:", call, "  br label %tile_done"]
    return lines
