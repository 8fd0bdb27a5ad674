"""Modules of one program at several sizes --> one module with named sizes, or why there is none.

    f32[31,7] slice(x), slice={[1:32], [0:7]}
    f32[47,7] slice(x), slice={[1:48], [0:7]}     -->     f32[s0-1,7] slice(x), slice={[1:s0], [0:7]}

Which dimensions of the arguments are sizes, and what has to be assumed of these, is found here; the modules are walked
by `unifier`. Whether the result is right at one more size is proven there (`prove`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..errors import VerifierError
from ..ir import verifier
from ..ir.dim import LEAST_GENERIC, Dim
from ..size_spec import ANY, Size
from .fit import Assumed, Sizes, Vector, assumptions, weaker_assumptions
from .misfit import SMALL_SIZES, Misfit, difference, numbers
from .rows import Rows, structure
from .unifier import Generic, Parted, Unifier

_MOST_BOUNDS = 2  # that are tried of a size
_LEAST_ATTEMPTS, _MOST_ROWS = 6, 100_000  # at modules, and of all attempts


@dataclass(frozen=True)
class Limits:
    """What is said about dimensions of parameters, by (parameter, axis). static: why one may not vary. sizes: what the
    size of one is. hands: literals may be handed over when the module runs (`forms.Handed`)."""

    static: Mapping[tuple[int, int], str] = field(default_factory=dict)
    sizes: Mapping[tuple[int, int], Size] = field(default_factory=dict)
    hands: bool = False


NONE = Limits()
"""Nothing is said."""


def unify(modules: Sequence[Rows], limits: Limits = NONE) -> Generic | Misfit:
    """One module for two or more that were lowered at different sizes; the last gives the samples.

    A dimension of a parameter that varies, and may, is a size of its own, with the name and range that `limits` says;
    where that does not hold together, one that follows smaller ones is an expression over them.
    """
    if any(structure(rows) != structure(modules[0]) for rows in modules[1:]):
        return difference(modules)
    vectors = _parameter_vectors(modules)
    refused = _over_limits(modules, limits)
    if refused is not None:
        return refused
    varying = list(dict.fromkeys(vector for row in vectors for vector in row if len(set(vector)) > 1))
    if not varying:
        return numbers(modules)
    if any(min(vector) < LEAST_GENERIC for vector in varying):
        return SMALL_SIZES
    said = _said(modules, limits)
    refusal: Misfit | None = None
    for free in _fewer_and_fewer(varying):
        found = _unified(modules, free, said, limits.hands)
        if isinstance(found, Generic):
            return found
        refusal = refusal or found
    assert refusal is not None
    return refusal


def _at_place(modules: Sequence[Rows], place: tuple[int, int]) -> tuple[Dim, ...]:
    """What each module has there."""
    number, axis = place
    return tuple(rows.module.entry.params[number].shape.dims[axis] for rows in modules)


def _over_limits(modules: Sequence[Rows], limits: Limits) -> Misfit | None:
    """A dimension that varies and may not, or that leaves its range."""
    params = modules[-1].module.entry.params
    for place, reason in limits.static.items():
        dims = tuple(map(str, _at_place(modules, place)))
        if len(set(dims)) > 1:
            return Misfit(params[place[0]], f"dimension {place[1]} may not vary ({reason})", dims)
    for place, size in limits.sizes.items():
        found = _at_place(modules, place)
        if len(set(found)) > 1 and any(isinstance(dim, int) and dim not in size for dim in found):
            return Misfit(params[place[0]], f"dimension {place[1]} leaves {size}", tuple(map(str, found)))
    return None


def _said(modules: Sequence[Rows], limits: Limits) -> dict[Vector, Size]:
    """What is said of the size with these numbers: the first name, and all ranges."""
    said: dict[Vector, Size] = {}
    for place, size in limits.sizes.items():
        vector = tuple(dim for dim in _at_place(modules, place) if isinstance(dim, int))
        said[vector] = said[vector].joined(size) if vector in said else size
    return said


def _parameter_vectors(modules: Sequence[Rows]) -> list[list[Vector]]:
    """Of each parameter, the numbers of each of its dimensions; none of one that has no numbers."""
    params = zip(*(rows.module.entry.params for rows in modules))
    found = ([tuple(dims) for dims in zip(*(p.shape.dims for p in peers))] for peers in params)
    return [[dims for dims in row if all(isinstance(d, int) for d in dims)] for row in found]


def _fewer_and_fewer(vectors: list[Vector]) -> Iterator[list[Vector]]:
    """All; without those that are a multiple of smaller ones, or of a product of these; or so but for a small shift."""
    kept = vectors
    yield kept
    for shifted in (False, True):
        fewer: list[Vector] = []
        for vector in sorted(vectors):
            if not fewer or not Sizes(fewer).follows(vector, shifted):
                fewer.append(vector)
        if len(fewer) < len(kept):
            kept = fewer
            yield kept


def _unified(
    modules: Sequence[Rows], vectors: Sequence[Vector], said: Mapping[Vector, Size], hands: bool
) -> Generic | Misfit:
    """Verified; where that needs it for no sizes below those that the modules have, or for those of a residue class;
    and only where that does not help either by expressions that are less sure."""
    refusal: Misfit | None = None
    skipped = False
    for guesses in (False, True):
        attempts = ((assumed, of) for assumed in assumptions(vectors) for of in _bounded(modules, vectors, said))
        for assumed, of in itertools.islice(attempts, _attempts(modules)):
            made = _verified(modules, Sizes(vectors, assumed, of), hands, guesses)
            if isinstance(made, Generic):
                return _loosened(modules, vectors, assumed, of, hands, guesses) or made
            refusal = refusal or made.misfit
            skipped = skipped or made.skipped
            if not made.for_some_sizes:
                return refusal
        if not skipped:
            break
    assert refusal is not None
    return refusal


def _bounded(
    modules: Sequence[Rows], vectors: Sequence[Vector], said: Mapping[Vector, Size]
) -> Iterator[Mapping[Vector, Size]]:
    """What is said, and then that sizes are at most as large as something that does not vary, the largest of a few
    first: a table of which as many rows are taken, the steps of a slice that takes as many rows of all."""
    yield said
    rows = [row.instr for body in modules[-1].bodies for row in body.rows]
    fixed = {dim for i in rows if i.opcode in ("parameter", "constant") for dim in i.shape.dims if isinstance(dim, int)}
    fixed -= {vector[-1] for vector in vectors}
    fixed |= {
        dim * stride
        for i in rows
        if i.opcode == "slice"
        for dim, (_, _, stride) in zip(i.shape.dims, i.attrs["slice"])
        if isinstance(dim, int) and stride > 1
    }
    bounds = {vector: sorted(n for n in fixed if n >= max(vector))[:_MOST_BOUNDS][::-1] for vector in vectors}
    for number in range(max(map(len, bounds.values()))):
        most = {vector: Size(max=of[min(number, len(of) - 1)]) for vector, of in bounds.items() if of}
        yield {**said, **{vector: said.get(vector, ANY).joined(size) for vector, size in most.items()}}


def _attempts(modules: Sequence[Rows]) -> int:
    """How often modules are walked: seldom where that takes long."""
    return max(_LEAST_ATTEMPTS, _MOST_ROWS // sum(len(body.rows) for body in modules[-1].bodies))


def _verified(modules: Sequence[Rows], sizes: Sizes, hands: bool, guesses: bool) -> Generic | Parted:
    """Or where they part."""
    try:
        made = Unifier(modules, sizes, hands, guesses).generic()
        verifier.verify(made.module)
    except Parted as parted:
        return parted
    except VerifierError as error:
        return Parted(Misfit(None, f"not right at all sizes: {error.message}"), True)
    return made


def _loosened(
    modules: Sequence[Rows],
    vectors: Sequence[Vector],
    assumed: Sequence[Assumed],
    said: Mapping[Vector, Size],
    hands: bool,
    guesses: bool,
) -> Generic | None:
    """With less assumed: from smaller sizes on, each size of no residue class. None where all has to be."""
    found, kept = None, list(assumed)
    for weaker in itertools.islice(weaker_assumptions(kept), _attempts(modules)):  # follows what becomes of `kept`
        made = _verified(modules, Sizes(vectors, weaker, said), hands, guesses)
        if isinstance(made, Generic):
            found, kept[:] = made, weaker
    return found
