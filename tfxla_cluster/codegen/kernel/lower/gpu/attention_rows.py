"""What small kernels find before the blocks of an attention kernel, so that none of its programs has to.

A number a row instead of two: p = exp(s - top) / total = 2^(s log2(e) - (top log2(e) + log2(total))). Rounded to f32
the number of a row errs by as much as it is large, and where all keys of a row are masked, total is lost beside top: so
there are bounds. And whether arrays are finite, by the sums of 0 times each element. (Masks of keys are left to the
programs: on an H200 they took as long with those multiplied beforehand, and the kernel for it came on top.)
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence

from .....fusion.attention_form import Form
from .....fusion.index import Access, Splitter
from .....fusion.moves import sources
from .....ir.dim import Dim, ceil_div, make, product
from .....ir.dtype import F32
from .....ir.node import Instr
from .....ir.size_proofs import divides
from ...builder import KernelBuilder
from ...contraction_ports import Ports
from ...ir import Buffer, Var
from ...unit import UnitKernel, UnitRef
from ..grid import minimum
from .attention_scores import LOG2E, Probability, probability_of
from .shapes import MULTIPLE, lanes

BOUNDS = {4: 16.0, 2: 256.0}  # of a row's maximum, by the bytes of what its probabilities are rounded to
_LANES, _WARPS = 256, 2
WORTH = 1 << 22  # pairs of rows from which on a kernel beforehand spares more than its launch takes, some 2 us
PROGRAMS = 512  # that share the elements of an array, at most: as many sums are read by each program afterwards
_PROGRAM, _BLOCK, _SUM_WARPS = 8192, 4096, 8  # elements of such a program at least, and at a time


class Before:
    """`steps`: kernels, each of which stores f32 in one of `temps`; `inputs`: those that the kernel of `b` reads."""

    def __init__(self, b: KernelBuilder) -> None:
        self.b = b
        self.steps: list[UnitKernel] = []
        self.temps: list[Dim] = []
        self.inputs: list[UnitRef] = []
        self._rows: tuple[int, Dim] | None = None  # the temporary of the rows' logarithms, and how many

    def _ports(self, what: str) -> Ports:
        return Ports(f"{self.b.name}.{what}", MULTIPLE)

    def _added(self, step: UnitKernel, elements: Dim) -> Buffer:
        self.inputs.append(UnitRef("temp", len(self.temps)))
        self.steps.append(step)
        self.temps.append(make("mul", elements, F32.itemsize))
        return self.b.input(F32)

    def _each(self, p: Ports, count: Dim, value: Callable[[Var], Var]) -> Buffer:
        """The f32 `value` of 0, 1, ... `count` - 1."""
        b, width = p.b, lanes(count, _LANES)
        start = b.mul(b.task, b.index(width))
        full = divides(width, count)
        with b.tile(start, minimum(b, b.add(start, b.index(width)), b.size(count)), width, full) as i:
            b.store(p.write("temp", len(self.temps), F32), i, value(i))
        return self._added(p.kernel(ceil_div(count, width), width, _WARPS), count)

    def logarithms(self, rows: Probability, bound: float) -> Buffer:
        """top log2(e) + log2(total) of each row; NaN where top is beyond `bound`."""
        p = self._ports("rows")
        top, total = (p.read("operand", _number(a.instr), F32) for a in (rows.top, rows.total))

        def value(i: Var) -> Var:
            b, most = p.b, p.b.load(top, i)
            joined = b.op("multiply", b.op("add", most, b.op("log", b.load(total, i))), b.const(LOG2E, F32))
            inside = b.compare(b.op("abs", most), b.const(bound, F32), "LE")
            return b.op("select", inside, joined, b.const(float("nan"), F32), dtype=F32)

        count = product(rows.top.instr.shape.dims)
        self._rows = len(self.temps), count
        return self._each(p, count, value)

    def zeros(self, params: Iterable[Instr]) -> tuple[Buffer, Dim]:
        """Sums of 0 times each element of arrays, and of each row's logarithm; and how many sums there are."""
        p = self._ports("finite")
        arrays = [(p.read("operand", _number(i), i.shape.element_type), product(i.shape.dims)) for i in params]
        count = make("min", ceil_div(arrays[0][1], _PROGRAM), PROGRAMS)
        if self._rows is not None:
            arrays.append((p.read("temp", self._rows[0], F32), self._rows[1]))
        total = p.b.const(0.0, F32)
        for array, elements in arrays:
            total = _sum_of_zeros(p.b, array, elements, count, total)
        p.b.store(p.write("temp", len(self.temps), F32), p.b.task, total)
        return self._added(p.kernel(count, _PROGRAM, _SUM_WARPS), count), count


def _sum_of_zeros(b: KernelBuilder, array: Buffer, elements: Dim, count: Dim, total: Var) -> Var:
    part = b.size(ceil_div(elements, count))
    start = b.mul(b.task, part)
    stop = minimum(b, b.add(start, part), b.size(elements))

    def value(i: Var) -> Sequence[Var]:
        return [b.op("multiply", _f32(b, b.load(array, i)), b.const(0.0, F32))]

    (found,) = b.reduce(start, stop, [total], [0.0], value, lambda x, y: [b.op("add", x, y)], width=_BLOCK)
    return found


def _f32(b: KernelBuilder, value: Var) -> Var:
    return value if value.dtype == F32 else b.op("convert", value, dtype=F32)


def _number(parameter: Instr) -> int:
    return int(parameter.attrs["parameter_number"])


def probabilities(form: Form) -> Probability | None:
    """The probabilities that a gradient's weights are made of, computed again; None where it computes none, or more
    than those."""
    found = {probability_of(a) for a in _before_weights(form)} - {None}
    return found.pop() if len(found) == 1 and form.softmax is None else None


def factors_of(form: Form) -> list[Instr]:
    """The floats that weights are multiplied with, besides probabilities and products."""
    ends = [a for a in _before_weights(form) if a == form.probability or probability_of(a) is not None]
    read = parameters_of([o.weight for o in form.outer], [*ends, *form.inner_accesses])
    return [i for i in read if i.shape.element_type.is_float]


def _before_weights(form: Form) -> list[Access]:
    """The weights and all that they are computed of, up to the products or the softmax."""
    return _walk([o.weight for o in form.outer], {*form.inner_accesses, form.probability})


def parameters_of(accesses: Iterable[Access], without: Iterable[Access] = ()) -> list[Instr]:
    """The parameters that these read, but for what is read through those `without`."""
    ends = set(without)
    found = [a.instr for a in _walk(accesses, ends) if a not in ends and a.instr.opcode == "parameter"]
    return list(dict.fromkeys(found))


def _walk(accesses: Iterable[Access], ends: Container[Access | None]) -> list[Access]:
    """These and all that they are computed of; what `ends` are computed of only where others are too."""
    todo = list(accesses)
    found: dict[Access, None] = {}
    while todo:
        access = todo.pop()
        if access in found:
            continue
        found[access] = None
        if access not in ends and access.instr.opcode not in ("parameter", "constant", "iota"):
            todo.extend(sources(access, Splitter()))
    return list(found)
