"""Which module the ranks of a distribution strategy compile, and which of them does (--tfxla_compiler_collectives).

Modules of one function that are the same but for sizes go into one log, which all ranks read from its start and put
through the same policy (`dynamic.families`), so that all come to the same generic modules. The first entry holds what
each rank had when they met (`ranks.meetings`); a module that comes later, on one rank perhaps, makes a further entry,
and nobody waits. A rank takes a module from the log only where it is proven to be its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from . import dynamic_records, flag_options, trace
from .dynamic import rows
from .dynamic.families import Choice, Families, Sample, Told
from .dynamic.rows import Rows
from .dynamic.unify import Limits
from .errors import RankError, TfxlaError
from .handover import Handing, Handover
from .ir import proto
from .ir.node import Module
from .ranks import board as boards
from .ranks.board import Board
from .ranks.exchange import Exchange
from .ranks.meetings import PATIENCE_S, Met, Topic
from .runtime.cache import Key
from .runtime.kept_modules import KeptModules
from .stored.entry import key_text

if TYPE_CHECKING:  # not at run time: `enable` may run within the import of tensorflow
    from .tf.compiler_port import CompileRequest

_MOST_MEMBERS = 4  # modules of a log's entry, as many as a family unifies
_REMEDY = (
    "Call it on every worker, start all with the same flags, raise --tfxla_compiler_collectives_timeout={:g}, or call "
    "it under tfxla_cluster.config.patch(tfxla_compiler_collectives=False)"
)


@dataclass(frozen=True)
class Wanted:
    """What this rank would compile. name: of the family; structure: `rows.structure` of the module; limits, samples,
    are_other_calls: as Families.choose takes them; kept: what an earlier process left."""

    request: CompileRequest
    name: str
    read: Rows
    structure: str
    limits: Limits
    samples: Sequence[Sample]
    are_other_calls: bool
    kept: KeptModules


class RankPolicy:
    """One a process; thread safe. board(): None where the process is no rank of several."""

    def __init__(self, board: Callable[[], Board | None], patience: float = PATIENCE_S) -> None:
        self._board, self._patience = board, patience
        self._exchanges: list[Exchange] = []  # of the newest board alone
        self._lock = threading.Lock()

    def choose(self, families: Families, wanted: Wanted) -> Choice:
        """As Families.choose, for a module that nothing there serves, with what the other ranks have. RankError for a
        must-compile function where one of them does not come; a cluster is compiled for what this rank and those that
        came have."""
        exchange, options = self._exchange(), flag_options.rank_options()
        if exchange is None or options is None:
            return _own(families, wanted)
        try:
            return _Agreement(exchange, options.timeout_s, families, wanted).choice()
        except (RankError, OverflowError) as error:
            if isinstance(error, RankError) and wanted.request.kind == "must":
                raise
            _alone(exchange, wanted.request, str(error))
            return _own(families, wanted)

    @contextmanager
    def turn(self, key: Key | None, request: CompileRequest) -> Iterator[Handover]:
        """Around making the executable of `key`; None: kernels of it may be tuned, which each process does itself."""
        exchange, options = self._exchange(), flag_options.rank_options()
        if exchange is None or options is None or key is None:
            yield Handover()
            return
        try:
            turn = exchange.turn(boards.digest(key_text(key).encode()))
        except RankError as error:
            _alone(exchange, request, str(error))
            yield Handover()
            return
        with turn:
            yield Handover(Handing(exchange, turn, key, request.name, request.family, options.timeout_s))

    def _exchange(self) -> Exchange | None:
        if flag_options.rank_options() is None:
            return None
        board = self._board()
        with self._lock:
            if board is not None and (not self._exchanges or self._exchanges[0].board is not board):
                self._exchanges[:] = [Exchange(board, self._patience)]
            return self._exchanges[0] if board is not None else None


@dataclass(frozen=True)
class _Member:
    """A module that a rank offers: `content` as rows.content, the others names of blobs."""

    content: str
    module: str
    samples: tuple[str, ...]
    kept: tuple[str, ...]


@dataclass(frozen=True)
class _Modules:
    """Those of a _Member."""

    module: Module
    samples: tuple[Module, ...]
    kept: tuple[Module, ...]


@dataclass(frozen=True)
class _Agreement:
    """On the module for what this rank wants; it waits for others `seconds` at most."""

    exchange: Exchange
    seconds: float
    families: Families
    wanted: Wanted

    def choice(self) -> Choice:
        """What all ranks come to, as far as they came."""
        wanted = self.wanted
        mine = self._offer()
        topic = Topic(boards.digest(f"{wanted.name} {wanted.structure}".encode()), wanted.name, _words(wanted.request))
        members = [mine]
        if topic.name not in self.exchange.met:
            members = self._meet(topic, mine)
            self.exchange.met.add(topic.name)
        return self._follow(topic.name, mine, members)

    def _offer(self) -> _Member:
        wanted, share = self.wanted, self.exchange.share
        samples = [module for sample in wanted.samples if (module := sample()) is not None]
        kept = () if self.families.knows(wanted.name, wanted.structure) else wanted.kept.load()
        return _Member(
            rows.content(wanted.read),
            share(proto.write(wanted.read.module)),
            tuple(share(proto.write(module)) for module in samples),
            tuple(share(proto.write(module)) for module in kept),
        )

    def _meet(self, topic: Topic, mine: _Member) -> list[_Member]:
        """What the ranks that came have, each module once, the lowest rank's first."""
        request, tasks = self.wanted.request, self.exchange.board.tasks
        met = self.exchange.meetings.meet(topic, {"member": asdict(mine), "sizes": _sizes(self.wanted)}, self.seconds)
        self.exchange.note(
            "met",
            request.name,
            request.family,
            sizes={tasks[rank]: offer["sizes"] for rank, offer in met.offers.items()},
            missing={tasks[rank]: reason for rank, reason in met.missing.items()},
            ms=met.seconds * 1e3,
        )
        if met.is_failed:
            self._missing(met)
        members: dict[str, _Member] = {}
        for rank, offer in met.offers.items():
            member = _member(offer["member"])
            self.exchange.held[member.content].add(tasks[rank])
            members.setdefault(member.content, member)
        return list(members.values())[:_MOST_MEMBERS]

    def _missing(self, met: Met) -> None:
        request, reason = self.wanted.request, "; ".join(met.missing.values())
        if request.kind != "must":
            _alone(self.exchange, request, reason)
            return
        raise RankError(
            f"all workers compile {_words(request)} together, but {reason}",
            _REMEDY.format(self.seconds),
            request.place() or "",
        )

    def _follow(self, log: str, mine: _Member, members: list[_Member]) -> Choice:
        """Read the log on until something in it serves; what this rank proposes does at the latest."""
        exchange, name = self.exchange, self.wanted.name
        with exchange.lock(log):
            while True:
                number = exchange.read[log] if self.families.knows(name, self.wanted.structure) else 0
                proposal = {"by": exchange.task, "members": [asdict(member) for member in members]}
                entry = exchange.entry(log, number, proposal, self.seconds)
                for content in (_member(member).content for member in entry["members"]):
                    exchange.held[content] |= set() if exchange.held[content] else {entry["by"]}
                # All is fetched before any of it counts.
                fetched = [self._fetched(_member(member)) for member in entry["members"]]
                own = [choice for modules in fetched if (choice := self._join(modules, mine)) is not None]
                exchange.read[log] = number + 1
                found = self.families.serving(name, self.wanted.read, self.wanted.limits) or (own[0] if own else None)
                if found is not None:
                    break
                members = [mine]
        request = self.wanted.request
        exchange.note("agreed", request.name, request.family, by=entry["by"], generic=found.generic is not None)
        return replace(found, apart=own[0].apart if own else None, told=tuple(self._told(found)))

    def _told(self, choice: Choice) -> Iterator[Told]:
        """The sizes of other ranks that are in a module for many."""
        inputs, mine = self.wanted.request.inputs, self.wanted.read.module.entry.params
        for module in () if choice.generic is None else choice.generic.origin:
            holders = self.exchange.held.get(rows.content(rows.of_module(module)), set())
            for task in () if self.exchange.task in holders else sorted(holders):
                for words, other, own in zip(inputs, module.entry.params, mine):
                    dims = enumerate(zip(other.shape.sample_dims, own.shape.sample_dims))
                    yield from (Told(task, words, axis, there) for axis, (there, here) in dims if there != here)

    def _fetched(self, member: _Member) -> _Modules:
        samples = tuple(map(self._module, member.samples))
        return _Modules(self._alike(member.module), samples, tuple(map(self._alike, member.kept)))

    def _alike(self, name: str) -> Module:
        """One that is the same as this rank's but for sizes."""
        module = self._module(name)
        if rows.structure(rows.of_module(module)) != self.wanted.structure:
            raise RankError("a module of another worker is another program")
        return module

    def _module(self, name: str) -> Module:
        data = self.exchange.fetch(name, self.seconds)
        try:
            return proto.read(data)
        except TfxlaError as error:
            raise RankError(f"a module of another worker cannot be read: {error}") from error

    def _join(self, modules: _Modules, mine: _Member) -> Choice | None:
        """Put a member of the log through the policy, as each rank does; the choice where it is this rank's module."""
        wanted, read = self.wanted, rows.of_module(modules.module)
        if not self.families.knows(wanted.name, wanted.structure):
            _restore(self.families, wanted, modules.kept)
        samples = [partial(_same, module) for module in modules.samples]
        choice = self.families.choose(wanted.name, read, wanted.limits, samples, wanted.are_other_calls)
        if _keep(wanted, choice) and choice.generic is not None:
            dynamic_records.named(choice.generic, wanted.request, "the modules of these sizes, of workers, are one")
        return choice if rows.content(read) == mine.content else None


