"""sort-simplifier: sorts that do less.

An operand that the comparator does not look at and nobody reads goes. A stable sort of values with their
positions, of which only the first few are read, becomes topk.
"""

from __future__ import annotations

from ..ir.dim import Dim, sample
from ..ir.node import Computation, Instr, Module
from ..ir.rewrite import Names, map_computations, rebuild
from ..ir.shape import Shape, array
from .base import Pass
from .match import dtype_of, make

# topk keeps the best so far in order: that pays for few of many.
MAX_K = 64
MIN_RATIO = 8


def run(module: Module) -> Module:
    sorts = [i for comp in module.computations() for i in comp.instrs if i.opcode == "sort" and i.shape.is_tuple]
    if not sorts:
        return module
    comparators = _Comparators(module)
    return map_computations(module, lambda comp: _simplified(comp, comparators))


def _simplified(comp: Computation, comparators: _Comparators) -> Computation:
    if not any(i.opcode == "sort" for i in comp.instrs):
        return comp
    users = comp.users()
    replace: dict[Instr, Instr] = {}
    for instr in comp.instrs:
        if instr.opcode == "sort" and instr.shape.is_tuple and instr is not comp.root:
            replace.update(_top_k(instr, users) or _unread(instr, users, comparators))
    return rebuild(comp, replace, drop_dead=True) if replace else comp


class _Comparators:
    """Comparators of fewer operands, each made once and with a name of its own in the module."""

    def __init__(self, module: Module) -> None:
        self._names = Names(comp.name for comp in module.computations())
        self._made: dict[tuple[Computation, tuple[int, ...]], Computation] = {}

    def narrowed(self, comparator: Computation, kept: tuple[int, ...]) -> Computation:
        """`comparator` without the parameters of operands that are not in `kept`."""
        if (comparator, kept) not in self._made:
            self._made[comparator, kept] = self._narrowed(comparator, kept)
        return self._made[comparator, kept]

    def _narrowed(self, comparator: Computation, kept: tuple[int, ...]) -> Computation:
        numbers = {comparator.params[2 * n + side]: 2 * place + side for place, n in enumerate(kept) for side in (0, 1)}
        dropped = set(comparator.params) - set(numbers)
        renumbered = {
            p: p.replace(attrs={**p.attrs, "parameter_number": number})
            for p, number in numbers.items()
            if p.attrs["parameter_number"] != number
        }
        instrs = tuple(i for i in comparator.instrs if i not in dropped)
        return rebuild(Computation(self._names.unique(comparator.name), instrs, comparator.root), renumbered)


def _parts(sort: Instr, users: dict[Instr, list[Instr]]) -> dict[int, list[Instr]] | None:
    """The get-tuple-elements that read each result; None where something else uses the sort."""
    found: dict[int, list[Instr]] = {}
    for user in users.get(sort, ()):
        if user.opcode != "get-tuple-element":
            return None
        found.setdefault(int(user.attrs["index"]), []).append(user)
    return found


def _unread(sort: Instr, users: dict[Instr, list[Instr]], comparators: _Comparators) -> dict[Instr, Instr]:
    """The sort without operands that do not matter."""
    parts, comparator = _parts(sort, users), sort.attrs["to_apply"]
    if parts is None:
        return {}
    used = {o for i in comparator.instrs for o in i.operands} | {comparator.root}
    kept = tuple(
        n
        for n in range(len(sort.operands))
        if n in parts or comparator.params[2 * n] in used or comparator.params[2 * n + 1] in used
    )
    if len(kept) == len(sort.operands) or not kept:
        return {}
    shapes = tuple(sort.shape.elements[n] for n in kept)
    new = sort.replace(
        operands=tuple(sort.operands[n] for n in kept),
        shape=shapes[0] if len(kept) == 1 else Shape("tuple", elements=shapes),
        attrs={**sort.attrs, "to_apply": comparators.narrowed(comparator, kept)},
    )
    if len(kept) == 1:
        return dict.fromkeys(parts.get(kept[0], ()), new)
    return {
        gte: make(gte, "get-tuple-element", gte.shape, (new,), index=kept.index(n))
        for n, found in parts.items()
        for gte in found
    }


def _top_k(sort: Instr, users: dict[Instr, list[Instr]]) -> dict[Instr, Instr]:
    """Slices of the sort replaced by slices of a topk of as many as any of them reads."""
    largest, parts = _descending(sort), _parts(sort, users)
    if largest is None or not parts or not _positions(sort):
        return {}
    slices = [s for found in parts.values() for gte in found for s in users.get(gte, ())]
    reads = [_prefix(s) for s in slices]
    limits = [k for k in reads if k is not None]
    if not slices or len(limits) < len(reads) or not 0 < max(limits) <= MAX_K:
        return {}
    values = sort.operands[0]
    k = max(limits)
    if sample(values.shape.dims[-1]) < MIN_RATIO * k:
        return {}
    dims: tuple[Dim, ...] = (*values.shape.dims[:-1], k)
    outs = tuple(array(dtype_of(o), dims) for o in sort.operands)
    best = make(sort, "topk", Shape("tuple", elements=outs), (values,), k=k, largest=largest)
    found = {}
    for index, gtes in parts.items():
        for gte in gtes:
            part = make(gte, "get-tuple-element", outs[index], (best,), index=index)
            for old, limit in zip(slices, reads):
                if old.operands[0] is gte:
                    found[old] = (
                        part
                        if limit == k
                        else old.replace(operands=(part,), attrs={"slice": (*old.attrs["slice"][:-1], (0, limit, 1))})
                    )
    return found


def _descending(sort: Instr) -> bool | None:
    """Whether the first of two operands decides, greater (True) or smaller (False) ones first, in total order."""
    comparator = sort.attrs["to_apply"]
    root = comparator.root
    if len(sort.operands) != 2 or root.opcode != "compare" or not sort.attrs["is_stable"]:
        return None
    total = root.attrs["type"] == "TOTALORDER" or dtype_of(sort.operands[0]).kind in ("int", "uint")
    direction = root.attrs["direction"]
    if not total or root.operands != comparator.params[:2] or direction not in ("GT", "LT"):
        return None
    return bool(direction == "GT")


def _positions(sort: Instr) -> bool:
    """The second operand numbers the elements along the sorted dimension, which is the last."""
    last = sort.operands[0].shape.rank - 1
    source, axis = sort.operands[1], last
    while source.opcode == "broadcast" and axis in source.attrs["dimensions"]:
        source, axis = source.operands[0], source.attrs["dimensions"].index(axis)
    iota = source.opcode == "iota" and source.attrs["iota_dimension"] == axis
    return iota and sort.attrs["dimensions"] == (last,) and dtype_of(source).name == "s32"


def _prefix(user: Instr) -> int | None:
    """How many elements of each line a slice reads, where it is of the first ones of all lines."""
    if user.opcode != "slice":
        return None
    *outer, (start, limit, stride) = user.attrs["slice"]
    whole = all((a, c) == (0, 1) and b == dim for (a, b, c), dim in zip(outer, user.operands[0].shape.dims))
    return limit if whole and (start, stride) == (0, 1) and isinstance(limit, int) else None


PASS = Pass("sort-simplifier", run)
