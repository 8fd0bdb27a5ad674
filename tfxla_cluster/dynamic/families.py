"""What is compiled for the modules that one function of the program has at its sizes: the policy.

The first module is compiled as it is. The next one of the same structure makes the dimensions that changed sizes, and
from then on the generic module serves wherever it is proven. What does not fit into one module is compiled as it is,
with the reason, and may make another generic module with the next of its kind: one for each residue class of a strided
convolution, for instance.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from ..ir import proto
from ..ir.dim import LEAST_GENERIC, Dim, DimExpr
from ..ir.node import Module
from . import pattern, prove, rows, unify
from .lowered import Lowered
from .misfit import SMALL_SIZES, Misfit, difference
from .pattern import Pattern
from .rows import Rows
from .unifier import Generic
from .unify import Limits


class Sample(Protocol):
    """A trace at other sizes."""

    def __call__(self, every: int = 0) -> Module | None:
        """The module there, None where there is none. every: at sizes further away, which leave the same by it."""
        ...


_MOST_FAMILIES = 256  # the least recently used goes first
_MOST_MODULES = 4  # of each structure that are kept to be unified with the next
_MOST_STRUCTURES = 16
_MOST_GENERIC = 8  # modules of a family that are tried


@dataclass(frozen=True)
class Told:
    """A size that another worker (`task`) has, at dimension `axis` of the input `of`, in words."""

    task: str
    of: str
    axis: int
    size: int

    def __str__(self) -> str:
        return f"{self.task} saw size {self.size} in dim {self.axis} of {self.of}"


@dataclass(frozen=True)
class Choice:
    """The module to compile, or to find compiled. generic: that it is one for many sizes; proofs: at how many it was
    proven besides those that it was made from. digest: of what it computes. misfit: why it is none, where an earlier
    module might have made it one. apart: why the same trace at other sizes makes none with it, where that was tried.
    refused: why it is none of the modules for many sizes that there were. told: what other workers have that made it
    one for many sizes. handed: the literals that it takes as its last parameters, as they are at these sizes."""

    module: Module
    generic: Generic | None = None
    proofs: int = 0
    digest: str = ""
    misfit: Misfit | None = None
    apart: Misfit | None = None
    refused: tuple[Misfit, ...] = ()
    told: tuple[Told, ...] = ()
    handed: tuple[np.ndarray, ...] = ()


@dataclass
class _Made:
    """pattern: of the module that `Families.learn` was told of."""

    generic: Generic
    digest: str
    proofs: int = 0
    pattern: Pattern | None = None

    def choice(self, module: Rows | None) -> Choice:
        """None: a module of which no literal is handed over."""
        handed = () if module is None else prove.handed_over(self.generic, module)
        return Choice(self.generic.module, self.generic, self.proofs, self.digest, handed=handed)


@dataclass
class _Family:
    """made: the newest first. seen: modules as they came, by structure, the newest last. refused: why no generic module
    of a structure can be compiled."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    made: list[_Made] = field(default_factory=list)
    seen: OrderedDict[str, list[Rows]] = field(default_factory=OrderedDict)
    refused: dict[str, str] = field(default_factory=dict)


