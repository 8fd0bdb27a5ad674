"""LLVM IR of the block product (`kernel.ir.Product`): explicit vectors, register tiles, no optimiser needed.

Interface to the emitter: `product_text(product, target)` gives the name of an internal function and
its text (with the text of what it calls); the emitter adds the text once a module and calls
    void NAME(ptr c, i64 c_stride, ptr a, i64 a_stride, ptr b, i64 b_stride,
              i64 rows, i64 cols, i64 depth, i1 accumulate)
with a, b, c already advanced to their offsets, strides in elements.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...target import Target
from ..kernel.contraction import Tile, tile
from ..kernel.ir import Product

_LLVM_TYPE = {"f32": "float", "f64": "double"}


@dataclass(frozen=True, slots=True)
class _Spec:
    """What distinguishes two product functions."""

    dtype: str
    tile: Tile
    depth_major: bool
    packed: bool
    padded: bool

    @property
    def name(self) -> str:
        flags = ("d" if self.depth_major else "r") + ("p" if self.packed else "u") + ("w" if self.padded else "x")
        return f"product.{self.dtype}.{self.tile.rows}x{self.tile.panel}.{flags}"

    @property
    def scalar(self) -> str:
        return _LLVM_TYPE[self.dtype]

    @property
    def vector(self) -> str:
        return f"<{self.tile.lanes} x {self.scalar}>"

    @property
    def suffix(self) -> str:
        return f"v{self.tile.lanes}{self.dtype}"

    @property
    def align(self) -> int:
        return 4 if self.dtype == "f32" else 8


@dataclass(frozen=True, slots=True)
class _Micro:
    """One register tile: `rows` x `vectors`; `masked`: only the columns that a mask names are touched."""

    spec: _Spec
    rows: int
    vectors: int
    masked: bool

    @property
    def name(self) -> str:
        return f"{self.spec.name}.t{self.rows}x{self.vectors}{'m' if self.masked else ''}"

    @property
    def load_masked(self) -> bool:
        """b has no padding to read."""
        return self.masked and not self.spec.packed

    @property
    def store_masked(self) -> bool:
        return self.masked and not self.spec.padded


def product_text(product: Product, target: Target) -> tuple[str, str]:
    """(name, text) of the function that runs `product` on `target`; equal products give equal names."""
    dtype = product.c.dtype
    shape = tile(dtype, target)
    assert product.panel == shape.panel, (product.panel, shape)
    spec = _Spec(dtype.name, shape, product.a_major == "depth", product.packed, product.c_padded)
    return spec.name, function_text(spec)


def function_text(spec: _Spec) -> str:
    """The whole function, its tiles and the declarations it needs."""
    lines: list[str] = []
    for micro in _micros(spec):
        lines.extend(_micro_text(micro))
    lines.extend(_macro_text(spec))
    return "\n".join(lines) + "\n"


def declarations(spec_text: str) -> list[str]:
    """The `declare` lines of the intrinsics that a product function's text calls, each once."""
    found = []
    for lanes, kind, scalar in ((lanes, k, s) for k, s in _LLVM_TYPE.items() for lanes in (2, 4, 8, 16)):
        vector, suffix = f"<{lanes} x {scalar}>", f"v{lanes}{kind}"
        if f"@llvm.fma.{suffix}(" in spec_text:
            found.append(f"declare {vector} @llvm.fma.{suffix}({vector}, {vector}, {vector})")
        if f"@llvm.masked.load.{suffix}.p0(" in spec_text:
            found.append(f"declare {vector} @llvm.masked.load.{suffix}.p0(ptr, i32, <{lanes} x i1>, {vector})")
        if f"@llvm.masked.store.{suffix}.p0(" in spec_text:
            found.append(f"declare void @llvm.masked.store.{suffix}.p0({vector}, ptr, i32, <{lanes} x i1>)")
    return found


def _micros(spec: _Spec) -> Iterator[_Micro]:
    for rows in range(1, spec.tile.rows + 1):
        yield _Micro(spec, rows, spec.tile.vectors, False)
        for vectors in range(1, spec.tile.vectors + 1):
            yield _Micro(spec, rows, vectors, True)


