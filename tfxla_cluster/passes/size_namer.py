"""size-namer: each size known only after an instruction ran gets a name of its own, and its users that name.

    n = s32[] ...                                    n = s32[] ...
    x = f32[<=4] set-dimension-size(a, n)     -->    x = f32[<=4/*x*/] set-dimension-size(a, n)
    y = s32[] get-dimension-size(x)                  y = s32[] clamp(0, n, 4)

HLO text and protos know such a size by its bound alone, so two of one bound look equal. What follows compares and
counts dims by name; this pass comes before it. Sizes run from operands to results as XLA's
DynamicDimensionInference has them; a slice of less than the whole dimension has a fixed size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import UnsupportedError
from ..ir import dim as dims_
from ..ir.dim import Dim, DimExpr, capacity, has_produced
from ..ir.dtype import DTYPES, PRED
from ..ir.infer import infer
from ..ir.node import Computation, Instr, Module
from ..ir.opcode import is_elementwise
from ..ir.polynomial import as_dim, polynomial, same
from ..ir.rewrite import Names, relinked
from ..ir.shape import Shape, array, tuple_of
from ..ir.size_proofs import at_most
from . import match, size_losses, size_reshaper
from .base import Pass

S32 = DTYPES["s32"]
# Size operators whose meaning a binary HLO opcode has; `//` and `%` too, of what is not negative by what is not 0.
_ARITHMETIC = {"add": "add", "mul": "multiply", "max": "maximum", "min": "minimum"}
_DIVISION = {"floordiv": "divide", "mod": "remainder"}


def run(module: Module) -> Module:
    """`module` itself where nothing in it has such a size; UnsupportedError where one cannot be followed."""
    if not any(i.opcode in ("set-dimension-size", "dynamic-reshape") for c in module.computations() for i in c.instrs):
        return module
    names = Names(i.name for c in module.computations() for i in c.instrs)
    entry = _Namer(names).computation(module.entry, [p.shape for p in module.entry.params])
    return module if entry is module.entry else module.replace(entry=entry)


PASS = Pass("size-namer", run)


@dataclass
class _Scope:
    """One computation being renamed: old -> new instructions, the new ones in order, and the s32 scalars that
    are the sizes made here, by name."""

    done: dict[Instr, Instr] = field(default_factory=dict)
    order: list[Instr] = field(default_factory=list)
    makers: dict[str, Instr] = field(default_factory=dict)

    def add(self, instr: Instr) -> Instr:
        self.order.append(instr)
        return instr


class _Namer:
    def __init__(self, names: Names) -> None:
        self.names = names
        self.made: dict[tuple[Computation, tuple[Shape, ...]], Computation] = {}

    def computation(self, comp: Computation, params: Sequence[Shape]) -> Computation:
        """`comp` for parameters of these shapes: one, whoever calls it."""
        key = comp, tuple(params)
        if key not in self.made:
            self.made[key] = self._computation(comp, params)
        return self.made[key]

    def _computation(self, comp: Computation, params: Sequence[Shape]) -> Computation:
        scope, users = _Scope(), comp.users()
        for instr in comp.instrs:
            if instr.opcode == "parameter":
                shape = params[instr.attrs["parameter_number"]]
                scope.done[instr] = scope.add(_with(instr, shape))
            else:
                scope.done[instr] = self._instruction(scope, instr)
            size_losses.check(scope.done[instr])
            if instr.opcode == "slice":
                _check_part(scope.done[instr], _only_sized(instr, users))
        same = len(scope.order) == len(comp.instrs) and all(a is b for a, b in zip(scope.order, comp.instrs))
        return comp if same else Computation(comp.name, tuple(scope.order), scope.done[comp.root])

    def _instruction(self, scope: _Scope, instr: Instr) -> Instr:
        operands = tuple(scope.done[o] for o in instr.operands)
        control = tuple(scope.done[c] for c in instr.control)
        if operands != instr.operands or control != instr.control:
            instr = instr.replace(operands=operands, control=control)
        handler = _HANDLERS.get(instr.opcode)
        if handler is not None:
            return handler(self, scope, instr)
        if _is_dynamic(instr.shape) or any(_is_dynamic(o.shape) for o in operands):
            instr = _inferred(self._cut(scope, instr))
        return scope.add(instr)

    def _cut(self, scope: _Scope, instr: Instr) -> Instr:
        """Operands of fixed size beside ones of a produced size are cut to it: there the bound stood for it."""
        dims = [list(o.shape.dims) for o in instr.operands]
        for places in _equal_dims(instr):
            sizes = [dims[n][axis] for n, axis in places if has_produced(dims[n][axis])]
            for n, axis in places if sizes else ():
                dims[n][axis] = sizes[0]
        operands = tuple(self._cut_to(scope, o, found) for o, found in zip(instr.operands, dims))
        return instr if operands == instr.operands else instr.replace(operands=operands)

    def _cut_to(self, scope: _Scope, x: Instr, dims: Sequence[Dim]) -> Instr:
        if not x.shape.is_array or tuple(dims) == x.shape.dims:
            return x
        shape = array(x.shape.element_type, tuple(dims))
        made = match.make(x, "slice", shape, (x,), slice=tuple((0, d, 1) for d in dims))
        return scope.add(made.replace(name=self.names.unique(x.name)))

    def _set_size(self, scope: _Scope, instr: Instr) -> Instr:
        """A new size; inner dimensions are moved out for it, so that what is kept stays the first elements."""
        x, size = instr.operands
        (axis,) = instr.attrs["dimensions"]
        dims = list(x.shape.dims)
        size = self._rest(scope, instr, size)
        instr = instr if size is instr.operands[1] else instr.replace(operands=(x, size))
        if not has_produced(instr.shape.dims[axis]):
            return x  # taken for its bound; it keeps its size here, and its users cut what stands beside it
        dims[axis] = dims_.bounded(instr.name, capacity(instr.shape.dims[axis]))
        scope.makers[instr.name] = size
        if all(d == 1 for d in dims[:axis]):
            return scope.add(_with(instr, array(x.shape.element_type, tuple(dims))))
        order = (axis, *(d for d in range(len(dims)) if d != axis))
        back = tuple(order.index(d) for d in range(len(dims)))
        out = _transposed(instr, x, x.shape.dims, order)
        out = scope.add(out.replace(name=self.names.unique(instr.name)))
        kept = scope.add(
            instr.replace(
                name=self.names.unique(instr.name),
                operands=(out, size),
                attrs={**instr.attrs, "dimensions": (0,)},
                shape=array(x.shape.element_type, tuple(dims[d] for d in order)),
            )
        )
        return scope.add(_transposed(instr, kept, kept.shape.dims, back))

    def _rest(self, scope: _Scope, instr: Instr, size: Instr) -> Instr:
        """How much tf.slice leaves behind a place that the run computes: the bridge counts it from the bound."""
        part = instr.operands[0]
        if instr.metadata.op_type != "Slice" or size.opcode != "subtract" or part.opcode != "dynamic-slice":
            return size
        (axis,) = instr.attrs["dimensions"]
        source = part.operands[0]
        whole = (source.operands[0] if source.opcode == "pad" else source).shape.dims[axis]
        if not has_produced(whole) or match.value_of(size.operands[0]) != capacity(whole):
            return size
        made = size.replace(
            name=self.names.unique(size.name), operands=(self._value(scope, instr, whole), size.operands[1])
        )
        return scope.add(made)

    def _get_size(self, scope: _Scope, instr: Instr) -> Instr:
        """The scalar that is the size, or arithmetic on such scalars."""
        dim = instr.operands[0].shape.dims[instr.attrs["dimensions"][0]]
        return self._value(scope, instr, dim) if has_produced(dim) else scope.add(instr)

    def _value(self, scope: _Scope, like: Instr, dim: Dim) -> Instr:
        if isinstance(dim, int):
            made = match.constant(like, dim, S32)
        elif dims_.is_produced(dim):
            if dim.name not in scope.makers:  # made by who calls this computation
                return self._of_shape(scope, like, dim)
            # As the run has it: TensorFlow's bridge subtracts from sizes without a look at 0.
            bounds = [self._value(scope, like, bound) for bound in (0, dim.bound)]
            made = match.make(like, "clamp", array(S32), (bounds[0], scope.makers[dim.name], bounds[1]))
        elif not has_produced(dim):
            return self._of_shape(scope, like, dim)
        else:
            a, b = (self._value(scope, like, d) for d in dim.operands)
            if dim.op in _DIVISION:
                return self._divided(scope, like, dim, a, b)
            made = match.make(like, _ARITHMETIC[dim.op], array(S32), (a, b))
        return scope.add(made.replace(name=self.names.unique(like.name)))

    def _of_shape(self, scope: _Scope, like: Instr, dim: DimExpr) -> Instr:
        """A size that is known before the computation runs: that of a shape which has it, which costs no memory."""
        none = scope.add(match.constant(like, False, PRED).replace(name=self.names.unique(like.name)))
        shaped = match.make(like, "broadcast", array(PRED, (dim,)), (none,), dimensions=())
        shaped = scope.add(shaped.replace(name=self.names.unique(like.name)))
        made = match.make(like, "get-dimension-size", array(S32), (shaped,), dimensions=(0,))
        return scope.add(made.replace(name=self.names.unique(like.name)))

    def _divided(self, scope: _Scope, like: Instr, dim: DimExpr, a: Instr, b: Instr) -> Instr:
        """a // b or a % b: HLO rounds towards 0, and by 0 it gives other numbers."""

        def op(opcode: str, *operands: Instr, **attrs: Any) -> Instr:
            kind = PRED if opcode in ("compare", "and") else S32
            made = match.make(like, opcode, array(kind), operands, **attrs)
            return scope.add(made.replace(name=self.names.unique(like.name)))

        def compare(x: Instr, direction: str) -> Instr:
            return op("compare", x, zero, direction=direction, type="SIGNED")

        rounded = op(_DIVISION[dim.op], a, b)
        if at_most(0, dim.operands[0]) and at_most(1, dim.operands[1]):
            return rounded
        zero, one = (self._value(scope, like, number) for number in (0, 1))
        rest = rounded if dim.op == "mod" else op("remainder", a, b)
        up = op("and", compare(rest, "NE"), compare(op("xor", rest, b), "LT"))
        floor = op("add", rest, b) if dim.op == "mod" else op("subtract", rounded, one)
        return op("select", compare(b, "EQ"), zero, op("select", up, floor, rounded))

    def _reshape(self, scope: _Scope, instr: Instr) -> Instr:
        """Equal bounds keep their order; one size that is left is what makes the counts equal."""
        x = instr.operands[0]
        if not _is_dynamic(x.shape) and not _is_dynamic(instr.shape):
            return scope.add(instr)
        dims = size_reshaper.reshaped(x.shape.dims, instr.shape.dims)
        if dims is None or not same(dims_.product(dims), dims_.product(x.shape.dims)):
            raise UnsupportedError(
                f"{instr.name}: reshape of {x.shape} to {instr.shape} does not say which size is which"
            )
        return scope.add(match.make(instr, "reshape", array(x.shape.element_type, tuple(dims)), (x,)))

    def _while(self, scope: _Scope, instr: Instr) -> Instr:
        (state,) = instr.operands
        called = {instr.attrs[key]: self.computation(instr.attrs[key], [state.shape]) for key in ("condition", "body")}
        if called[instr.attrs["body"]].root.shape != state.shape:
            raise UnsupportedError(f"{instr.name}: a loop changes a size that is known only after it ran")
        return scope.add(_with(instr, state.shape, called))

    def _conditional(self, scope: _Scope, instr: Instr) -> Instr:
        called: dict[Computation, Computation] = {}
        for comp, argument in zip(instr.called, instr.operands[1:]):
            if comp in called and argument.shape != called[comp].params[0].shape:
                raise UnsupportedError(f"{instr.name}: one branch for two sizes that are known only after they ran")
            called[comp] = self.computation(comp, [argument.shape])
        shapes = {comp.root.shape for comp in called.values()}
        if len(shapes) > 1:
            raise UnsupportedError(f"{instr.name}: its branches give sizes that are known only after they ran")
        return scope.add(_with(instr, shapes.pop(), called))

    def _called(self, scope: _Scope, instr: Instr) -> Instr:
        comp = instr.attrs["to_apply"]
        new = self.computation(comp, [o.shape for o in instr.operands])
        return scope.add(_with(instr, new.root.shape, {comp: new}))


