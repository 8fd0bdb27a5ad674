"""Why a function is compiled again: its earlier compilations, the closest of them, where this one differs from that,
and what would have made one executable of both. It is what the records `compile` say of it."""

from __future__ import annotations

import functools
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from . import compile_records, dynamic_policy, dynamic_records, flag_options, size_spec
from .dynamic import sources
from .dynamic.families import Choice
from .dynamic.misfit import PARTED, Misfit
from .ir import guard
from .ir.dim import LEAST_GENERIC, DimExpr
from .locks import ForkSafeLock

if TYPE_CHECKING:  # not at run time: `enable` may run within the import of tensorflow
    from .tf.compiler_port import CompileRequest

_REMEMBERED = 10_000  # functions; the one that came first goes first
EARLIER = 64
"""The latest compilations of a function, which are remembered: each later one is held against them."""
_PROGRAM = "hlo"  # the fact of a key that is the program itself
_NAMED = re.compile(r"(?P<noun>[\w ]+) '(?P<name>.*)'", re.DOTALL)
_PASSED = "argument"
_LISTED = frozenset({_PASSED, "value"})  # what a list of sources may name; variables are static
_NUMBER = re.compile(r"[-+]?(\d[\d_.e+-]*|inf|nan)|True|False")
_RELEASED = {
    sources.LISTED_STATIC: "take the input out of --tfxla_static_sources",
    sources.ASKED_STATIC: "leave out dynamic=False",
    sources.VARIABLE: "--tfxla_dynamic_variables",
    sources.CONSTANT: "pass it as an argument, or --tfxla_dynamic_variables",
    sources.MARKED_STATIC: "leave out mark_static",
}


@dataclass(frozen=True)
class Compilation:
    """id: the number of its module's files. where: `file:line` of its function, '' unknown. key: of the cache,
    before tuning. sizes: of one for many, by (input in words, axis)."""

    id: int | None
    where: str
    guards: tuple[guard.Guard, ...]
    key: tuple[guard.Guard, ...]
    generic: bool
    sizes: Mapping[tuple[str, int], DimExpr] = field(default_factory=dict)

    @functools.cached_property
    def sets(self) -> tuple[frozenset[guard.Guard], frozenset[guard.Guard]]:
        """The guards and the key; hashed once, as each is held against all that come later."""
        return frozenset(self.guards), frozenset(self.key)


class History:
    """Compilations by function of the program; thread safe."""

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._compiled: dict[str, deque[Compilation]] = {}

    def note(
        self, request: CompileRequest, key: tuple[guard.Guard, ...], choice: Choice, number: int | None
    ) -> dict[str, Any]:
        """The fields of record `compile` that tell why this one is made: `reason` and, where it is not the function's
        first, `closest`, `changed`, `apart`, `remedies`.

        A function is what has one name and begins at one line."""
        family = request.family or request.name
        python = tuple(guard.Guard("python", name, value) for name, value in request.python.items())
        generic, sizes = choice.generic is not None, _sizes(request, choice)
        made = Compilation(number, request.place() or "", (*request.guards, *python), key, generic, sizes)
        closest = self._closest(family, made)
        if closest is None:
            return {
                "reason": "; ".join(["first compilation of this function", *(for_all(choice) if choice.told else [])])
            }
        changed = [
            *guard.changes(closest.guards, made.guards, request.names),
            *(c for c in guard.changes(closest.key, key) if c.of != _PROGRAM),
        ]
        changed = _reasons(changed, closest)
        known = not changed and closest.key == key
        parted = _parted(choice, closest, changed)
        where = "" if parted is None else dynamic_records.place(parted, request)
        return {
            "reason": "; ".join(_words(changed, known, choice, closest, parted, where)),
            "closest": closest.id,
            "changed": [asdict(c) for c in changed],
            "apart": None if parted is None else _apart(parted, request),
            "remedies": list(_remedies(request, choice, closest, changed, known)),
        }

    def _closest(self, family: str, made: Compilation) -> Compilation | None:
        """The earlier one that most of the guards, then most of the key, are the same of; of several one that it might
        have been compiled with, then the latest."""

        def same(one: Compilation) -> tuple[int, int, bool]:
            (guards, key), (other_guards, other_key) = one.sets, made.sets
            return len(guards & other_guards), len(key & other_key), not _has_small(guards ^ other_guards)

        with self._lock:
            known = self._compiled.setdefault(family, deque(maxlen=EARLIER))
            earlier = known.copy()
            known.append(made)
            if len(self._compiled) > _REMEMBERED:
                del self._compiled[next(iter(self._compiled))]
        candidates = [one for one in reversed(earlier) if _are_one(one, made)]
        return max(candidates, key=same, default=None)


