"""sort: stable sort of lines along one dimension, any comparator, any number of operands.

A line is cut into chunks. A task sorts one chunk between the result and a temporary of equal size: by bytes of
the key (`radix`), or by insertion in short runs, then merges. Long lines have several chunks, which further
kernels merge.
"""

from __future__ import annotations

from ....ir import dim as dims_
from ....ir.dtype import PRED
from ....ir.node import Instr
from ....target import Target
from ..builder import KernelBuilder
from ..ir import Buffer, Var
from ..unit import Unit, UnitKernel
from . import radix
from .sort_line import Line, SortForm
from .space import delinearize

RUN = 12  # Elements sorted by insertion.


def lower(instr: Instr, target: Target) -> Unit:
    """Results have the operands' shapes; equal elements keep their order."""
    form = SortForm(instr)
    sorted_chunks = _sort_chunks(form)
    steps = [sorted_chunks]
    width = 1
    while width < form.chunks:
        forward = _merge_chunks(form, width, ("result", "temp"))
        back = _merge_chunks(form, width * 2, ("temp", "result"))
        steps += [forward, back]
        width *= 4
    return Unit(tuple(steps), tuple(o.shape.byte_size for o in instr.operands))


def _sort_chunks(form: SortForm) -> UnitKernel:
    b = KernelBuilder("sort")
    sources = [b.input(d) for d in form.dtypes]
    results = [b.output(d) for d in form.dtypes]
    temps = [b.output(d) for d in form.dtypes]
    number, chunk = delinearize(b, b.task, (form.lines, form.chunks))
    line = Line(b, form, number)
    first = b.op("minimum", b.mul(chunk, b.size(form.chunk_length)), b.size(form.length))
    stop = b.op("minimum", b.add(first, b.size(form.chunk_length)), b.size(form.length))
    key = radix.key_of(form.instr) if dims_.sample(form.length) >= radix.MIN_LENGTH else None
    if key is None:
        _merge_sort(b, line, (sources, results, temps), (first, stop))
    else:
        radix.sort_stretch(b, line, key, (sources, results, temps), (first, stop))
    kernel = b.finish(dims_.make("mul", form.lines, form.chunks), dims_.make("mul", form.chunk_length, 60))
    return UnitKernel(kernel, form.refs("operand"), form.refs("result") + form.refs("temp"))


def _merge_sort(
    b: KernelBuilder, line: Line, buffers: tuple[list[Buffer], list[Buffer], list[Buffer]], bounds: tuple[Var, Var]
) -> None:
    """Sorts [first, stop) of the sources into the results; the temporaries are used too."""
    sources, results, temps = buffers
    first, stop = bounds
    _insertion_runs(b, line, (sources, results), first, stop)

    def rest(width: Var) -> Var:
        return b.compare(b.add(first, width), stop, "LT")

    def two_passes(width: Var) -> tuple[Var]:
        double = b.mul(width, b.index(2))
        _merge_pass(b, line, (results, temps), (first, stop), width)
        _merge_pass(b, line, (temps, results), (first, stop), double)
        return (b.mul(width, b.index(4)),)

    b.while_loop([b.index(RUN)], rest, two_passes)


def _insertion_runs(
    b: KernelBuilder, line: Line, buffers: tuple[list[Buffer], list[Buffer]], first: Var, stop: Var
) -> None:
    """Copy [first, stop) from sources to results, each run of RUN elements sorted."""
    sources, results = buffers
    zero, one = b.index(0), b.index(1)
    with b.loop(first, stop) as i:
        values = line.load(sources, i)
        keys = [v if used else b.const(0, v.dtype) for v, used in zip(values, line.form.keys)]
        into_run = b.remainder(b.op("subtract", i, first), b.index(RUN))
        low = b.op("subtract", i, into_run)

        def before(j: Var, keys: list[Var] = keys, low: Var = low) -> Var:
            room = b.compare(j, low, "GT")
            left = line.keys(results, b.op("maximum", b.op("subtract", j, one), zero), room)
            return b.op("and", room, line.less(keys, left), dtype=PRED)

        def shift(j: Var) -> tuple[Var]:
            left = b.op("subtract", j, one)
            line.store(results, j, line.load(results, left))
            return (left,)

        (place,) = b.while_loop([i], before, shift)
        line.store(results, place, values)


def _merge_pass(
    b: KernelBuilder, line: Line, buffers: tuple[list[Buffer], list[Buffer]], span: tuple[Var, Var], width: Var
) -> None:
    """Merge neighbouring runs of `width` elements of [first, stop) from one set of buffers to the other."""
    first, stop = span
    pair = b.mul(width, b.index(2))
    count = b.quotient(b.add(b.op("subtract", stop, first), b.op("subtract", pair, b.index(1))), pair)
    with b.loop(b.index(0), count) as number:
        low = b.add(first, b.mul(number, pair))
        middle = b.op("minimum", b.add(low, width), stop)
        _merge(b, line, buffers, (low, middle, b.op("minimum", b.add(low, pair), stop)))


def _merge(
    b: KernelBuilder, line: Line, buffers: tuple[list[Buffer], list[Buffer]], bounds: tuple[Var, Var, Var]
) -> None:
    """Merge the sorted [low, middle) and [middle, high); of equal elements the left one comes first."""
    sources, results = buffers
    low, middle, high = bounds

    def step(place: Var, left: Var, right: Var) -> tuple[Var, Var]:
        has_left, has_right = b.compare(left, middle, "LT"), b.compare(right, high, "LT")
        smaller = line.less(line.keys(sources, right, has_right), line.keys(sources, left, has_left))
        take_right = b.op("and", has_right, b.op("or", b.op("not", has_left), smaller))
        chosen = b.op("select", take_right, right, left, dtype=left.dtype)
        line.store(results, place, line.load(sources, chosen))
        one = b.op("convert", take_right, dtype=left.dtype)
        return b.add(left, b.op("subtract", b.index(1), one)), b.add(right, one)

    b.fold(low, high, (low, middle), step)


def _merge_chunks(form: SortForm, width: int, way: tuple[str, str]) -> UnitKernel:
    """Merge pairs of `width` sorted chunks of each line."""
    b = KernelBuilder("sort_merge")
    sources = [b.input(d) for d in form.dtypes]
    results = [b.output(d) for d in form.dtypes]
    pairs = -(-form.chunks // (2 * width))
    number, pair = delinearize(b, b.task, (form.lines, pairs))
    line = Line(b, form, number)
    span = b.mul(b.index(width), b.size(form.chunk_length))
    low, middle, high = (
        b.op("minimum", b.mul(b.add(b.mul(pair, b.index(2)), b.index(k)), span), b.size(form.length)) for k in range(3)
    )
    _merge(b, line, (sources, results), (low, middle, high))
    kernel = b.finish(dims_.make("mul", form.lines, pairs), dims_.make("mul", form.chunk_length, 8 * width))
    return UnitKernel(kernel, form.refs(way[0]), form.refs(way[1]))