class Families:
    """By name of the function; thread safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._families: OrderedDict[str, _Family] = OrderedDict()

    def knows(self, name: str, structure: str) -> bool:
        """Has it modules of this function and structure (`rows.structure`)?"""
        return structure in self._family(name).seen

    def restore(self, name: str, modules: Sequence[Module], limits: Limits) -> Generic | None:
        """Make the generic module that was made of these in another process; None where they make none here."""
        family, read = self._family(name), [rows.of_module(module) for module in modules]
        found = unify.unify(read, limits) if read else None
        if isinstance(found, Generic):
            with family.lock:
                family.seen.setdefault(rows.structure(read[-1]), read[-_MOST_MODULES:])
                family.made.append(_Made(found, digest(found.module)))
            return found
        return None

    def choose(
        self,
        name: str,
        module: Rows,
        limits: Limits = unify.NONE,
        samples: Sequence[Sample] = (),
        are_other_calls: bool = True,
    ) -> Choice:
        """For a module that was lowered at some sizes; `limits`: what is said about sizes.
        `samples` are asked for one after the other where no generic one serves. are_other_calls: the program runs that
        trace at these sizes too; where it does not, earlier modules tell more."""
        family = self._family(name)
        with family.lock:
            return _serving(family, module, limits) or _new(family, module, limits, samples, are_other_calls)

    def recognised(self, name: str, lowered: Lowered, limits: Limits = unify.NONE) -> Choice | None:
        """As `serving`, for a module that nobody has read yet, where its bytes are proof enough."""
        family = self._family(name)
        with family.lock:
            for made in family.made:
                if made.pattern is not None and _may_serve(made.generic, limits) and made.pattern.is_one(lowered):
                    made.proofs += 1
                    return made.choice(None)
        return None

    def learn(self, name: str, generic: Generic, lowered: Lowered) -> None:
        """This module is the generic one: others are recognised by it from now on."""
        family = self._family(name)
        with family.lock:
            for made in family.made:
                if made.generic is generic and made.pattern is None:
                    made.pattern = pattern.made(generic, lowered)

    def serving(self, name: str, module: Rows, limits: Limits = unify.NONE) -> Choice | None:
        """The generic module there is that is proven to be this one."""
        family = self._family(name)
        with family.lock:
            return _serving(family, module, limits)

    def refusals(self, name: str, module: Rows) -> list[Misfit]:
        """Why each generic module there is is not this one, the newest first; what is proven to be it has none."""
        family = self._family(name)
        with family.lock:
            return [misfit for made in family.made if (misfit := prove.parted(made.generic, module)) is not None]

    def refuse(self, name: str, generic: Generic, reason: str) -> None:
        """It cannot be compiled: modules of this structure are compiled as they are."""
        family = self._family(name)
        with family.lock:
            family.made = [made for made in family.made if made.generic is not generic]
            family.refused[rows.structure(rows.of_module(generic.origin[-1]))] = reason

    def _family(self, name: str) -> _Family:
        with self._lock:
            family = self._families.setdefault(name, _Family())
            self._families.move_to_end(name)
            while len(self._families) > _MOST_FAMILIES:
                self._families.popitem(last=False)
            return family


def _serving(family: _Family, module: Rows, limits: Limits) -> Choice | None:
    for made in family.made:
        if _may_serve(made.generic, limits) and prove.prove(made.generic, module):
            made.proofs += 1
            return made.choice(module)
    return None


def _may_serve(generic: Generic, limits: Limits) -> bool:
    """Nothing that may not vary is a size of it."""
    dims = (param.shape.dims for param in generic.module.entry.params)
    varying = {(k, axis) for k, of in enumerate(dims) for axis, dim in enumerate(of) if isinstance(dim, DimExpr)}
    return varying.isdisjoint(limits.static)


def _new(family: _Family, module: Rows, limits: Limits, samples: Sequence[Sample], are_other_calls: bool) -> Choice:
    """For a module that no generic one serves."""
    structure = rows.structure(module)
    sampled, found = None, None
    if not are_other_calls and structure in family.seen:
        found = _with_earlier(family, structure, module, limits)
    if not isinstance(found, Generic):
        sampled = _with_samples(family, structure, module, limits, samples)
        found = sampled if isinstance(sampled, Generic) else found or _with_earlier(family, structure, module, limits)
    apart = sampled if isinstance(sampled, Misfit) else None
    earlier = family.seen.setdefault(structure, [])
    family.seen.move_to_end(structure)
    earlier.append(module)
    del earlier[:-_MOST_MODULES]
    while len(family.seen) > _MOST_STRUCTURES:
        family.seen.popitem(last=False)
    if isinstance(found, Generic):
        family.made = [_Made(found, digest(found.module)), *family.made[: _MOST_GENERIC - 1]]
        return replace(family.made[0].choice(module), apart=apart)
    return Choice(module.module, digest=digest(module.module), misfit=found, apart=apart)


def alone(module: Module, reason: str = "") -> Choice:
    """A module as it is, and why it serves no other sizes."""
    return Choice(module, digest=digest(module), misfit=Misfit(None, reason) if reason else None)


def digest(module: Module) -> str:
    """Of what the module computes, as we write it: the bridge's bytes differ from process to process in the order of
    things, and names from trace to trace."""
    return hashlib.sha256(proto.write(module, named=False)).hexdigest()


def _with_samples(
    family: _Family, structure: str, module: Rows, limits: Limits, samples: Sequence[Sample]
) -> Generic | Misfit | None:
    """What it makes with the first of itself at other sizes that makes one, and with earlier modules where these tell
    more; None where there is no such module."""
    found: Generic | Misfit | None = None
    for sample in () if structure in family.refused else samples:
        other = sample()
        if other is None:
            continue
        read = rows.of_module(other)
        if _may_vary(read, module):
            others = _where_it_is_the_same(family.seen.get(structure, []), read, module)
            found = unify.unify([*others, read, module], limits) if others else None
            if isinstance(found, Generic):
                return found
            found = _with_sample(_of_trace(family, structure, module), sample, read, module, limits)
        if isinstance(found, Generic):
            break
    return found


def _where_it_is_the_same(earlier: Sequence[Rows], sample: Rows, module: Rows) -> list[Rows]:
    """Earlier modules that have other sizes where the sample has the module's, such as those of a variable that had
    another shape then."""
    same = [a == b for a, b in zip(_dims(sample), _dims(module))]
    return [
        one
        for one in earlier
        if _may_vary(one, module) and any(is_same and a != b for is_same, a, b in zip(same, _dims(one), _dims(module)))
    ]


def _dims(read: Rows) -> list[Dim]:
    """Of the parameters."""
    return [dim for param in read.module.entry.params for dim in param.shape.dims]


def _of_trace(family: _Family, structure: str, module: Rows) -> list[Rows]:
    """Earlier modules that may be of the same trace: none where one has the same sizes and is another module."""
    earlier = [m for m in family.seen.get(structure, ()) if _may_vary(m, module)]
    shapes = module.module.param_shapes
    return [] if any(m.module.param_shapes == shapes for m in earlier) else earlier


def _with_sample(earlier: list[Rows], sample: Sample, read: Rows, module: Rows, limits: Limits) -> Generic | Misfit:
    """With the sample; of what two modules do not tell for sure, or told wrongly before, with a further one. With all
    earlier modules where no literal varies then that does not without them: they may be of other traces."""
    found = unify.unify([read, module], limits)
    if isinstance(found, Generic) and (earlier or found.is_guess):
        further = sample(found.every)
        surer = None if further is None else unify.unify([rows.of_module(further), read, module], limits)
        found = surer if isinstance(surer, Generic) else found
    joined = unify.unify([*earlier, read, module], limits) if earlier else found
    if isinstance(joined, Misfit) or (isinstance(found, Generic) and joined.literals.keys() - found.literals.keys()):
        return found
    return joined


def _with_earlier(family: _Family, structure: str, module: Rows, limits: Limits) -> Generic | Misfit | None:
    """What it makes with earlier modules of its structure; None for the first module of the family."""
    if structure in family.refused:
        return Misfit(None, family.refused[structure])
    if structure not in family.seen:
        return _parted(family, module) if family.seen else None
    return _unified([m for m in family.seen[structure] if _may_vary(m, module)], module, limits)


def _parted(family: _Family, module: Rows) -> Misfit:
    """Where it parts from the latest one of another structure that may be compiled with it."""
    latest = (one for some in reversed(family.seen.values()) for one in reversed(some) if _may_vary(one, module))
    other = next(latest, None)
    return SMALL_SIZES if other is None else difference([other, module])


def _may_vary(earlier: Rows, module: Rows) -> bool:
    """No size that differs is one that is always compiled for itself."""
    pairs = zip(earlier.module.entry.params, module.module.entry.params)
    dims = ((a, b) for one, two in pairs for a, b in zip(one.shape.dims, two.shape.dims) if a != b)
    return all(isinstance(d, int) and d >= LEAST_GENERIC for pair in dims for d in pair)


def _unified(earlier: list[Rows], module: Rows, limits: Limits) -> Generic | Misfit:
    """With all earlier modules, or with the last of them alone: they may be of several kinds."""
    found: Generic | Misfit = SMALL_SIZES
    for some in [earlier, earlier[-1:]][: len(earlier)]:
        found = unify.unify([*some, module], limits)
        if isinstance(found, Generic):
            break
    return found