def _are_one(one: Compilation, other: Compilation) -> bool:
    """Functions of one name are one unless they are known to begin at different lines."""
    return not (one.where and other.where) or one.where == other.where


def _has_small(guards: Iterable[guard.Guard]) -> bool:
    """Is one a size that always has a module of its own?"""
    return any(g.kind == "equal" and isinstance(g.wanted, int) and g.wanted < LEAST_GENERIC for g in guards)


def _sizes(request: CompileRequest, choice: Choice) -> dict[tuple[str, int], DimExpr]:
    """(input in words, axis) -> the size that it is of a module for many sizes."""
    params = () if choice.generic is None else choice.generic.module.entry.params
    dims = ((words, axis, dim) for words, p in zip(request.inputs, params) for axis, dim in enumerate(p.shape.dims))
    return {(words, axis): dim for words, axis, dim in dims if isinstance(dim, DimExpr) and dim.is_size}


def _reasons(changed: list[guard.Change], closest: Compilation) -> list[guard.Change]:
    """But for sizes of which the closest is for all: beside another change they are no reason, alone they are, for then
    the program is another one at them."""

    def is_free(change: guard.Change) -> bool:
        size = closest.sizes.get((change.of, change.axis))
        return size is not None and change.now.isdigit() and size.admits(int(change.now))

    return [change for change in changed if not is_free(change)] or changed


def _beyond(closest: Compilation, changed: Iterable[guard.Change]) -> Iterator[tuple[guard.Change, int]]:
    """Sizes that are larger than the range that the closest is for, and its end."""
    for change in changed:
        size = closest.sizes.get((change.of, change.axis))
        if size is not None and size.high is not None and change.now.isdigit() and int(change.now) > size.high:
            yield change, size.high


def _parted(choice: Choice, closest: Compilation, changed: Sequence[guard.Change]) -> Misfit | None:
    """Why it and an earlier module are not one; None where no other one is compiled than the closest's, or its range
    says that."""
    if choice.generic is None or not choice.refused or not closest.generic or any(_beyond(closest, changed)):
        return choice.misfit
    return choice.refused[0]


def _words(
    changed: Sequence[guard.Change],
    known: bool,
    choice: Choice,
    closest: Compilation,
    parted: Misfit | None,
    where: str,
) -> Iterator[str]:
    """The reason, in parts of a sentence. where: the user's line at which it and the closest part."""
    if known:
        yield "compiled before, but no longer in memory, or its kernels were not tuned to the end"
    elif not changed:
        yield "the function changed"
    yield from map(str, changed)
    yield from (f"the earlier executable is for at most {high} there" for _, high in _beyond(closest, changed))
    yield from for_all(choice)
    if any(change.kind == "value" for change in changed):
        yield "each value is compiled in"
    elif parted is not None:
        said = "for these alone" if choice.generic is None else "the earlier one is not this program"
        yield ": ".join(filter(None, (said, where, str(parted))))


def for_all(choice: Choice) -> Iterator[str]:
    """That it is for many sizes, and where other workers' made it so whose; nothing of what is for its own."""
    if choice.generic is None:
        return
    since = f" since {', '.join(map(str, choice.told))}" if choice.told else ""
    yield f"compiled for all such sizes{since}"


def _apart(misfit: Misfit, request: CompileRequest) -> dict[str, Any]:
    """Why it and an earlier module are not one, with the user's line of the instruction at which they part."""
    nodes = sorted(misfit.instr.sources) if misfit.instr is not None else []
    return {
        "where": dynamic_records.place(misfit, request),
        "instr": "" if misfit.instr is None else f"%{misfit.instr.name} ({misfit.instr.opcode})",
        "what": misfit.what,
        "values": list(misfit.values),
        "stack": compile_records.stack_of(request, nodes),
    }


def _remedies(
    request: CompileRequest, choice: Choice, closest: Compilation, changed: Sequence[guard.Change], known: bool
) -> Iterator[str]:
    """What to do for one executable in place of this and the closest, where that is known."""
    yield from (
        f"cast '{name}' to {change.was} before the call"
        for change in changed
        if change.kind == "dtype" and (name := _argument(change))
    )
    yield from _for_sizes(request, choice, closest, changed)
    yield from filter(None, map(_for_value, changed))
    if known:
        yield "raise --tfxla_cache_capacity where executables are dropped from memory"
    elif not changed:
        yield "pass what the function reads from outside and what changes there as a tensor: each value is compiled in"
    if any(change.kind == "flag" for change in changed):
        yield "set the flags once, before the first call"