def _with(instr: Instr, shape: Shape, called: Mapping[Computation, Computation] | None = None) -> Instr:
    """The instruction with this shape and these called computations; itself where that changes nothing."""
    if called and any(old is not new for old, new in called.items()):
        return instr.replace(shape=shape, attrs=relinked(instr, called))
    return instr if shape == instr.shape else instr.replace(shape=shape)


def _transposed(like: Instr, x: Instr, dims: Sequence[Dim], order: Sequence[int]) -> Instr:
    shape = array(x.shape.element_type, tuple(dims[d] for d in order))
    return match.make(like, "transpose", shape, (x,), dimensions=tuple(order))


_HANDLERS: dict[str, Callable[[_Namer, _Scope, Instr], Instr]] = {
    "set-dimension-size": _Namer._set_size,
    "get-dimension-size": _Namer._get_size,
    "reshape": _Namer._reshape,
    "dynamic-reshape": _Namer._reshape,
    "while": _Namer._while,
    "conditional": _Namer._conditional,
    "call": _Namer._called,
}
_WINDOWS = {"slice": "slice", "gather": "slice_sizes", "dynamic-slice": "dynamic_slice_sizes"}


def _is_dynamic(shape: Shape) -> bool:
    return any(map(_is_dynamic, shape.elements)) if shape.is_tuple else any(map(has_produced, shape.dims))


