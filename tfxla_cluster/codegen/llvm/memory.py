"""Loads and stores: one vector access where lanes are neighbours, an access per lane otherwise.

Where a mask is false, no memory of a buffer is touched: such a lane uses a dummy stack slot instead.
"""

from __future__ import annotations

from ...ir.dtype import DType
from ..kernel.ir import Buffer, Load, Store
from .emission import Emission
from .formats import from_memory, memory_type, register_type, to_memory
from .operand import BITS, Reg, type_text
from .values import Value, registers

# Moves the few elements of a loop's end between a buffer and a stack slot, for types without masked moves.
_COPY_FUNCTION = """
define internal void @copy_{type}(ptr %to, ptr %from, i64 %count) {{
entry:
  br label %body
body:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %source = getelementptr {type}, ptr %from, i64 %i
  %target = getelementptr {type}, ptr %to, i64 %i
  %item = load {type}, ptr %source, align 1
  store {type} %item, ptr %target, align 1
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %body, label %exit
exit:
  ret void
}}
"""


def emit_load(e: Emission, stmt: Load) -> Value:
    """One element, or one a lane; where masked off nothing is read."""
    asm, dtype = e.asm, stmt.buffer.dtype
    offset = e.env[stmt.offset]
    mask = e.registers(stmt.mask)[0] if stmt.mask is not None else None
    if offset.varying:
        raw = _load_lanes(e, stmt.buffer, offset, mask)
    else:
        raw = _load_scalar(e, stmt.buffer, offset.parts[0], _any(e, mask))
    parts = tuple(from_memory(asm, dtype, r) for r in raw)
    if mask is not None:
        zero = asm.literal(register_type(dtype), 0)
        other = e.registers(stmt.other) if stmt.other is not None else (zero,) * len(parts)
        parts = tuple(asm.select(mask, p, o) for p, o in zip(parts, other))
    return Value(dtype, parts)


