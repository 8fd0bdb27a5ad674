"""One fused computation as one loop program: its iteration space, row structure and loads.

`analyse` walks the index maps from every output and finds
* the digits (loop variables) of the space, split where a reshape needs parts of a dimension;
* the row structure when there are reductions: every reduce must keep the same digits (`kept`: what
  a row is) and combine the same others (`reduced`: what a row runs over), so that a kernel can hold a
  row and go over it once a level;
* groups of digits that always stand together, each of which becomes one long loop.
It raises UnsupportedError with the reason where the computation is no such program.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..errors import UnsupportedError
from ..ir.dim import Dim, product
from ..ir.node import Computation, Instr
from ..ir.polynomial import same
from .index import Access, Atom, Computed, Digit, Index, Refiner, Seq, Splitter, flatten, regroup
from .moves import sources, update_target

Group = tuple[Digit, ...]
MAX_RESTARTS = 32
MAX_ACCESSES = 20_000


@dataclass(frozen=True)
class Program:
    """`params`, `instrs`: what is read, and what is computed. `roots`: the access of each output, whose
    index is made of the space's digits. `levels`: the reduces in the order their results are needed; those
    of one level share a pass over the row.
    `space`: the index of the element that the first reduce combines (else of the first output).
    `stores`: where each output's element goes (the root's index, but for an update in place).
    `groups`: in the order of `space`, then digits of other outputs; `accesses`: every element of every
    instruction that is needed; `loads`: those of parameters.
    """

    params: tuple[Instr, ...]
    instrs: tuple[Instr, ...]
    roots: tuple[Access, ...]
    stores: tuple[Index, ...]
    space: Seq
    kept: Seq
    reduced: Seq
    levels: tuple[tuple[Instr, ...], ...]
    groups: tuple[Group, ...]
    accesses: tuple[Access, ...]
    loads: tuple[Access, ...]

    @property
    def rows_only(self) -> bool:
        """Every output is a value a row."""
        kept = set(self.kept)
        return all(atom in kept for root in self.roots for atom in flatten(root.index))

    def groups_of(self, seq: Seq) -> list[Group]:
        """The groups that make up a sequence of plain digits."""
        heads: dict[Atom, Group] = {group[0]: group for group in self.groups}
        found: list[Group] = []
        position = 0
        while position < len(seq):
            group = heads.get(seq[position])
            if group is None or tuple(seq[position : position + len(group)]) != group:
                raise UnsupportedError("an output's index is not made of whole loops")
            found.append(group)
            position += len(group)
        return found

    def reduce_sources(self, access: Access) -> tuple[Access, ...]:
        """The accesses to the operands of a reduce (arrays at the row's digits, then initial values)."""
        instr = access.instr
        count = len(instr.operands) // 2
        index = reduce_index(instr, self.kept, self.reduced, Splitter())
        arrays = tuple(Access(o, index, access.mask) for o in instr.operands[:count])
        return arrays + tuple(Access(o, (), ()) for o in instr.operands[count:])


def extent_of(digits: Seq) -> Dim:
    return product(d.extent for d in digits)


def reduce_index(instr: Instr, kept: Seq, reduced: Seq, splitter: Splitter) -> Index:
    """The index of the operand element of a reduce, from the row's digits."""
    dims, axes = instr.operands[0].shape.dims, set(instr.attrs["dimensions"])
    outer = iter(regroup(kept, tuple(d for a, d in enumerate(dims) if a not in axes), splitter))
    inner = iter(regroup(reduced, tuple(d for a, d in enumerate(dims) if a in axes), splitter))
    return tuple(next(inner if axis in axes else outer) for axis in range(len(dims)))


def analyse(comp: Computation, update: Instr | None = None) -> Program:
    """The loop program of a fused computation; UnsupportedError says why there is none.

    `update`: a dynamic-update-slice, the root, to do in place: the program is that of its update,
    stored where it goes.
    """
    outputs = (update.operands[1],) if update is not None else output_instrs(comp)
    inside = tuple(i for i in comp.instrs if i.opcode not in ("parameter", "tuple"))
    return _Analysis(outputs, inside, comp.params, update).run()


def analyse_parts(outputs: Sequence[Instr], inside: Sequence[Instr]) -> Program:
    """The loop program of instructions of a larger computation; whatever else they use is read."""
    return _Analysis(tuple(outputs), tuple(inside), (), None).run()


def output_instrs(comp: Computation) -> tuple[Instr, ...]:
    """The instructions whose values leave the computation."""
    return comp.root.operands if comp.root.opcode == "tuple" else (comp.root,)


class _Analysis(Refiner):
    """Walks until no digit needs splitting any more."""

    def __init__(
        self, outputs: tuple[Instr, ...], inside: tuple[Instr, ...], params: tuple[Instr, ...], update: Instr | None
    ) -> None:
        self.outputs, self.instrs, self.params, self.update = outputs, inside, params, update
        self.inside = set(inside)
        super().__init__()
        self.reduces = [i for i in inside if i.opcode == "reduce"]
        self.kept: Seq = ()
        self.reduced: Seq = ()
        if self.reduces:
            hero = self.reduces[0]
            dims, axes = hero.operands[0].shape.dims, set(hero.attrs["dimensions"])
            self.kept = flatten(digits(tuple(d for a, d in enumerate(dims) if a not in axes), "k"))
            self.reduced = flatten(digits(tuple(d for a, d in enumerate(dims) if a in axes), "r"))
        self.fresh: dict[Instr, Index] = {}
        self.accesses: dict[Access, None] = {}
        self.runs: dict[Seq, None] = {}
        self.reached: dict[Instr, dict[Instr, None]] = {}

    def run(self) -> Program:
        for _ in range(MAX_RESTARTS):
            self.changed = False
            self.accesses, self.runs, self.reached = {}, {}, {}
            self.kept, self.reduced = self.expand(self.kept), self.expand(self.reduced)
            roots = tuple(Access(r, self._root_index(r)) for r in self.outputs)
            stores = tuple(self._store_index(r) for r in roots)
            for root, store in zip(roots, stores):
                found = [root]
                self._use(flatten(store), found)
                self._walk(found, self.accesses)
            for reduce in self.reduces:
                self.runs[self.kept] = self.runs[self.reduced] = None
                seen: dict[Access, None] = {}
                self.reached[reduce] = self._walk(self._reduce_sources(Access(reduce, ())), seen)
                self.accesses.update(seen)
            if not self.changed:
                return self._program(roots, stores)
        raise UnsupportedError("reshapes split the loops too often")

    def _root_index(self, root: Instr) -> Index:
        """Rows where the output is a value a row, the space where it has as many elements, else its own."""
        dims = root.shape.dims
        count = product(dims)
        if self.reduces and same(count, extent_of(self.kept)):
            return regroup(self.kept, dims, self)
        if self.reduces:
            hero = self.reduces[0]
            space = flatten(reduce_index(hero, self.kept, self.reduced, self))
        else:
            first = self.outputs[0]
            space = flatten(self._own_index(first))
        if same(count, extent_of(space)):
            return regroup(space, dims, self)
        if not self.reduces:
            raise UnsupportedError(f"outputs differ in number of elements ({root.name})")
        raise UnsupportedError(f"an output is neither a row nor a value a row ({root.name})")

    def _store_index(self, root: Access) -> Index:
        return root.index if self.update is None else update_target(self.update, root.index)

    def _own_index(self, root: Instr) -> Index:
        if root not in self.fresh:
            self.fresh[root] = digits(root.shape.dims, "i")
        return tuple(self.expand(seq) for seq in self.fresh[root])

    # --- walking ---
    def _reduce_sources(self, access: Access) -> tuple[Access, ...]:
        instr = access.instr
        count = len(instr.operands) // 2
        extents = product(instr.operands[0].shape.dims[a] for a in instr.attrs["dimensions"])
        if not same(extents, extent_of(self.reduced)):
            raise UnsupportedError(f"reduces run over different extents ({instr.name})")
        if not same(product(instr.operands[0].shape.dims), product((extents, extent_of(self.kept)))):
            raise UnsupportedError(f"reduces keep different rows ({instr.name})")
        index = reduce_index(instr, self.kept, self.reduced, self)
        return (
            *(Access(o, index, access.mask) for o in instr.operands[:count]),
            *(Access(o, (), ()) for o in instr.operands[count:]),
        )

    def _walk(self, start: Sequence[Access], seen: dict[Access, None]) -> dict[Instr, None]:
        """Notes all accesses that `start` leads to, except through `seen` ones; gives the reduces reached."""
        todo = [access for access in start if access not in seen]
        seen.update(dict.fromkeys(todo))
        reached: dict[Instr, None] = {}
        while todo:
            for source in self._step(todo.pop(), reached):
                if source not in seen:
                    seen[source] = None
                    todo.append(source)
            if len(seen) > MAX_ACCESSES:
                raise UnsupportedError("elements are computed too often")
        return reached

    def _step(self, access: Access, reached: dict[Instr, None]) -> list[Access]:
        """The accesses that `access` needs; notes loads, reduces and the runs of digits it uses."""
        instr = access.instr
        found: list[Access] = []
        for cond in access.mask:
            self._use(cond.seq, found)
        if instr not in self.inside:
            self._use(flatten(access.index), found)
            return found
        if instr.opcode == "get-tuple-element":
            instr = instr.operands[0]
        if instr.opcode == "reduce":
            if flatten(access.index) != self.kept:
                raise UnsupportedError(f"{instr.name} is not used row by row")
            reached[instr] = None
            return found
        if instr.opcode == "iota":
            self._use(access.index[instr.attrs["iota_dimension"]], found)
        sources_ = sources(access, self)
        for source in sources_:
            for seq in source.index:
                self._use_computed(seq, found)
        return found + list(sources_)

    def _use(self, seq: Seq, found: list[Access]) -> None:
        """`seq` is turned into a number: note its runs of digits, and what computed digits need."""
        self.runs[seq] = None
        self._use_computed(seq, found)

    def _use_computed(self, seq: Seq, found: list[Access]) -> None:
        for atom in seq:
            if isinstance(atom, Computed):
                self._use(atom.seq, found)
                if atom.start is not None:
                    found.append(atom.start)

    # --- results ---
    def _program(self, roots: tuple[Access, ...], stores: tuple[Index, ...]) -> Program:
        if self.reduces:
            hero = self.reduces[0]
            space = flatten(reduce_index(hero, self.kept, self.reduced, self))
        else:
            space = flatten(roots[0].index)
        self.runs[space] = None  # kernels go over it loop by loop, even where nothing is read at its index
        every = dict.fromkeys((*space, *(d for r in roots for d in flatten(r.index))))
        groups = tuple(runs_together(every, self.runs))
        return Program(
            self.params,
            self.instrs,
            roots,
            stores,
            space,
            self.kept,
            self.reduced,
            self._levels(),
            groups,
            tuple(self.accesses),
            tuple(a for a in self.accesses if a.instr not in self.inside),
        )

    def _levels(self) -> tuple[tuple[Instr, ...], ...]:
        level: dict[Instr, int] = {}

        def visit(reduce: Instr) -> int:
            if reduce not in level:
                level[reduce] = 1 + max(map(visit, self.reached[reduce]), default=-1)
            return level[reduce]

        for reduce in self.reduces:
            visit(reduce)
        count = 1 + max(level.values(), default=-1)
        return tuple(tuple(r for r in self.reduces if level[r] == n) for n in range(count))


def digits(dims: tuple[Dim, ...], hint: str) -> Index:
    """A fresh digit for each dimension but those of extent 1."""
    return tuple(() if dim == 1 else (Digit(dim, hint),) for dim in dims)


def runs_together(order: Iterable[Atom], runs: dict[Seq, None]) -> Iterator[Group]:
    """Maximal runs of digits that stand together, in order, in every use of any of them."""
    after: dict[Digit, Atom | None] = {}
    before: dict[Digit, Atom | None] = {}
    for run in runs:
        for position, atom in enumerate(run):
            if isinstance(atom, Digit):
                following = run[position + 1] if position + 1 < len(run) else None
                previous = run[position - 1] if position else None
                after[atom] = following if after.get(atom, following) is following else None
                before[atom] = previous if before.get(atom, previous) is previous else None
    done: set[Digit] = set()
    for digit in order:
        if not isinstance(digit, Digit) or digit in done:
            continue
        group = [digit]
        while True:
            following = after.get(group[-1])
            if not isinstance(following, Digit) or before.get(following) is not group[-1]:
                break
            if following in done or following in group:
                break
            group.append(following)
        done.update(group)
        yield tuple(group)