# --- one register tile ---
def _micro_text(micro: _Micro) -> list[str]:
    """A function that runs one register tile over the whole depth."""
    spec, cells = micro.spec, [(i, v) for i in range(micro.rows) for v in range(micro.vectors)]
    mask = f", <{spec.tile.lanes} x i1> %mask" if micro.masked else ""
    b_stride = "%b_stride" if not spec.packed else str(spec.tile.panel)
    return [
        f"define internal void @{micro.name}(ptr noalias %c, i64 %c_stride, ptr noalias %a, i64 %a_stride, "
        f"ptr noalias %b, i64 %b_stride, i64 %depth, i1 %accumulate{mask}) {{",
        "entry:",
        *_row_pointers(micro, "c"),
        *([] if spec.depth_major else _row_pointers(micro, "a")),
        "  br i1 %accumulate, label %resume, label %begin",
        "resume:",
        *(_load(micro, f"%old_{i}_{v}", f"c{i}", v, micro.store_masked) for i, v in cells),
        "  br label %begin",
        "begin:",
        *(f"  %init_{i}_{v} = phi {spec.vector} [ zeroinitializer, %entry ], [ %old_{i}_{v}, %resume ]"
          for i, v in cells),
        "  %any = icmp sgt i64 %depth, 0",
        "  br i1 %any, label %loop, label %done",
        "loop:",
        "  %k = phi i64 [ 0, %begin ], [ %k_next, %loop ]",
        "  %bk = phi ptr [ %b, %begin ], [ %bk_next, %loop ]",
        *(["  %ak = phi ptr [ %a, %begin ], [ %ak_next, %loop ]"] if spec.depth_major else []),
        *(f"  %acc_{i}_{v} = phi {spec.vector} [ %init_{i}_{v}, %begin ], [ %next_{i}_{v}, %loop ]"
          for i, v in cells),
        *(_load(micro, f"%b_{v}", "bk", v, micro.load_masked) for v in range(micro.vectors)),
        *(line for i in range(micro.rows) for line in _row_step(micro, i)),
        f"  %bk_next = getelementptr {spec.scalar}, ptr %bk, i64 {b_stride}",
        *([f"  %ak_next = getelementptr {spec.scalar}, ptr %ak, i64 %a_stride"] if spec.depth_major else []),
        "  %k_next = add nuw nsw i64 %k, 1",
        "  %again = icmp slt i64 %k_next, %depth",
        "  br i1 %again, label %loop, label %done",
        "done:",
        *(f"  %sum_{i}_{v} = phi {spec.vector} [ %init_{i}_{v}, %begin ], [ %next_{i}_{v}, %loop ]"
          for i, v in cells),
        *(_store(micro, f"%sum_{i}_{v}", f"c{i}", v) for i, v in cells),
        "  ret void",
        "}",
    ]


def _row_pointers(micro: _Micro, base: str) -> list[str]:
    """`%c0`, `%c1`, ...: where the tile's rows begin."""
    lines = [f"  %{base}0 = getelementptr {micro.spec.scalar}, ptr %{base}, i64 0"]
    for i in range(1, micro.rows):
        lines.append(f"  %{base}{i} = getelementptr {micro.spec.scalar}, ptr %{base}{i - 1}, i64 %{base}_stride")
    return lines


def _row_step(micro: _Micro, i: int) -> list[str]:
    """Broadcast a[i, k] and add its products to row i."""
    spec = micro.spec
    place = f"%ak, i64 {i}" if spec.depth_major else f"%a{i}, i64 %k"
    lines = [
        f"  %pa_{i} = getelementptr {spec.scalar}, ptr {place}",
        f"  %s_{i} = load {spec.scalar}, ptr %pa_{i}, align {spec.align}",
        f"  %i_{i} = insertelement {spec.vector} poison, {spec.scalar} %s_{i}, i64 0",
        f"  %w_{i} = shufflevector {spec.vector} %i_{i}, {spec.vector} poison, "
        f"<{spec.tile.lanes} x i32> zeroinitializer",
    ]
    for v in range(micro.vectors):
        operands = ", ".join(f"{spec.vector} {name}" for name in (f"%w_{i}", f"%b_{v}", f"%acc_{i}_{v}"))
        lines.append(f"  %next_{i}_{v} = call {spec.vector} @llvm.fma.{spec.suffix}({operands})")
    return lines


def _place(micro: _Micro, base: str, v: int) -> str:
    return f"getelementptr ({micro.spec.scalar}, ptr %{base}, i64 {v * micro.spec.tile.lanes})"


def _load(micro: _Micro, out: str, base: str, v: int, masked: bool) -> str:
    """Load vector v of a row; where masked, the last vector's lanes outside the mask are zero."""
    spec, pointer = micro.spec, f"{out}.p"
    lines = f"  {pointer} = getelementptr {spec.scalar}, ptr %{base}, i64 {v * spec.tile.lanes}\n"
    if masked and v == micro.vectors - 1:
        return lines + (
            f"  {out} = call {spec.vector} @llvm.masked.load.{spec.suffix}.p0(ptr {pointer}, i32 {spec.align}, "
            f"<{spec.tile.lanes} x i1> %mask, {spec.vector} zeroinitializer)")
    return lines + f"  {out} = load {spec.vector}, ptr {pointer}, align {spec.align}"


def _store(micro: _Micro, value: str, base: str, v: int) -> str:
    spec, pointer = micro.spec, f"{value}.p"
    lines = f"  {pointer} = getelementptr {spec.scalar}, ptr %{base}, i64 {v * spec.tile.lanes}\n"
    if micro.store_masked and v == micro.vectors - 1:
        return lines + (
            f"  call void @llvm.masked.store.{spec.suffix}.p0({spec.vector} {value}, ptr {pointer}, "
            f"i32 {spec.align}, <{spec.tile.lanes} x i1> %mask)")
    return lines + f"  store {spec.vector} {value}, ptr {pointer}, align {spec.align}"


