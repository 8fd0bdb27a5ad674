"""Call stacks of records: one as lines, and many as a tree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from .markup import Html, el, join, plural
from .model import Record, place, word
from .reading import rows

NO_FRAMES = "no frame of the program is known"


def frames(record: Record, key: str) -> list[Record]:
    """The stack in a field of a record, outermost frame first."""
    found = record.get(key)
    return rows(found) if isinstance(found, list) else []


def shown(title: str, frames: Sequence[Record]) -> Html | None:
    """A part that opens: the user's frames, innermost last, and how many of the framework lie between; None where
    there are none."""
    if not frames:
        return None
    lines: list[Html] = []
    for user, some in groupby(frames, key=lambda frame: frame.get("user") is True):
        group = list(some)
        if user:
            lines += [el("div", frame_line(frame)) for frame in group]
        else:
            inner = (el("div", frame_line(frame)) for frame in group)
            lines.append(el("details", el("summary", f"{plural(len(group), 'frame')} of the framework"), *inner))
    return el("details", el("summary", title), el("div", *lines, class_="stack"))


def frame_line(frame: Record) -> Html:
    """`train.py:12 in step: y = tf.tanh(x)`; the whole path where one points."""
    text = word(frame, "text")
    return join(
        [
            el("code", place(frame), title=f"{word(frame, 'file')}:{word(frame, 'line')}"),
            f" in {word(frame, 'function')}" if word(frame, "function") else None,
            join([": ", el("code", text)]) if text else None,
        ]
    )


@dataclass(slots=True)
class Node:
    """A frame that several stacks share. `leaves`: what was called from just here."""

    frame: Record
    children: dict[tuple[str, str], Node] = field(default_factory=dict)
    leaves: list[Html] = field(default_factory=list)


def tree(stacks: Iterable[tuple[Sequence[Record], Html]]) -> Html:
    """The user's frames of all stacks as a tree, outermost first, each stack's leaf at its innermost."""
    top = Node({})
    for frames, leaf in stacks:
        node = top
        for frame in (f for f in frames if f.get("user") is True):
            key = f"{word(frame, 'file')}:{word(frame, 'line')}", word(frame, "function")
            node = node.children.setdefault(key, Node(frame))
        node.leaves.append(leaf)
    unknown = [el("li", NO_FRAMES, el("ul", *(el("li", leaf) for leaf in top.leaves)))] if top.leaves else []
    return el("ul", *(_branch(child) for child in top.children.values()), *unknown, class_="stacks")


def _branch(node: Node) -> Html:
    """A chain of frames without a fork is lines of one item: deep stacks stay narrow."""
    lines = [el("div", frame_line(node.frame))]
    while len(node.children) == 1 and not node.leaves:
        (node,) = node.children.values()
        lines.append(el("div", frame_line(node.frame)))
    inner = [*(el("li", leaf) for leaf in node.leaves), *(_branch(child) for child in node.children.values())]
    return el("li", *lines, el("ul", *inner))
