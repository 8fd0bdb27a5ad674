"""A picture of benchmark rows: each contender's time over ours, a bar each."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..errors import OutputError, UsageError

Row = tuple[str, Mapping[str, float]]
FORMATS = (".svg", ".png", ".pdf")


def check(path: str) -> None:
    """UsageError where no picture of this name can be drawn: before anything is measured for it."""
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError("matplotlib, which draws plots, is not installed", "Install the extra 'bench'")
    if Path(path).suffix not in FORMATS:
        raise UsageError(f"--plot={path} is none of {', '.join(FORMATS)}")


def write(path: str, title: str, rows: Sequence[Row], ours: str = "ours") -> None:
    """Bars of times as multiples of `ours`; `rows`: (case, contender -> milliseconds), those without ours left out."""
    from matplotlib.figure import Figure

    shown = [(case, times) for case, times in rows if ours in times]
    names = list(dict.fromkeys(name for _, times in shown for name in times if name != ours))
    figure = Figure(figsize=(9, 1.5 + 0.22 * max(len(shown) * (len(names) + 1), 1)), layout="constrained")
    axes = figure.add_subplot()
    for number, name in enumerate(names):
        places = [row * (len(names) + 1) + number for row, (_, times) in enumerate(shown) if name in times]
        ratios = [times[name] / times[ours] for _, times in shown if name in times]
        axes.bar_label(axes.barh(places, ratios, label=name), fmt="%.2f", padding=2, fontsize=7)
    axes.axvline(1.0, color="black", linewidth=0.8)
    middles = [row * (len(names) + 1) + (len(names) - 1) / 2 for row in range(len(shown))]
    axes.set_yticks(middles, [f"{case}\n{times[ours]:.3g} ms" for case, times in shown], fontsize=7)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel(f"time over {ours} (1: equal; more: {ours} is faster)")
    axes.set_title(title)
    if names:
        axes.legend(fontsize=7)
    try:
        figure.savefig(path)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from None
