"""Which module is compiled for a request: its own, or one for many sizes, from the first call on where something says
that a dimension will vary."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from . import bugs, dynamic_records, flag_options, flags, size_spec, trace
from .dynamic import families, rows, sources
from .dynamic.families import Choice, Families
from .dynamic.lowered import Lowered
from .dynamic.sources import Asked, Lists, Place, Rule, When
from .dynamic.unifier import Generic
from .dynamic.unify import Limits
from .dynamic_records import Shapes
from .errors import ConstraintError, LoweringError, ParseError, RankError
from .ir import proto as hlo_proto
from .ir.guard import Guard
from .ir.node import Module
from .kept_marks import MarkedTraces, keep_marks, keep_ties, must_vary, not_at, special
from .locks import ForkSafeLock
from .options import ProfileOptions
from .profiles.profile import RECOMPILE_LIMIT
from .profiles.recorder import Recorder
from .rank_policy import RankPolicy, Wanted
from .runtime.kept_modules import KeptModules
from .size_spec import ANY, Size
from .trusted_sizes import TrustedSizes

if TYPE_CHECKING:  # not at run time: `enable` may run within the import of tensorflow
    from .tf.compiler_port import CompileRequest


class DynamicPolicy:
    """One a process; thread safe. ranks: with whom it comes to terms."""

    def __init__(self, ranks: RankPolicy) -> None:
        self._families, self._ranks = Families(), ranks
        self._recorders: dict[ProfileOptions, Recorder] = {}
        self._trusted = TrustedSizes()
        self._lock = ForkSafeLock()
        self._marked = MarkedTraces()

    def choose(self, lowered: Lowered, request: CompileRequest) -> Choice:
        """The module itself, or a generic one that is proven to be it. RankError where another worker of the strategy
        is missing."""
        if not (request.family and flag_options.is_dynamic()):
            if request.marks:
                what = "each size has an executable of its own"
                trace.once("marks", f"marks of sizes have no effect: {what} (--tfxla_dynamic)")
            return families.alone(lowered.module)
        try:
            with trace.phase("generic", cluster=request.name):
                choice = self._choose(lowered, request)
        except (ConstraintError, ParseError, RankError):
            raise
        except Exception as error:  # noqa: BLE001 - the module itself may compile
            return families.alone(lowered.module, bugs.failed(f"making {request.name} one for all sizes", error))
        if choice.generic is None or not choice.proofs:  # nothing that there was serves it
            refused = self._families.refusals(_family(request, lowered.shapes), lowered.rows)
            choice = replace(choice, refused=tuple(refused))
        dynamic_records.chosen(choice, lowered.shapes, request)
        return choice

    def _choose(self, lowered: Lowered, request: CompileRequest) -> Choice:
        shapes = lowered.shapes
        keep_ties(shapes, request)
        name, rules = _family(request, shapes), self._rules(shapes, request)
        self._note(shapes, request)
        limits = replace(_limits(rules), hands=True)
        strict = must_vary(shapes, request)
        known = None if strict else self._families.recognised(name, lowered, limits)
        if known is not None:
            return known
        choice = self._families.serving(name, lowered.rows, limits)
        if choice is None:
            choice = self._new(lowered, request, name, rules, limits, strict)
        if choice.generic is not None:
            self._families.learn(name, choice.generic, lowered)
        self._marked.check(strict, lowered.rows, request, choice)
        return choice

    def _new(
        self,
        lowered: Lowered,
        request: CompileRequest,
        name: str,
        rules: Mapping[Place, Rule],
        limits: Limits,
        strict: frozenset[Place],
    ) -> Choice:
        """For a module that no generic one there is serves."""
        shapes, structure = lowered.shapes, rows.structure(lowered.rows)
        kept = KeptModules(flag_options.store_options(request.device.partition(":")[0]), name, structure)
        known = self._families.knows(name, structure)
        samples = [
            functools.partial(_sample, shapes, of, limits.sizes, request)
            for of in _sampled(rules, strict, request, known)
        ]
        wanted = Wanted(request, name, lowered.rows, structure, limits, samples, strict <= request.open, kept)
        choice = self._ranks.choose(self._families, wanted)
        keep_marks(strict, request, choice)
        return choice

    def trusted(self, shapes: Shapes, request: CompileRequest, choice: Choice) -> tuple[Guard, ...] | None:
        """`TrustedSizes.ranges`."""
        return self._trusted.ranges(shapes, request, choice, _limits(self._rules(shapes, request)).sizes)

    def refuse(self, request: CompileRequest, generic: Generic, reason: str) -> None:
        """It cannot be compiled: modules of this structure are compiled as they are."""
        self._families.refuse(_family(request, generic.origin[-1].param_shapes), generic, reason)

    def note_limit(self, request: CompileRequest) -> None:
        """--tfxla_recompile_limit ended compilations of the function: its profile says so."""
        recorder = self._recorder()
        if recorder is not None and request.family:
            recorder.reached(_profiled(request), RECOMPILE_LIMIT)

    def forget(self) -> None:
        """All modules that were seen."""
        self._families = Families()
        self._marked.forget()
        self._trusted.forget()

    def save_profiles(self) -> None:
        """Write what was seen to where profiles are kept."""
        for recorder in list(self._recorders.values()):
            recorder.save()

    def _rules(self, shapes: Shapes, request: CompileRequest) -> Mapping[Place, Rule]:
        recorder = self._recorder()
        profile = {} if recorder is None else recorder.dynamic(_profiled(request))
        vary = flags.get("tfxla_dynamic_variables")
        fixed, constants = (frozenset() if vary else of for of in (request.variables, request.constants))
        asked = Asked(request.dynamic, request.open, profile, fixed, request.marks, constants)
        return lists().rules(request.named, _dims(shapes), asked)

    def _note(self, shapes: Shapes, request: CompileRequest) -> None:
        """Its sizes and Python integers, for the profile."""
        recorder = self._recorder()
        if recorder is not None:
            named = list(enumerate(zip(request.named, _dims(shapes))))
            tensors = {name: of for k, (name, of) in named if k not in request.variables | request.integers}
            numbers = {name: of[0] for k, (name, of) in named if k in request.integers}
            recorder.note(_profiled(request), tensors, numbers)

    def _recorder(self) -> Recorder | None:
        options = flag_options.profile_options()
        if options is None:
            return None
        with self._lock:
            if options not in self._recorders:
                self._recorders[options] = Recorder(options)
            return self._recorders[options]


def lists() -> Lists:
    """What the flags name."""
    return Lists(
        size_spec.parse(flags.get("tfxla_dynamic_sources")), size_spec.parse(flags.get("tfxla_static_sources"))
    )


def _family(request: CompileRequest, shapes: Shapes) -> str:
    """Modules that may be one: of a function, and of sizes for which the same predicates of marks are true."""
    true = special(shapes, request)
    return f"{request.family} on {request.device}{f' where {true} of marks hold' if true else ''}"


def _profiled(request: CompileRequest) -> str:
    """The function's name in profiles."""
    return request.family.removeprefix("__inference_")


