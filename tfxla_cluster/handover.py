"""An executable that one rank compiles and the others load (--tfxla_compiler_collectives)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import trace
from .errors import RankError
from .ranks.exchange import Exchange
from .ranks.turns import Turn
from .runtime.cache import Key
from .stored import entry


@dataclass(frozen=True)
class Handing:
    """Whose turn it is. name, family: of the function or cluster; seconds: that the others wait."""

    exchange: Exchange
    turn: Turn
    key: Key
    name: str
    family: str
    seconds: float

    def note(self, event: str, **fields: Any) -> None:
        """A record of it."""
        self.exchange.note(event, self.name, self.family, **fields)


class Handover:
    """Of one executable; `handing` is None where there are no other ranks."""

    def __init__(self, handing: Handing | None = None) -> None:
        self._handing = handing

    @property
    def is_wanted(self) -> bool:
        """Others wait for what is compiled here."""
        return self._handing is not None and self._handing.turn.is_ours

    def take(self) -> Mapping[str, bytes] | None:
        """The sections that another rank made (runtime.persist); None where this one has to make them."""
        handing = self._handing
        if handing is None or handing.turn.is_ours:
            return None
        with trace.phase("rank", cluster=handing.name) as timed:
            try:
                data, reason = handing.turn.take(handing.seconds)
                sections = None if data is None else entry.unpack(data, handing.key).sections
            except (RankError, ValueError) as error:
                sections, reason = None, str(error)
        by = handing.exchange.board.tasks[handing.turn.by]
        if sections is None:
            trace.once(f"rank: {reason}", f"{handing.name} is compiled here too: {reason}")
            handing.note("compiled", by=handing.exchange.task, reason=reason)
        else:
            handing.note("loaded", by=by, ms=timed.seconds * 1e3)
        return sections

    def give(self, sections: Mapping[str, bytes]) -> None:
        """Hand over what was compiled here."""
        handing = self._handing
        if handing is None or not handing.turn.is_ours:
            return
        reason = ""
        try:
            handing.turn.give(entry.pack(handing.key, sections))
        except (RankError, OverflowError) as error:
            reason = str(error)
            trace.once(f"rank: {reason}", f"{handing.name} cannot be handed to the other workers: {reason}")
        handing.note("compiled", by=handing.exchange.task, reason=reason)
