"""LLVM IR of one register tile of a block product: explicit vectors, whose sums stay in registers over the depth."""

from __future__ import annotations

from dataclasses import dataclass

from ..kernel.contraction import Tile

PREFETCH = "@llvm.prefetch.p0"
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

    @property
    def mask(self) -> str:
        return f"<{self.tile.lanes} x i1>"

    def masked(self, move: str) -> str:
        """The intrinsic that loads or stores (`move`) the lanes of a vector that a mask has."""
        return f"@llvm.masked.{move}.v{self.tile.lanes}{self.dtype}.p0"


def tile_text(spec: Spec, rows: int, first: bool) -> list[str]:
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
        *(f"  call void {PREFETCH}(ptr %c{i}, i32 1, i32 3, i32 1)" for i in range(rows)),
        *([f"  %reach = mul i64 %b_stride, {_REACH}"] if first else []),
        "  %any = icmp sgt i64 %depth, 0",
        "  br i1 %any, label %loop, label %done",
        "loop:",
        "  %k = phi i64 [ 0, %entry ], [ %k_next, %loop ]",
        "  %bk = phi ptr [ %b, %entry ], [ %bk_next, %loop ]",
        *(["  %pk = phi ptr [ %panel, %entry ], [ %pk_next, %loop ]"] if first else []),
        *(["  %ak = phi ptr [ %a, %entry ], [ %ak_next, %loop ]"] if spec.depth_major else []),
        *(f"  %acc_{x} = phi {spec.vector} [ zeroinitializer, %entry ], [ %next_{x}, %loop ]" for x in names),
        *(line for v in range(spec.tile.vectors) for line in load_vector(spec, f"%b_{v}", "bk", v)),
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
        *(line for i, v in cells for line in load_vector(spec, f"%old_{i}_{v}", f"c{i}", v)),
        *(f"  %both_{x} = fadd {spec.vector} %old_{x}, %sum_{x}" for x in names),
        "  br label %finish",
        "finish:",
        *(f"  %total_{x} = phi {spec.vector} [ %sum_{x}, %done ], [ %both_{x}, %resume ]" for x in names),
        *(line for i, v in cells for line in store_vector(spec, f"%total_{i}_{v}", f"c{i}", v)),
        "  ret void",
        "}",
    ]


def _copy_panel_row(spec: Spec) -> list[str]:
    """Keep this row of the panel in the packed copy; fetch the one some rows on (strides defeat hardware)."""
    lines = [line for v in range(spec.tile.vectors) for line in store_vector(spec, f"%b_{v}", "pk", v, "copy")]
    return [
        *lines,
        f"  %pk_next = getelementptr {spec.scalar}, ptr %pk, i64 {spec.tile.panel}",
        f"  %far = getelementptr {spec.scalar}, ptr %bk, i64 %reach",
        f"  call void {PREFETCH}(ptr %far, i32 0, i32 3, i32 1)",
    ]


def _prefetch_next_panel(spec: Spec) -> list[str]:
    """Bring the next panel to L2 while this one, in L1, is in use: its first tile then does not wait for L3."""
    return [
        f"  %ahead = getelementptr {spec.scalar}, ptr %bk, i64 %b_stride",
        f"  call void {PREFETCH}(ptr %ahead, i32 0, i32 2, i32 1)",
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


def load_vector(spec: Spec, out: str, base: str, v: int) -> list[str]:
    return [
        f"  {out}.p = getelementptr {spec.scalar}, ptr %{base}, i64 {v * spec.tile.lanes}",
        f"  {out} = load {spec.vector}, ptr {out}.p, align {spec.align}",
    ]


def store_vector(spec: Spec, value: str, base: str, v: int, label: str = "to") -> list[str]:
    return [
        f"  {value}.{label} = getelementptr {spec.scalar}, ptr %{base}, i64 {v * spec.tile.lanes}",
        f"  store {spec.vector} {value}, ptr {value}.{label}, align {spec.align}",
    ]
