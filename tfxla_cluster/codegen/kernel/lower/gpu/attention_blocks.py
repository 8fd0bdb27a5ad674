"""The blocks of an attention kernel: those liked best of what registers and shared memory hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .....fusion.attention_form import Form
from .....fusion.index import Access, Seq
from .....ir.dim import product, sample
from .....target import Target
from ...choice import Knobs
from .capability import shared_bytes
from .shapes import power

LEAST = 16  # lanes of a block that a matrix unit multiplies
_OTHERS = {"fixed": (32, 64, 128), "looped": (32, 64, 128), "warps": (4, 8), "stages": (2, 3)}
_REGISTERS = 200  # of a thread, for blocks of sums, scores and weights: the rest is for addresses and rows
_BESIDES = 4096  # bytes of shared memory for masks, a row's numbers and barriers


@dataclass(frozen=True, slots=True)
class Blocks:
    """Rows of a program (`fixed`), rows at a time of what it goes over (`looped`), its warps, and how many blocks of
    looped rows are on their way at once."""

    fixed: int
    looped: int
    warps: int
    stages: int


# Liked best first. Rows of fewer than 64 have no instruction of a whole warp group.
_LIKED = [
    Blocks(128, 64, 4, 3),
    Blocks(128, 64, 4, 2),
    Blocks(64, 64, 4, 3),
    Blocks(64, 64, 4, 2),
    Blocks(64, 32, 4, 2),
    Blocks(64, 16, 4, 2),
    Blocks(64, 32, 8, 2),
    Blocks(32, 32, 4, 2),
    Blocks(32, 16, 4, 2),
    Blocks(16, 16, 4, 2),
]


def choose(form: Form, target: Target, knobs: Knobs, cut: bool) -> Blocks:
    """What the choice says, else the first of those liked of which two programs fit into a multiprocessor, or one; the
    last where none does. `cut`: a mask hides whole blocks, so that small ones have less to do for what it cuts."""
    room = shared_bytes(target)
    liked = [b for b in _within(form, cut) if registers(form, b) <= _REGISTERS]
    fitting = [b for most in (room // 2, room - _BESIDES) for b in liked if held_bytes(form, b) <= most]
    best = next(iter(fitting), _LIKED[-1])
    return Blocks(**{name: knobs.take(name, getattr(best, name), others) for name, others in _OTHERS.items()})


def _within(form: Form, cut: bool) -> Iterator[Blocks]:
    """Those liked, cut to the rows that there are."""
    depth = max(lanes(i.depth) for i in form.inner)
    most = 64 if len(form.outer) > 1 or depth > 64 or cut else 128
    for b in _LIKED:
        if b.fixed <= most:
            yield Blocks(lanes(form.fixed, b.fixed), lanes(form.looped, b.looped), b.warps, b.stages)


def registers(form: Form, b: Blocks) -> int:
    """Of a thread, for the blocks of sums and products; weights of f32 take as many again, before and after they are
    made operands."""
    wide = max(_itemsize(o.operand) for o in form.outer) > 2
    scores = b.looped * len(form.inner) * (3 if wide else 1)
    return b.fixed * (sum(lanes(o.width) for o in form.outer) + scores) // (32 * b.warps)


def held_bytes(form: Form, b: Blocks) -> int:
    """Of shared memory: fixed operands, and `stages` blocks of each that is looped."""
    fixed = {i.fixed: lanes(i.depth) * _itemsize(i.fixed) for i in form.inner}
    pairs = [(i.looped, i.depth) for i in form.inner] + [(o.operand, o.width) for o in form.outer]
    looped = {a.instr: lanes(columns) * _itemsize(a) for a, columns in pairs}
    return b.fixed * sum(fixed.values()) + b.stages * b.looped * sum(looped.values())


def lanes(seq: Seq, most: int = 1 << 30) -> int:
    """Lanes of a block for `seq`, a power of two: no more than there are, or `most`."""
    return max(LEAST, min(most, power(sample(product(d.extent for d in seq)))))


def _itemsize(access: Access) -> int:
    return access.instr.shape.element_type.itemsize
