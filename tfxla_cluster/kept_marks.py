"""What marks on sizes ask for is kept, or it is said which line of the program stands against it."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .dynamic import prove
from .dynamic.families import Choice
from .dynamic.rows import Rows
from .dynamic.sources import Place
from .errors import ConstraintError, LoweringError, UsageError
from .ir.dim import LEAST_GENERIC
from .ir.shape import Shape
from .locks import ForkSafeLock
from .size_spec import How

if TYPE_CHECKING:  # not at run time: `enable` may run within the import of tensorflow
    from .tf.compiler_port import CompileRequest, Trace

_REMEMBERED = 256  # traces: those that came first are forgotten
_REMEDY = "Make it the same program at each size (tf.shape(x) in place of x.shape), or use maybe_mark_dynamic"


def must_vary(shapes: Sequence[Shape], request: CompileRequest) -> frozenset[Place]:
    """Dimensions that are marked dynamic and have a size that may be one of several in an executable; `shapes`: of the
    module's parameters."""
    return frozenset(
        place
        for place, mark in request.marks.items()
        if mark.how is How.DYNAMIC and place[0] not in request.integers
        for size in [_size(shapes, place)]
        if size is not None and size >= LEAST_GENERIC and size in mark.size and not mark.size.is_one
    )


def _size(shapes: Sequence[Shape], place: Place) -> int | None:
    number, axis = place
    dim = shapes[number].dims[axis]
    return dim if isinstance(dim, int) else None


def special(shapes: Sequence[Shape], request: CompileRequest) -> str:
    """Which predicates of marks are true of the sizes, in words; ConstraintError where one fails."""
    return ", ".join(_special(shapes, request))


def _special(shapes: Sequence[Shape], request: CompileRequest) -> Iterator[str]:
    for place, mark in sorted(request.marks.items(), key=lambda item: item[0]):
        size = _size(shapes, place)
        if size is None:
            continue
        try:
            yield from (f"{request.named[place[0]]}:{place[1]} #{number}" for number in mark.size.case(size))
        except UsageError as error:
            raise ConstraintError(f"{_words(place, request)}: {error.message}", error.remedy, error.where) from error


def keep_ties(shapes: Sequence[Shape], request: CompileRequest) -> None:
    """ConstraintError where sizes that are marked with one name differ."""
    first: dict[str, Place] = {}
    for place, mark in sorted(request.marks.items(), key=lambda item: item[0]):
        if mark.how is How.DYNAMIC and mark.size.name:
            other = first.setdefault(mark.size.name, place)
            sizes = _size(shapes, other), _size(shapes, place)
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
    compiled = None if choice.generic is None else choice.generic.module.param_shapes
    for place in sorted(strict) if choice.apart is not None else ():
        if compiled is None or _size(compiled, place) is not None:
            misfit = choice.apart
            assert misfit is not None
            nodes = sorted(misfit.instr.sources) if misfit.instr is not None else []
            where = next((request.lines[node] for node in nodes if node in request.lines), "")
            raise ConstraintError(f"{_marked(place, request)}: {misfit}", _REMEDY, where or request.place() or "")


@dataclass(frozen=True)
class _First:
    """The first trace of a function, of those in which all but the marked sizes is the same. kept: digests of the
    modules for many sizes that are proven to be it too."""

    trace: Trace
    read: Rows
    lines: Mapping[str, str]
    kept: set[str] = field(default_factory=set)


class MarkedTraces:
    """Whether Python makes one program of a function at all marked sizes: a trace that reads its size tells nothing of
    others, but the next trace does. Thread safe."""

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._first: OrderedDict[Hashable, _First] = OrderedDict()

    def check(self, strict: frozenset[Place], read: Rows, request: CompileRequest, choice: Choice) -> None:
        """ConstraintError where what is chosen is not the function's first trace too, and its operations are others.
        Where they are the same, it is lowering that takes turns with the sizes (windows with strides): each residue
        class has an executable."""
        trace = request.traced() if strict else None
        if trace is None:
            return
        with self._lock:
            key = _but_for_sizes(trace, strict, read.module.param_shapes, request)
            first = self._first.setdefault(key, _First(trace, read, request.lines))
            if len(self._first) > _REMEMBERED:
                self._first.popitem(last=False)
        if first.read is read or choice.digest in first.kept:
            return
        if choice.generic is not None and prove.prove(choice.generic, first.read):
            first.kept.add(choice.digest)
        else:
            _compare(first, _First(trace, read, request.lines), strict, request)

    def forget(self) -> None:
        """All traces."""
        with self._lock:
            self._first.clear()


def _but_for_sizes(
    trace: Trace, strict: frozenset[Place], shapes: Sequence[Shape], request: CompileRequest
) -> Hashable:
    """What traces of a function share that are to be one program."""
    dims = tuple(
        tuple(None if (number, axis) in strict else dim for axis, dim in enumerate(shape.dims))
        for number, shape in enumerate(shapes)
    )
    asked = tuple(guard for guard in request.guards if guard.kind != "equal")
    return trace.function, request.device, special(shapes, request), asked, tuple(request.python.items()), dims


def _compare(first: _First, now: _First, strict: frozenset[Place], request: CompileRequest) -> None:
    """ConstraintError for the first operation that only one of the traces has, else for one that takes others."""
    pairs = ((now, first), (first, now))
    alone = ((one, other, at) for one, other in pairs for at in one.trace.nodes if at not in other.trace.nodes)
    changed = ((now, first, at) for at, what in now.trace.nodes.items() if first.trace.nodes.get(at) != what)
    found = next(itertools.chain(alone, changed), None)
    if found is None:
        return
    one, other, at = found
    places = [
        p for p in sorted(strict) if _size(one.read.module.param_shapes, p) != _size(other.read.module.param_shapes, p)
    ]
    if places:
        here, there = (_size(trace.read.module.param_shapes, places[0]) for trace in (one, other))
        what = f"{one.trace.nodes[at][0]} '{at[1]}'"
        takes = at in other.trace.nodes
        said = (
            f"{what} takes others at {here} than at {there}" if takes else f"{what} is in it at {here}, not at {there}"
        )
        where = one.lines.get(at[1], "") or request.place() or ""
        raise ConstraintError(f"{_marked(places[0], request)}: {said}", _REMEDY, where)


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
