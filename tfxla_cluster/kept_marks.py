"""What marks on sizes ask for is kept, or it is said which line of the program stands against it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from .dynamic.families import Choice
from .dynamic.sources import Place
from .errors import ConstraintError, LoweringError, UsageError
from .ir.dim import LEAST_GENERIC
from .ir.node import Module
from .size_spec import How

if TYPE_CHECKING:  # not at run time: `enable` may run within the import of tensorflow
    from .tf.compiler_port import CompileRequest

_REMEDY = "Make it the same program at each size (tf.shape(x) in place of x.shape), or use maybe_mark_dynamic"


def must_vary(module: Module, request: CompileRequest) -> frozenset[Place]:
    """Dimensions that are marked dynamic and have a size that may be one of several in an executable."""
    return frozenset(
        place
        for place, mark in request.marks.items()
        if mark.how is How.DYNAMIC and place[0] not in request.integers
        for size in [_size(module, place)]
        if size is not None and size >= LEAST_GENERIC and size in mark.size and not mark.size.is_one
    )


def _size(module: Module, place: Place) -> int | None:
    number, axis = place
    dim = module.entry.params[number].shape.dims[axis]
    return dim if isinstance(dim, int) else None


def special(module: Module, request: CompileRequest) -> str:
    """Which predicates of marks are true of the sizes, in words; ConstraintError where one fails."""
    return ", ".join(_special(module, request))


def _special(module: Module, request: CompileRequest) -> Iterator[str]:
    for place, mark in sorted(request.marks.items(), key=lambda item: item[0]):
        size = _size(module, place)
        if size is None:
            continue
        try:
            yield from (f"{request.named[place[0]]}:{place[1]} #{number}" for number in mark.size.case(size))
        except UsageError as error:
            raise ConstraintError(f"{_words(place, request)}: {error.message}") from error


def keep_ties(module: Module, request: CompileRequest) -> None:
    """ConstraintError where sizes that are marked with one name differ."""
    first: dict[str, Place] = {}
    for place, mark in sorted(request.marks.items(), key=lambda item: item[0]):
        if mark.how is How.DYNAMIC and mark.size.name:
            other = first.setdefault(mark.size.name, place)
            sizes = _size(module, other), _size(module, place)
            if sizes[0] != sizes[1]:
                raise ConstraintError(
                    f"'{mark.size.name}' is {sizes[0]} by {_words(other, request)} and {sizes[1]} by "
                    f"{_words(place, request)}",
                    "Sizes that may differ have names of their own",
                    request.place() or "",
                )


def keep_marks(strict: Collection[Place], request: CompileRequest, choice: Choice) -> None:
    """ConstraintError where one of these dimensions is a number in what is compiled, as the trace at other sizes is
    another program. Nothing where the trace could not be had at others: a further size will tell."""
    for place in sorted(strict) if choice.apart is not None else ():
        if choice.generic is None or _size(choice.generic.module, place) is not None:
            misfit = choice.apart
            assert misfit is not None
            nodes = sorted(misfit.instr.sources) if misfit.instr is not None else []
            where = next((request.lines[node] for node in nodes if node in request.lines), "")
            raise ConstraintError(f"{_marked(place, request)}: {misfit}", _REMEDY, where or request.place() or "")


def not_at(sizes: Mapping[Place, int], request: CompileRequest, error: LoweringError) -> ConstraintError:
    """The error for a program that does not lower at these sizes, which are marked."""
    place = min(sizes)
    return ConstraintError(
        f"{_marked(place, request)}: at {sizes[place]} it fails ({error.message})", _REMEDY, error.where
    )


def _words(place: Place, request: CompileRequest) -> str:
    return f"dimension {place[1]} of {request.inputs[place[0]]}"


def _marked(place: Place, request: CompileRequest) -> str:
    return f"{_words(place, request)} is marked dynamic, but the program is another one at other sizes"
