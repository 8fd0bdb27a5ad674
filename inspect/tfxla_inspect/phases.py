"""Phase times as a bar and a legend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .markup import Html, el, join, milliseconds

# Usual phases first, so that colours agree between modules.
_ORDER = (
    "trace",
    "cluster",
    "lowering",
    "lower",
    "passes",
    "fusion",
    "plan",
    "codegen",
    "llvm",
    "assemble",
    "autotune",
    "load",
    "dump",
)


def _colour(phase: str) -> str:
    place = _ORDER.index(phase) if phase in _ORDER else len(_ORDER) + sum(map(ord, phase)) % 7
    return f"background:hsl({(place * 57 + 210) % 360} 55% 55%)"


def phase_bar(phases: Mapping[str, float], whole: float) -> Html:
    """A stacked bar: each phase's share of `whole` milliseconds, the rest unnamed."""
    total = max(whole, sum(phases.values()), 1e-9)
    return el(
        "div",
        *(
            el("i", title=f"{name}: {milliseconds(ms)}", style=f"width:{100 * ms / total:.2f}%;{_colour(name)}")
            for name, ms in phases.items()
        ),
        class_="phases",
    )


def phase_legend(phases: Mapping[str, float]) -> Html:
    """Each phase's colour, name and time, longest first."""
    return el(
        "p",
        *(
            join((el("span", class_="key", style=_colour(name)), f"{name} {milliseconds(ms)}"))
            for name, ms in sorted(phases.items(), key=lambda p: -p[1])
        ),
        class_="soft",
    )


def colour_key(names: Iterable[str]) -> Html:
    """The colours of phases, without times."""
    return el("p", *(join((el("span", class_="key", style=_colour(name)), name)) for name in names), class_="soft")
