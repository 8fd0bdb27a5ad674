"""LLVM IR for the last columns of a block product, fewer than a panel has."""

from __future__ import annotations

from .product_loops import PARAMETERS, calls, next_tile, panel_memory, tiles
from .product_tile import Spec, load_vector, store_vector


def edge_text(spec: Spec) -> list[str]:
    """A function for `%cols` columns of one panel: whole tiles of it are summed in `%sums`, of which those columns go
    to c. Where b is read in place, those columns of it are first packed beside zeros."""
    tile = spec.tile
    start = "entry" if spec.packed else "copied"
    return [
        f"define internal void @{spec.name}.edge({PARAMETERS}) {{",
        "entry:",
        f"  %sums = alloca [{tile.rows[0] * tile.panel} x {spec.scalar}], align 64",
        *([] if spec.packed else panel_memory(spec)),
        *_edge_masks(spec),
        *(["  br label %tiles"] if spec.packed else _copy_edge(spec)),
        *tiles(spec, start, "%c"),
        *calls(
            spec, "t", "add", b="%b" if spec.packed else "%panel", c=f"ptr %sums, i64 {tile.panel}", accumulate="false"
        ),
        *_add_edge(spec),
        "tile_done:",
        *next_tile(),
        "panel_done:",
        "  ret void",
        "}",
    ]


def _edge_masks(spec: Spec) -> list[str]:
    """`%in_0`, ...: which lanes of each vector are columns; `%old_0`, ...: and are added to."""
    lanes = spec.tile.lanes
    numbers = f"<{lanes} x i64>"

    def splat(name: str, kind: str, value: str) -> list[str]:
        vector = f"<{lanes} x {kind}>"
        return [
            f"  %{name}_1 = insertelement {vector} poison, {kind} {value}, i64 0",
            f"  %{name} = shufflevector {vector} %{name}_1, {vector} poison, <{lanes} x i32> zeroinitializer",
        ]

    lines = [*splat("end", "i64", "%cols"), *splat("adds", "i1", "%accumulate")]
    for v in range(spec.tile.vectors):
        places = ", ".join(f"i64 {v * lanes + n}" for n in range(lanes))
        lines.append(f"  %in_{v} = icmp slt {numbers} <{places}>, %end")
        lines.append(f"  %old_{v} = and {spec.mask} %in_{v}, %adds")
    return lines


def _copy_edge(spec: Spec) -> list[str]:
    lines = [
        "  %any = icmp sgt i64 %depth, 0",
        "  br i1 %any, label %copy, label %copied",
        "copy:",
        "  %k = phi i64 [ 0, %entry ], [ %k_next, %copy ]",
        "  %bk = phi ptr [ %b, %entry ], [ %bk_next, %copy ]",
        "  %pk = phi ptr [ %panel, %entry ], [ %pk_next, %copy ]",
    ]
    for v in range(spec.tile.vectors):
        lines += _masked_load(spec, f"%b_{v}", "bk", v, f"%in_{v}")
        lines += store_vector(spec, f"%b_{v}", "pk", v)
    return [
        *lines,
        f"  %bk_next = getelementptr {spec.scalar}, ptr %bk, i64 %b_stride",
        f"  %pk_next = getelementptr {spec.scalar}, ptr %pk, i64 {spec.tile.panel}",
        "  %k_next = add nuw nsw i64 %k, 1",
        "  %again = icmp slt i64 %k_next, %depth",
        "  br i1 %again, label %copy, label %copied",
        "copied:",
        "  br label %tiles",
    ]


def _add_edge(spec: Spec) -> list[str]:
    """Each row of `%sums` to c, added to what is there where `%accumulate`."""
    lines = [
        "add:",
        "  br label %row",
        "row:",
        "  %r = phi i64 [ 0, %add ], [ %r_next, %row ]",
        "  %cr = phi ptr [ %ci, %add ], [ %cr_next, %row ]",
        "  %sr = phi ptr [ %sums, %add ], [ %sr_next, %row ]",
    ]
    for v in range(spec.tile.vectors):
        lines += _masked_load(spec, f"%before_{v}", "cr", v, f"%old_{v}")
        lines += load_vector(spec, f"%sum_{v}", "sr", v)
        lines += [
            f"  %both_{v} = fadd {spec.vector} %before_{v}, %sum_{v}",
            f"  %total_{v} = select i1 %accumulate, {spec.vector} %both_{v}, {spec.vector} %sum_{v}",
            f"  call void {spec.masked('store')}({spec.vector} %total_{v}, ptr %before_{v}.p, i32 {spec.align}, "
            f"{spec.mask} %in_{v})",
        ]
    return [
        *lines,
        f"  %cr_next = getelementptr {spec.scalar}, ptr %cr, i64 %c_stride",
        f"  %sr_next = getelementptr {spec.scalar}, ptr %sr, i64 {spec.tile.panel}",
        "  %r_next = add nuw nsw i64 %r, 1",
        "  %rows_left = icmp slt i64 %r_next, %count",
        "  br i1 %rows_left, label %row, label %tile_done",
    ]


def _masked_load(spec: Spec, out: str, base: str, v: int, mask: str) -> list[str]:
    return [
        f"  {out}.p = getelementptr {spec.scalar}, ptr %{base}, i64 {v * spec.tile.lanes}",
        f"  {out} = call {spec.vector} {spec.masked('load')}(ptr {out}.p, i32 {spec.align}, {spec.mask} {mask}, "
        f"{spec.vector} zeroinitializer)",
    ]