# --- loops over register tiles ---
def _macro_text(spec: _Spec) -> list[str]:
    """For each panel of b (it stays in L1), for each tile of rows: a full tile, or a masked one at the edge."""
    panel, scalar = spec.tile.panel, spec.scalar
    advance = "%b_stride" if spec.packed else str(panel)
    return [
        f"define internal void @{spec.name}(ptr noalias %c, i64 %c_stride, ptr noalias %a, i64 %a_stride, "
        "ptr noalias %b, i64 %b_stride, i64 %rows, i64 %cols, i64 %depth, i1 %accumulate) {",
        "entry:",
        "  br label %panels",
        "panels:",
        "  %j = phi i64 [ 0, %entry ], [ %j_next, %panel_done ]",
        "  %cj = phi ptr [ %c, %entry ], [ %cj_next, %panel_done ]",
        "  %bj = phi ptr [ %b, %entry ], [ %bj_next, %panel_done ]",
        "  %rest = sub i64 %cols, %j",
        "  %more = icmp sgt i64 %rest, 0",
        "  br i1 %more, label %panel, label %exit",
        "panel:",
        f"  %full = icmp sge i64 %rest, {panel}",
        f"  %last = add i64 %rest, -1",
        f"  %vector = udiv i64 %last, {spec.tile.lanes}",
        f"  %kind = select i1 %full, i64 {spec.tile.vectors}, i64 %vector",
        f"  %done_cols = mul i64 %vector, {spec.tile.lanes}",
        "  %lanes = sub i64 %rest, %done_cols",
        *_mask(spec),
        "  br label %tiles",
        "tiles:",
        "  %i = phi i64 [ 0, %panel ], [ %i_next, %tile_done ]",
        "  %left = sub i64 %rows, %i",
        f"  %many = icmp sgt i64 %left, {spec.tile.rows}",
        f"  %count = select i1 %many, i64 {spec.tile.rows}, i64 %left",
        "  %some = icmp sgt i64 %count, 0",
        "  br i1 %some, label %tile, label %panel_done",
        "tile:",
        "  %c_skip = mul i64 %i, %c_stride",
        f"  %ci = getelementptr {scalar}, ptr %cj, i64 %c_skip",
        *(["  %a_skip = add i64 %i, 0"] if spec.depth_major else ["  %a_skip = mul i64 %i, %a_stride"]),
        f"  %ai = getelementptr {scalar}, ptr %a, i64 %a_skip",
        *_dispatch(spec),
        "tile_done:",
        "  %i_next = add i64 %i, %count",
        "  br label %tiles",
        "panel_done:",
        f"  %j_next = add i64 %j, {panel}",
        f"  %cj_next = getelementptr {scalar}, ptr %cj, i64 {panel}",
        f"  %bj_next = getelementptr {scalar}, ptr %bj, i64 {advance}",
        "  br label %panels",
        "exit:",
        "  ret void",
        "}",
    ]


def _mask(spec: _Spec) -> list[str]:
    """`%mask`: the lanes of the last vector of an edge panel that lie inside."""
    lanes = spec.tile.lanes
    steps = ", ".join(f"i64 {lane}" for lane in range(lanes))
    return [
        f"  %lanes_0 = insertelement <{lanes} x i64> poison, i64 %lanes, i64 0",
        f"  %lanes_v = shufflevector <{lanes} x i64> %lanes_0, <{lanes} x i64> poison, "
        f"<{lanes} x i32> zeroinitializer",
        f"  %mask = icmp slt <{lanes} x i64> <{steps}>, %lanes_v",
    ]


def _dispatch(spec: _Spec) -> list[str]:
    """Call the tile for `%count` rows and `%kind` (number of vectors, full or masked)."""
    micros = list(_micros(spec))
    kinds = spec.tile.vectors + 1
    cases = " ".join(f"i64 {n}, label %run_{n}" for n in range(len(micros)))
    arguments = (
        "ptr %ci, i64 %c_stride, ptr %ai, i64 %a_stride, ptr %bj, i64 %b_stride, i64 %depth, i1 %accumulate")
    lines = [
        "  %count_0 = add i64 %count, -1",
        f"  %base = mul i64 %count_0, {kinds}",
        "  %which = add i64 %base, %kind_0",
        f"  switch i64 %which, label %tile_done [ {cases} ]",
    ]
    lines.insert(0, f"  %kind_0 = select i1 %full, i64 0, i64 %vector_1")
    lines.insert(0, "  %vector_1 = add i64 %vector, 1")
    for n, micro in enumerate(micros):
        mask = f", <{spec.tile.lanes} x i1> %mask" if micro.masked else ""
        lines += [f"run_{n}:", f"  call void @{micro.name}({arguments}{mask})", "  br label %tile_done"]
    return lines