def _dims(shapes: Shapes) -> list[tuple[int, ...]]:
    """Those that are numbers."""
    return [tuple(d for d in shape.dims if isinstance(d, int)) for shape in shapes]


def _limits(rules: Mapping[Place, Rule]) -> Limits:
    return Limits(
        {place: rule.reason for place, rule in rules.items() if rule.when is When.NEVER},
        {place: rule.size for place, rule in rules.items() if rule.size != ANY},
    )


def _sampled(
    rules: Mapping[Place, Rule], strict: frozenset[Place], request: CompileRequest, known: bool
) -> Iterable[frozenset[Place]]:
    """The dimensions at whose other sizes a trace is lowered too, one choice after the other; `known`: it has the
    structure of an earlier one."""
    if known and request.integers:
        return ()  # the trace holds for its own integers alone: what follows them the earlier one tells
    first = {place for place, rule in rules.items() if rule.when is When.FIRST and place[0] not in request.integers}
    # A trace that leaves no size open may hold for its own alone: it is lowered at others once, not at each.
    places = first & (request.open | strict) if known else first
    return dict.fromkeys((frozenset(places), strict))


def _sample(
    shapes: Shapes, places: Collection[Place], sizes: Mapping[Place, Size], request: CompileRequest, every: int = 0
) -> Module | None:
    """The same program lowered at other sizes of these dimensions, `every` as `sources.samples` has it; None where it
    cannot be, or none of them varies. ConstraintError where the trace leaves sizes open that are marked dynamic, and
    does not lower at others."""
    dims = {(number, axis): shapes[number].dims[axis] for number, axis in places}
    others = sources.samples({place: dim for place, dim in dims.items() if isinstance(dim, int)}, sizes, every)
    if not others:
        return None
    try:
        return hlo_proto.read(request.relower(others))
    except LoweringError as error:
        if others.keys() <= must_vary(shapes, request) & request.open:
            raise not_at(others, request, error) from error
        return None
