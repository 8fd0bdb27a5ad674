"""A module's memory: temporaries over the schedule, the peak, who holds it, and parameters by the user's names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from .markup import Html, el, join, link, number, plural, size, table
from .memory import Held, Timeline

_WIDTH, _HEIGHT, _MAP = 900, 190, 300  # of the pictures
_LEFT, _TOP = 74, 18  # room for labels
_MOST_BOXES = 1500
_MOST_POINTS = 2000
_MOST_ROWS = 40
_UNKNOWN = "unknown"


def build(found: Timeline, page: str, places: Mapping[str, str], parameters: Sequence[str]) -> Html:
    """The whole tab. `places`: instruction -> the user's line; `parameters`: the user's name of each."""
    return join(
        [
            _tiles(found),
            el("p", *_said(found, page, places)),
            el("h3", "Temporaries, step by step"),
            _curve(found),
            *_map(found, page, places),
            *_at_peak(found, page, places),
            *_by_line(found, places),
            *_given(found, parameters),
        ]
    )


def _tiles(found: Timeline) -> Html:
    shown = [
        ("peak of temporaries", found.most, "values that steps still need"),
        ("arena", found.lives.arena, "reserved for them in one piece"),
        ("parameters", found.inputs, "held by the caller"),
        ("results", found.outputs, f"{size(found.shared)} of them may lie where parameters do" if found.shared else ""),
        ("constants", found.constants, "in memory as long as the executable"),
        ("in all", found.whole, "while an execution runs"),
    ]
    tiles = (
        el("div", el("b", size(count)), el("span", name), el("small", why) if why else None, class_="tile")
        for name, count, why in shown
    )
    return el("div", *tiles, class_="tiles")


def _said(found: Timeline, page: str, places: Mapping[str, str]) -> list[object]:
    if not found.most:
        return ["No step leaves a temporary: all results go where the caller wants them."]
    step = found.lives.steps[found.peak][1]
    said: list[object] = [
        f"Most is held at step {found.peak + 1:,} of {len(found.temporary):,}, ",
        link(f"{page}/graph/{step}", step) if step else "a step of no instruction",
        f" ({places[step]})" if places.get(step) else "",
        f": {size(found.most)} in {plural(len(found.at(found.peak)), 'place')}",
    ]
    if found.lives.arena > found.most:
        said.append(f"; {size(found.lives.arena - found.most)} of the arena lie between them, unused then")
    return [*said, "."]


def _curve(found: Timeline) -> Html:
    """Bytes over steps, with the arena's size as a line and the peak marked."""
    steps, top = len(found.temporary), max(found.lives.arena, found.most, 1)
    right, low = _LEFT + _WIDTH, _TOP + _HEIGHT
    points = [f"{_LEFT},{low}"]
    for number_, count in _thinned(found.temporary):
        x, y = _LEFT + _WIDTH * number_ / steps, low - _HEIGHT * count / top
        points += [f"{x:.1f},{y:.1f}", f"{_LEFT + _WIDTH * (number_ + 1) / steps:.1f},{y:.1f}"]
    points.append(f"{right},{low}")
    arena, peak = (low - _HEIGHT * count / top for count in (found.lives.arena, found.most))
    at = _LEFT + _WIDTH * (found.peak + 0.5) / steps
    parts = [
        el("polygon", points=" ".join(points), class_="area"),
        el("line", x1=_LEFT, x2=right, y1=f"{arena:.1f}", y2=f"{arena:.1f}", class_="limit"),
        _label(_LEFT + _WIDTH - 4, arena + 13, f"arena {size(found.lives.arena)}", "end"),
        el("circle", cx=f"{at:.1f}", cy=f"{peak:.1f}", r=4, class_="peak"),
        *_axes(steps, top, _HEIGHT),
    ]
    return _picture(parts, _HEIGHT, f"Bytes of temporaries at each of {plural(steps, 'step')}")


