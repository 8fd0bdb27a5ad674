"""LLVM IR of the loops over the register tiles of a block product."""

from __future__ import annotations

from ..kernel.contraction import PANEL_DEPTH
from .product_tile import Spec

PARAMETERS = (
    "ptr noalias %c, i64 %c_stride, ptr noalias %a, i64 %a_stride, ptr noalias %b, i64 %b_stride, "
    "i64 %rows, i64 %cols, i64 %depth, i1 %accumulate"
)


def loops_text(spec: Spec) -> list[str]:
    """For each whole panel of b (it stays in L1), for each tile of rows; then what is left of the columns."""
    panel, scalar = spec.tile.panel, spec.scalar
    return [
        f"define weak_odr void @{spec.name}({PARAMETERS}) {{",
        "entry:",
        *([] if spec.packed else panel_memory(spec)),
        "  br label %panels",
        "panels:",
        "  %j = phi i64 [ 0, %entry ], [ %j_next, %panel_done ]",
        "  %cj = phi ptr [ %c, %entry ], [ %cj_next, %panel_done ]",
        "  %bj = phi ptr [ %b, %entry ], [ %bj_next, %panel_done ]",
        f"  %j_next = add i64 %j, {panel}",
        "  %more = icmp sle i64 %j_next, %cols",
        "  br i1 %more, label %tiles, label %rest",
        *tiles(spec, "panels", "%cj"),
        *_dispatch(spec),
        "tile_done:",
        *next_tile(),
        "panel_done:",
        f"  %cj_next = getelementptr {scalar}, ptr %cj, i64 {panel}",
        f"  %bj_next = getelementptr {scalar}, ptr %bj, i64 {'%b_stride' if spec.packed else panel}",
        "  br label %panels",
        "rest:",
        "  %width = sub i64 %cols, %j",
        "  %partly = icmp sgt i64 %width, 0",
        "  br i1 %partly, label %edge, label %exit",
        "edge:",
        f"  call void @{spec.name}.edge(ptr %cj, i64 %c_stride, ptr %a, i64 %a_stride, ptr %bj, i64 %b_stride, "
        "i64 %rows, i64 %width, i64 %depth, i1 %accumulate)",
        "  br label %exit",
        "exit:",
        "  ret void",
        "}",
    ]


def panel_memory(spec: Spec) -> list[str]:
    return [f"  %panel = alloca [{PANEL_DEPTH * spec.tile.panel} x {spec.scalar}], align 64"]


def tiles(spec: Spec, before: str, c: str) -> list[str]:
    """The head of the loop over tiles of rows, up to where one is called: `%left` rows from `%ai` on, to `%ci`."""
    return [
        "tiles:",
        f"  %i = phi i64 [ 0, %{before} ], [ %i_next, %tile_done ]",
        "  %left = sub i64 %rows, %i",
        "  %some = icmp sgt i64 %left, 0",
        "  br i1 %some, label %tile, label %panel_done",
        "tile:",
        "  %c_skip = mul i64 %i, %c_stride",
        f"  %ci = getelementptr {spec.scalar}, ptr {c}, i64 %c_skip",
        "  %a_skip = " + ("add i64 %i, 0" if spec.depth_major else "mul i64 %i, %a_stride"),
        f"  %ai = getelementptr {spec.scalar}, ptr %a, i64 %a_skip",
        *_count(spec),
    ]


def next_tile() -> list[str]:
    return ["  %i_next = add i64 %i, %count", "  br label %tiles"]


def _count(spec: Spec) -> list[str]:
    """`%count`: rows of the highest tile that fits into `%left` rows; two second-highest end an even rest."""
    rows = spec.tile.rows
    lines = [f"  %count_{len(rows) - 1} = add i64 0, {rows[-1]}"]
    for n in range(len(rows) - 2, -1, -1):
        lines.append(f"  %fits_{n} = icmp sge i64 %left, {rows[n]}")
        lines.append(f"  %count_{n} = select i1 %fits_{n}, i64 {rows[n]}, i64 %count_{n + 1}")
    return [
        *lines,
        f"  %twice = icmp eq i64 %left, {2 * rows[1]}",
        f"  %count = select i1 %twice, i64 {rows[1]}, i64 %count_0",
    ]


def _dispatch(spec: Spec) -> list[str]:
    """Call the tile for `%count` rows of a whole panel."""
    if spec.packed:
        return calls(spec, "t", "tile_done", b="%bj")
    return [
        "  %is_first = icmp eq i64 %i, 0",
        "  br i1 %is_first, label %pick_f, label %pick_t",
        "pick_f:",
        *calls(spec, "f", "tile_done", b="%bj", panel="%panel"),
        "pick_t:",
        *calls(spec, "t", "tile_done", b="%panel"),
    ]


def calls(
    spec: Spec,
    kind: str,
    behind: str,
    b: str,
    panel: str = "null",
    c: str = "ptr %ci, i64 %c_stride",
    accumulate: str = "%accumulate",
) -> list[str]:
    """Call the tile of kind 't' or 'f' for `%count` rows, then go `behind`."""
    arguments = f"{c}, ptr %ai, i64 %a_stride, ptr {b}, i64 %b_stride, i64 %depth, i1 {accumulate}, ptr {panel}"
    cases = " ".join(f"i64 {r}, label %run_{kind}{r}" for r in spec.tile.rows)
    lines = [f"  switch i64 %count, label %{behind} [ {cases} ]"]
    for r in spec.tile.rows:
        call = f"  call void @{spec.name}.{kind}{r}({arguments})"
        lines += [f"run_{kind}{r}:", call, f"  br label %{behind}"]
    return lines
