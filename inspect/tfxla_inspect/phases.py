"""Phases of compilations: their order and colours, and a bar of their times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .markup import Html, el, join, milliseconds

# Usual phases first, so that colours agree between modules.
ORDER = (
    "trace",
    "cluster",
    "lowering",
    "generic",
    "cache",
    "rank",
    "history",
    "verify",
    "passes",
    "fusion",
    "lower",
    "tuning",
    "codegen",
    "assembler",
    "plan",
    "load",
    "dump",
    "other",
)


def _place(phase: str) -> int:
    return ORDER.index(phase) if phase in ORDER else len(ORDER)


def colour(phase: str) -> str:
    place = ORDER.index(phase) if phase in ORDER else len(ORDER) + sum(map(ord, phase)) % 7
    return f"background:hsl({(place * 57 + 210) % 360} 55% 55%)"


def phase_bar(phases: Mapping[str, float], whole: float) -> Html:
    """A stacked bar: each phase's share of `whole` milliseconds, the rest unnamed."""
    total = max(whole, sum(phases.values()), 1e-9)
    return el(
        "div",
        *(
            el("i", title=f"{name}: {milliseconds(ms)}", style=f"width:{100 * ms / total:.2f}%;{colour(name)}")
            for name, ms in sorted(phases.items(), key=lambda p: _place(p[0]))
        ),
        class_="phases",
    )


def colour_key(names: Iterable[str]) -> Html:
    """The colours of phases, without times."""
    return el("p", *(join((el("span", class_="key", style=colour(name)), name)) for name in names), class_="soft")