def _thinned(counts: Sequence[int]) -> list[tuple[int, int]]:
    """Each step, of very many the largest of neighbours."""
    width = -(-len(counts) // _MOST_POINTS)
    return [(n, max(counts[n : n + width])) for n in range(0, len(counts), width)]


def _map(found: Timeline, page: str, places: Mapping[str, str]) -> list[object]:
    """A box a stay in the arena: when across, where down."""
    held = [h for h in found.held if h.kind == "temp"]
    boxes = [(h, span) for h in held for span in h.spans]
    if not boxes or not found.lives.arena:
        return []
    steps, arena = len(found.temporary), max(found.lives.arena, 1)
    parts: list[Html] = []
    for one, (first, last) in boxes[:_MOST_BOXES]:
        names = one.names(first) or ["?"]
        line = places.get(names[0], "")
        title = f"{', '.join(names)}: {size(one.bytes)} at {one.offset:,}, steps {first + 1:,} to {last + 1:,}"
        box = el(
            "rect",
            el("title", f"{title}\n{line}" if line else title),
            x=f"{_LEFT + _WIDTH * first / steps:.1f}",
            y=f"{_TOP + _MAP * one.offset / arena:.1f}",
            width=f"{max(_WIDTH * (last + 1 - first) / steps, 1):.1f}",
            height=f"{max(_MAP * one.bytes / arena, 1):.1f}",
            style=f"fill:hsl({sum(map(ord, line or names[0])) * 47 % 360} 55% 62%)",
            class_="stay peak" if one.is_there(found.peak) and first <= found.peak <= last else "stay",
        )
        parts.append(el("a", box, href=f"#{page}/graph/{names[0]}"))
    left_out = f" The {_MOST_BOXES:,} largest of {len(boxes):,}." if len(boxes) > _MOST_BOXES else ""
    return [
        el("h3", "The arena"),
        el("p", f"A colour a line of the program; framed: what is there at the peak.{left_out}", class_="soft"),
        _picture([*parts, *_axes(steps, arena, _MAP, down=True)], _MAP, "Where and when each value lies in the arena"),
    ]


def _axes(steps: int, top: int, height: int, down: bool = False) -> list[Html]:
    zero, most = (_TOP, _TOP + height) if down else (_TOP + height, _TOP)
    return [
        el("line", x1=_LEFT, x2=_LEFT, y1=_TOP, y2=_TOP + height, class_="axis"),
        el("line", x1=_LEFT, x2=_LEFT + _WIDTH, y1=zero, y2=zero, class_="axis"),
        _label(_LEFT - 6, zero + 4, "0", "end"),
        _label(_LEFT - 6, most + 4, size(top), "end"),
        _label(_LEFT, _TOP + height + 17, "step 1", "start"),
        _label(_LEFT + _WIDTH, _TOP + height + 17, f"step {steps:,}", "end"),
    ]


def _label(x: float, y: float, text: str, anchor: str) -> Html:
    return el("text", text, x=f"{x:.1f}", y=f"{y:.1f}", style=f"text-anchor:{anchor}")


def _picture(parts: Sequence[Html], height: int, label: str) -> Html:
    wide, high = _LEFT + _WIDTH + 16, _TOP + height + 26
    drawing = el("svg", *parts, viewBox=f"0 0 {wide} {high}", style=f"width:{wide}px", role="img", aria_label=label)
    return el("div", drawing, class_="picture memory")


def _at_peak(found: Timeline, page: str, places: Mapping[str, str]) -> list[object]:
    held = found.at(found.peak)
    if not held:
        return []
    head = f"In memory at the peak: {plural(len(held), 'place')}, {size(found.most)}"
    first, rest = held[:_MOST_ROWS], held[_MOST_ROWS:]
    more = f"and {plural(len(rest), 'smaller place')}, {size(sum(h.bytes for h in rest))}" if rest else ""
    rows = [_row(one, found, page, places) for one in first]
    columns = ("Value", "Bytes", "Share", "From step", "To step", "User line")
    return [el("h3", head), table(columns, rows, (1, 2, 3, 4)), el("p", more, class_="soft") if more else None]


def _row(one: Held, found: Timeline, page: str, places: Mapping[str, str]) -> tuple[object, ...]:
    names = one.names(found.peak)
    start, end = one.around(found.peak)
    shown = [part for name in names for part in (", ", link(f"{page}/graph/{name}", name))][1:]
    line = next((places[name] for name in names if places.get(name)), _UNKNOWN)
    return (
        join(shown),
        size(one.bytes),
        f"{100 * one.bytes / found.most:.1f} %",
        number(start + 1),
        number(end + 1),
        line,
    )


def _by_line(found: Timeline, places: Mapping[str, str]) -> list[object]:
    """The peak by lines of the program, where more than one is known."""
    sums: Counter[str] = Counter()
    for one in found.at(found.peak):
        lines = [places[name] for name in one.names(found.peak) if places.get(name)]
        sums[lines[0] if lines else _UNKNOWN] += one.bytes
    if len(sums) < 2:
        return []
    rows = [(line, size(count), f"{100 * count / found.most:.1f} %") for line, count in sums.most_common(_MOST_ROWS)]
    return [el("h3", "The peak by the program's lines"), table(("User line", "Bytes", "Share"), rows, (1, 2))]


def _given(found: Timeline, parameters: Sequence[str]) -> list[object]:
    """What the caller holds, the largest first."""
    held = [h for h in found.held if h.kind == "input"]
    if not held:
        return []
    rows = [
        (
            parameters[h.index] if h.index < len(parameters) else ", ".join(name for name, _ in h.stays),
            size(h.bytes),
            f"{100 * h.bytes / found.inputs:.1f} %" if found.inputs else "",
            number(max((last for _, last in h.spans), default=-1) + 1) if h.spans else "never",
        )
        for h in held
    ]
    shown = table(("Parameter", "Bytes", "Share", "Last read at step"), rows, (1, 2, 3))
    folded = el("details", el("summary", f"{plural(len(rows), 'parameter')} by bytes"), shown)
    head = f"Parameters: {size(found.inputs)}"
    return [el("h3", head), shown if len(rows) <= _MOST_ROWS else folded]