def _own(families: Families, wanted: Wanted) -> Choice:
    """What this process comes to by itself."""
    if not families.knows(wanted.name, wanted.structure):
        _restore(families, wanted, wanted.kept.load())
    choice = families.choose(wanted.name, wanted.read, wanted.limits, wanted.samples, wanted.are_other_calls)
    _keep(wanted, choice)
    return choice


def _restore(families: Families, wanted: Wanted, kept: Sequence[Module]) -> None:
    restored = families.restore(wanted.name, kept, wanted.limits)
    if restored is not None:
        dynamic_records.named(restored, wanted.request, "an earlier process made the modules of these sizes one")


def _keep(wanted: Wanted, choice: Choice) -> bool:
    """Whether a module for many sizes was made now."""
    if choice.generic is None or choice.proofs:
        return False
    wanted.kept.save(choice.generic.origin)
    return True


def _member(data: Mapping[str, Any]) -> _Member:
    return _Member(data["content"], data["module"], tuple(data["samples"]), tuple(data["kept"]))


def _same(module: Module, every: int = 0) -> Module | None:
    return None if every else module


def _words(request: CompileRequest) -> str:
    return f"{'a cluster of ' * (request.kind == 'cluster')}function {request.title or request.name}"


def _sizes(wanted: Wanted) -> list[tuple[str, tuple[int, ...]]]:
    """(user's name, dimensions) of this rank's inputs."""
    params = wanted.read.module.entry.params
    return [(name, param.shape.sample_dims) for name, param in zip(wanted.request.named, params)]


def _alone(exchange: Exchange, request: CompileRequest, reason: str) -> None:
    """Say, once a reason, that what is compiled here may not be what the other ranks compile."""
    exchange.note("alone", request.name, request.family, reason=reason)
    trace.once(f"ranks: {reason}", f"{request.name} is compiled for this worker alone: {reason}")