def _inferred(instr: Instr) -> Instr:
    """The instruction with the shape that its operands' sizes give it."""
    attrs: dict[str, Any] = dict(instr.attrs)
    key = _WINDOWS.get(instr.opcode)
    if key is not None:
        dims, row_of = instr.operands[0].shape.dims, _but_ends if _drops_ends(instr) else _whole
        attrs[key] = tuple(row_of(row, dim) for row, dim in zip(attrs[key], dims))
    shapes = [o.shape for o in instr.operands]
    claimed = instr.shape
    if instr.opcode == "broadcast":
        found = list(claimed.dims)
        for dim, at in zip(shapes[0].dims, attrs["dimensions"]):
            found[at] = dim
        claimed = array(claimed.element_type, tuple(found))
    shape = infer(instr.opcode, shapes, attrs, claimed)
    lost = _is_dynamic(instr.shape) and not _is_dynamic(shape) and instr.opcode != "slice"  # (see _check_part)
    if lost or not _follows(shape, shapes):
        raise UnsupportedError(f"{instr.name}: {instr.opcode} to {instr.shape} does not say which size is meant")
    if attrs != instr.attrs:
        instr = instr.replace(attrs=attrs)
    return _with(instr, _laid_out(shape, instr.shape))


def _equal_dims(instr: Instr) -> Iterator[list[tuple[int, int]]]:
    """Places (operand, axis) that must be of one size."""
    shapes, attrs = [o.shape for o in instr.operands], instr.attrs
    if is_elementwise(instr.opcode) or instr.opcode in ("concatenate", "sort", "reduce"):
        count = len(shapes) // 2 if instr.opcode == "reduce" else len(shapes)
        whole = [n for n in range(count) if shapes[n].rank == max(s.rank for s in shapes[:count])]
        skipped = attrs["dimensions"] if instr.opcode == "concatenate" else ()
        for axis in range(shapes[whole[0]].rank):
            if axis not in skipped:
                yield [(n, axis) for n in whole]
    elif instr.opcode == "dot":
        for kind in ("contracting", "batch"):
            yield from ([(0, a), (1, b)] for a, b in zip(attrs[f"lhs_{kind}_dims"], attrs[f"rhs_{kind}_dims"]))
    elif instr.opcode == "scatter":
        count = len(shapes) // 2
        batch = [d for d in range(shapes[count].rank) if d != attrs["index_vector_dim"]]
        for n in range(count + 1, len(shapes)):
            rows = [d for d in range(shapes[n].rank) if d not in attrs["update_window_dims"]]
            yield from ([(count, a), (n, b)] for a, b in zip(batch, rows))