def _for_sizes(
    request: CompileRequest, choice: Choice, closest: Compilation, changed: Sequence[guard.Change]
) -> Iterator[str]:
    """Of sizes that changed, and nothing else."""
    if not changed or any(change.axis < 0 for change in changed):
        return
    if choice.generic is not None:
        if not closest.generic and (listed := _unlisted(request, closest, changed)):
            ways = [*_marks(changed), f"--tfxla_dynamic_sources={','.join(listed)}"]
            ways += ["jit(fn, dynamic=True)"] * (request.kind == "must")
            yield (
                f"{' or '.join(ways)}: the first executable is for all sizes, unless its trace holds for its own alone"
            )
        yield from _wider([change for change, _ in _beyond(closest, changed)])
    elif choice.misfit is None:
        if not flag_options.is_dynamic():
            yield "--tfxla_dynamic=on: one executable for many sizes"
    else:
        yield from (remedy for reason, remedy in _RELEASED.items() if f"({reason})" in choice.misfit.what)
        where, instr = dynamic_records.place(choice.misfit, request), choice.misfit.instr
        if where and choice.misfit.what == PARTED:
            yield f"make {where} the same program at each size (tf.shape(x) in place of x.shape)"
        elif where and instr is not None and instr.opcode == "constant":
            yield f"compute the constant of {where} from tf.shape, or pass it as a tensor: each value is compiled in"


def _wider(beyond: Sequence[guard.Change]) -> Iterator[str]:
    """For executables that are for larger sizes from the first on."""
    for change in beyond:
        if name := _argument(change):
            listed = f"--tfxla_dynamic_sources={size_spec.pattern(name)}:{change.axis}=[..N]"
            marked = f"mark_dynamic({name}, {change.axis}, max=N) before each call or " * _is_markable(change)
            yield f"{marked}{listed}, N the largest size that comes: the first executable is for sizes to there"


def _marks(changed: Sequence[guard.Change]) -> list[str]:
    """The calls that mark the dimensions, as one way; none where one is of what the program does not pass."""
    if not all(map(_is_markable, changed)):
        return []
    axes: dict[str, list[int]] = {}
    for change in changed:
        axes.setdefault(_name(change), []).append(change.axis)
    calls = [f"mark_dynamic({name}, {dims[0] if len(dims) == 1 else dims})" for name, dims in axes.items()]
    return [f"{', '.join(calls)} before each call"]


def _unlisted(request: CompileRequest, closest: Compilation, changed: Sequence[guard.Change]) -> list[str]:
    """Entries of --tfxla_dynamic_sources for the dimensions that changed; none where that was said already, or
    where a size is one that always has a module of its own."""
    if request.dynamic or request.marks or _has_small(set(closest.guards) ^ set(request.guards)):
        return []
    named = [(name, change.axis) for change in changed if (name := _argument(change))]
    listed = dynamic_policy.lists().dynamic
    if any(source.matches(name, axis) for source in listed for name, axis in named):
        return []
    return [f"{size_spec.pattern(name)}:{axis}" for name, axis in named]


def _for_value(change: guard.Change) -> str:
    """Of what is a constant to the compiler."""
    name = _name(change)
    if change.kind == "value":
        return (
            f"where '{name}' follows from shapes, compute it from tf.shape in the function: a value that is needed "
            "while compiling has an executable of its own"
        )
    if change.kind == "python":
        if _NUMBER.fullmatch(change.was) and _NUMBER.fullmatch(change.now):
            return f"pass '{name}' as a tensor: tf.function traces anew for each Python value"
        return f"pass the same '{name}' each time: tf.function traces anew for each Python object"
    if change.kind == "constexpr":
        return f"pass '{name}' to the kernel as an argument: each value of a constexpr is a kernel of its own"
    return ""


def _argument(change: guard.Change) -> str:
    """The user's name of the input that it is about; '' for a variable and for what is no input."""
    found = _NAMED.fullmatch(change.of)
    return found["name"] if found and found["noun"] in _LISTED else ""


def _is_markable(change: guard.Change) -> bool:
    """Is it about a tensor that the program passes, to the function or to the one that the cluster lies in?"""
    found = _NAMED.fullmatch(change.of)
    return found is not None and found["noun"] == _PASSED


def _name(change: guard.Change) -> str:
    found = _NAMED.fullmatch(change.of)
    return found["name"] if found else change.of