def emit_store(e: Emission, stmt: Store) -> None:
    """One element, or one a lane; where masked off nothing is written."""
    asm, dtype = e.asm, stmt.buffer.dtype
    offset, value = e.env[stmt.offset], e.registers(stmt.value)
    mask = e.registers(stmt.mask)[0] if stmt.mask is not None else None
    raw = tuple(to_memory(asm, dtype, p) for p in value)
    if offset.varying or any(p.lanes > 1 for p in raw) or (mask is not None and mask.lanes > 1):
        lanes = tuple(asm.splat(r, e.width) for r in raw)
        _store_lanes(e, stmt.buffer, offset, lanes, mask, stmt.stream)
        return
    for pointer, part in zip(_part_pointers(e, stmt.buffer, offset.parts[0], mask), raw):
        asm.store(part, pointer, BITS[part.type] // 8)


def _any(e: Emission, mask: Reg | None) -> Reg | None:
    """A scalar that holds where any active lane's mask does."""
    if mask is None or mask.lanes == 1:
        return mask
    active = mask if e.mask is None else mask & e.mask
    return e.asm.call(f"llvm.vector.reduce.or.v{active.lanes}i1", "i1", 1, [active])


def _part_pointers(e: Emission, buffer: Buffer, offset: Reg, mask: Reg | None) -> list[Reg]:
    """Addresses of an element's parts; the dummy slot where `mask` (a scalar) is false."""
    asm, kind, base = e.asm, memory_type(buffer.dtype), e.pointer(buffer)
    if buffer.dtype.kind == "complex":
        first = offset * 2
        pointers = [asm.gep(base, kind, first), asm.gep(base, kind, first + 1)]
    else:
        pointers = [asm.gep(base, kind, offset)]
    if mask is None or mask.value is True:
        return pointers
    return [asm.select(mask, p, e.dummy()) for p in pointers]


def _load_scalar(e: Emission, buffer: Buffer, offset: Reg, mask: Reg | None) -> tuple[Reg, ...]:
    kind = memory_type(buffer.dtype)
    return tuple(e.asm.load(kind, 1, p, BITS[kind] // 8) for p in _part_pointers(e, buffer, offset, mask))


def _stride(offset: Value) -> int | None:
    """The constant distance of neighbouring lanes, if there is one."""
    return None if offset.stride is None or offset.stride.value is None else int(offset.stride.value)


def _masked_moves(e: Emission, dtype: DType) -> bool:
    """True where the machine moves single lanes of this type under a mask."""
    return e.target.vector_bits >= 512 or (e.target.vector_bits == 256 and BITS[memory_type(dtype)] >= 32)


def _load_lanes(e: Emission, buffer: Buffer, offset: Value, mask: Reg | None) -> tuple[Reg, ...]:
    asm, dtype, width = e.asm, buffer.dtype, e.width
    kind, stride, is_complex = memory_type(dtype), _stride(offset), dtype.kind == "complex"
    align, whole = BITS[kind] // 8, mask is None and e.mask is None
    if stride == 1 and whole:
        if is_complex:
            pairs = asm.load(kind, 2 * width, _part_pointers(e, buffer, offset.parts[0], None)[0], align)
            return asm.shuffle(pairs, range(0, 2 * width, 2)), asm.shuffle(pairs, range(1, 2 * width, 2))
        return (asm.load(kind, width, asm.gep(e.pointer(buffer), kind, offset.parts[0]), align),)
    if stride == -1 and whole and not is_complex:
        low = offset.parts[0] - (width - 1)
        loaded = asm.load(kind, width, asm.gep(e.pointer(buffer), kind, low), align)
        return (asm.shuffle(loaded, range(width - 1, -1, -1)),)
    if stride == 1 and not is_complex and (mask is None or _masked_moves(e, dtype)):
        pointer = asm.gep(e.pointer(buffer), kind, offset.parts[0])
        some = _masked_load if _masked_moves(e, dtype) else _load_some
        if mask is not None:
            return (_masked_load(e, kind, pointer, mask),)
        return e.full_or_partial(lambda: [asm.load(kind, width, pointer, align)], lambda: [some(e, kind, pointer)])
    return _gather(e, buffer, offset, mask)


def _copy(e: Emission, kind: str, to: Reg, source: Reg) -> None:
    """Copies the elements of the lanes that run."""
    assert e.count is not None
    e.functions[f"copy_{kind}"] = _COPY_FUNCTION.format(type=kind)
    e.asm.line(f"call void @copy_{kind}(ptr {to.text}, ptr {source.text}, i64 {e.count.text})")


def _load_some(e: Emission, kind: str, pointer: Reg) -> Reg:
    """The lanes that run from neighbouring elements, by way of a stack slot."""
    align = BITS[kind] // 8
    slot = e.slot(e.width * align)
    _copy(e, kind, slot, pointer)
    return e.asm.load(kind, e.width, slot, align)


def _store_some(e: Emission, value: Reg, pointer: Reg) -> None:
    align = BITS[value.type] // 8
    slot = e.slot(e.width * align)
    e.asm.store(value, slot, align)
    _copy(e, value.type, pointer, slot)


def _masked_load(e: Emission, kind: str, pointer: Reg, mask: Reg | None = None) -> Reg:
    asm, width = e.asm, e.width
    text = type_text(kind, width)
    name = f"llvm.masked.load.v{width}{_suffix(kind)}.p0"
    asm.declare(name, text, ["ptr", "i32", type_text("i1", width), text])
    return asm.load_call(
        f"call {text} @{name}(ptr {pointer.text}, i32 {BITS[kind] // 8}, "
        f"{type_text('i1', width)} {_active(e, mask).text}, {text} zeroinitializer)",
        kind,
        width,
    )


def _active(e: Emission, mask: Reg | None) -> Reg:
    """The lanes that run, as a vector of i1."""
    both = [m for m in (mask, e.mask) if m is not None]
    merged = both[0] if len(both) == 1 else both[0] & both[1]
    return e.asm.splat(merged, e.width)


def _suffix(kind: str) -> str:
    return {"float": "f32", "double": "f64"}.get(kind, kind)


def _lane_offsets(e: Emission, offset: Value) -> list[Reg]:
    """Each lane's offset as a scalar."""
    asm, base = e.asm, offset.parts[0]
    if offset.stride is not None:
        return [base + asm.op("mul", offset.stride, asm.literal("i64", lane)) for lane in range(e.width)]
    vector = asm.splat(registers(asm, offset, e.width)[0], e.width)
    return [asm.extract(vector, lane) for lane in range(e.width)]


def _lane_masks(e: Emission, mask: Reg | None) -> list[Reg | None]:
    """Each lane's condition as a scalar; None where it always runs."""
    if mask is None:
        if e.count is None:
            return [None] * e.width
        # The end of a loop holds at least one iteration.
        return [None, *(e.asm.cmp("sgt", e.count, lane) for lane in range(1, e.width))]
    active = _active(e, mask)
    return [e.asm.extract(active, lane) for lane in range(e.width)]


def _gather(e: Emission, buffer: Buffer, offset: Value, mask: Reg | None) -> tuple[Reg, ...]:
    asm, kind = e.asm, memory_type(buffer.dtype)
    parts = [asm.poison(kind, e.width)] * (2 if buffer.dtype.kind == "complex" else 1)
    for lane, (where, active) in enumerate(zip(_lane_offsets(e, offset), _lane_masks(e, mask))):
        items = _load_scalar(e, buffer, where, active)
        parts = [asm.insert(p, item, lane) for p, item in zip(parts, items)]
    return tuple(parts)


def _store_lanes(
    e: Emission, buffer: Buffer, offset: Value, raw: tuple[Reg, ...], mask: Reg | None, stream: bool
) -> None:
    asm, dtype, width = e.asm, buffer.dtype, e.width
    kind, whole, is_complex = memory_type(dtype), mask is None and e.mask is None, dtype.kind == "complex"
    align = BITS[kind] // 8
    if _stride(offset) == 1 and (whole or (not is_complex and (mask is None or _masked_moves(e, dtype)))):
        _store_neighbours(e, buffer, offset.parts[0], raw, mask, stream)
        return
    if _stride(offset) == -1 and whole and not is_complex:
        low = asm.gep(e.pointer(buffer), kind, offset.parts[0] - (width - 1))
        asm.store(asm.shuffle(raw[0], range(width - 1, -1, -1)), low, align)
        return
    for lane, (where, active) in enumerate(zip(_lane_offsets(e, offset), _lane_masks(e, mask))):
        for part, target in zip(raw, _part_pointers(e, buffer, where, active)):
            asm.store(asm.extract(part, lane), target, align)


def _store_neighbours(
    e: Emission, buffer: Buffer, offset: Reg, raw: tuple[Reg, ...], mask: Reg | None, stream: bool
) -> None:
    asm, width, align = e.asm, e.width, BITS[memory_type(buffer.dtype)] // 8
    pointer = _part_pointers(e, buffer, offset, None)[0]
    if len(raw) == 2:
        order = [lane for pair in zip(range(width), range(width, 2 * width)) for lane in pair]
        asm.store(asm.shuffle(raw[0], order, raw[1]), pointer, align)
    elif mask is None and e.mask is None:
        _store_whole(e, raw[0], pointer, align, stream)
    elif mask is not None:
        _masked_store(e, raw[0], pointer, mask)
    else:
        some = _masked_store if _masked_moves(e, buffer.dtype) else _store_some

        def store_all() -> tuple[Reg, ...]:
            _store_whole(e, raw[0], pointer, align, stream)
            return ()

        def store_some() -> tuple[Reg, ...]:
            some(e, raw[0], pointer)
            return ()

        e.full_or_partial(store_all, store_some)


def _store_whole(e: Emission, value: Reg, pointer: Reg, align: int, stream: bool) -> None:
    """Streamed, and at an address that whole registers need for it: past the caches."""
    asm, size = e.asm, BITS[value.type] // 8 * value.lanes
    if not stream or size < e.target.vector_bits // 8:
        asm.store(value, pointer, align)
        return
    e.streams()
    whole = e.target.vector_bits // 8
    address = asm.cast("ptrtoint", pointer, "i64")
    aligned = asm.cmp("eq", asm.op("and", address, asm.literal("i64", whole - 1)), 0)
    asm.begin_branch()
    asm.store(value, pointer, whole, ", !nontemporal !0")
    past = asm.end_branch()
    asm.begin_branch()
    asm.store(value, pointer, align)
    asm.branch(aligned, past, (), asm.end_branch())


def _masked_store(e: Emission, value: Reg, pointer: Reg, mask: Reg | None = None) -> None:
    asm, text = e.asm, type_text(value.type, value.lanes)
    lanes = type_text("i1", value.lanes)
    name = f"llvm.masked.store.v{value.lanes}{_suffix(value.type)}.p0"
    asm.declare(name, "void", [text, "ptr", "i32", lanes])
    asm.line(
        f"call void @{name}({text} {value.text}, ptr {pointer.text}, i32 {BITS[value.type] // 8}, "
        f"{lanes} {_active(e, mask).text})"
    )