def _laid_out(shape: Shape, like: Shape) -> Shape:
    """`shape` in the memory order of `like`."""
    if shape.is_tuple:
        return tuple_of(*map(_laid_out, shape.elements, like.elements))
    return array(shape.dtype, shape.dims, like.layout) if shape.is_array and shape.dtype else shape


def _drops_ends(instr: Instr) -> bool:
    """Exclusive sums of all before an element are those of one element more, without the last or the first."""
    return instr.opcode == "slice" and instr.metadata.op_type in ("Cumsum", "Cumprod", "CumulativeLogsumexp")


def _but_ends(row: tuple[Dim, Dim, int], dim: Dim) -> tuple[Dim, Dim, int]:
    """A window as far from the end of a size as from that of its bound."""
    start, limit, stride = row
    return (start, as_dim(polynomial(dim - (capacity(dim) - limit))), stride) if has_produced(dim) else row


def _whole(row: Any, dim: Dim) -> Any:
    """A window that spans the bound of a size spans the size."""
    if not has_produced(dim):
        return row
    if isinstance(row, tuple):
        start, limit, stride = row
        return (0, dim, 1) if (start, stride) == (0, 1) and same(limit, capacity(dim)) else row
    return dim if same(row, capacity(dim)) else row


def _check_part(instr: Instr, only_sized: bool) -> None:
    """Refuse a slice of part of a produced size that may hold elements which are not there, or that TensorFlow's
    bridge may have counted from the bound in place of the end (`x[-1:]`)."""
    for (start, limit, stride), dim in zip(instr.attrs["slice"], instr.operands[0].shape.dims):
        if _drops_ends(instr) or not has_produced(dim) or (start, limit, stride) == (0, dim, 1) or start == limit:
            continue
        length = limit - start
        is_end = same(limit, capacity(dim)) and not at_most(start + 1, length)
        if is_end or not (only_sized or same(length, 1)):
            raise UnsupportedError(f"{instr.name}: a part of a dimension whose size is known only after it ran")


def _only_sized(instr: Instr, users: Mapping[Instr, Sequence[Instr]]) -> bool:
    """Does nothing use the instruction before its size is set?"""
    return all(
        u.opcode == "set-dimension-size" or (u.opcode == "reshape" and _only_sized(u, users)) for u in users[instr]
    )


def _follows(shape: Shape, operands: Sequence[Shape]) -> bool:
    """Is every produced size of `shape` one of an operand's?"""
    return _names(shape) <= frozenset().union(*map(_names, operands))


def _names(shape: Shape) -> frozenset[str]:
    """The produced sizes in a shape."""
    if shape.is_tuple:
        return frozenset().union(*map(_names, shape.elements))
    return frozenset(size.name for dim in shape.dims for size in dims_.leaves(dim) if dims_.is_produced(size))
