"""Attention on a GPU: a program has a block of fixed rows and goes over the looped ones (`fusion.attention_form`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from .....decision import YES, Decision, no
from .....errors import UnsupportedError
from .....fusion.attention_form import Form, Inner, Outer, chain_after, form_of
from .....fusion.index import Access, Digit, Seq, digits_of, flatten
from .....fusion.program import output_instrs
from .....ir.dim import Dim, ceil_div, make, product, sample
from .....ir.dtype import F32, S64, DType
from .....ir.node import Instr
from .....ir.size_proofs import divides
from .....target import Target
from ...attention_ir import NOTHING, Attention, Between, Cut, Scores, Span, Weighted
from ...builder import KernelBuilder
from ...choice import Knobs
from ...ir import Buffer, Region, Var
from ...unit import Unit, UnitKernel, UnitRef
from ..dot import precision
from ..emit import Emitter
from ..space import delinearize
from . import attention_rows
from .attention_blocks import LEAST, choose, lanes
from .attention_cut import Diagonal, diagonal_of
from .attention_matrix import matrix_of
from .attention_rows import BOUNDS, PROGRAMS, Before, factors_of, parameters_of, probabilities
from .attention_scores import LOG2E, NO_LOOPS, ScoreEmitter, weight_and_factor
from .capability import has_descriptors
from .product_factors import PRECISIONS
from .shapes import MULTIPLE, power

WIDEST = 256  # lanes of a row of an operand, all of which a block holds
_FEW, _LONG = 32, 4096  # programs, a quarter of the multiprocessors; looped rows of each
_TYPES = ("f16", "bf16", "f32")


def supports(form: Form) -> Decision:
    """Whether there is a kernel of this form."""
    for pair in [(i.fixed, i.looped) for i in form.inner] + [(o.operand,) for o in form.outer]:
        found = {a.instr.shape.element_type.name for a in pair}
        if len(found) > 1 or not found <= set(_TYPES):
            return no(
                "attention-type", f"{pair[0].instr.name}: no kernel for operands of {' and '.join(sorted(found))}"
            )
    for name, seq in [(i.access.instr.name, i.depth) for i in form.inner] + [
        (o.output.instr.name, o.width) for o in form.outer
    ]:
        extent = _extent(seq)
        if not isinstance(extent, int) or not 0 < extent <= WIDEST:
            return no("attention-width", f"{name}: rows of {extent} elements are not 1 to {WIDEST}")
    if len(_precisions(form)) > 1:
        return no("attention-precision", f"the products multiply f32 as {' and '.join(sorted(_precisions(form)))}")
    if not form.looped or 0 in (_extent(form.looped), _extent(form.fixed), _extent(form.batch)):
        return no("attention-rows", "there is one row or none to go over")
    if _is_alone(form):
        return no("attention-few", "a few programs would each go over many rows, most of the machine idle")
    return YES


def _is_alone(form: Form) -> bool:
    """Whether a kernel would leave most of the machine idle for long: one token that looks back far, in few heads.

    By what larger kernels took on an H200 and not measured at these sizes: a program takes some 0.5-1 us for 64 looped
    rows, so at least 32 us for _LONG, in which the plain operations, over all multiprocessors, read 130 MB.
    """
    fixed, programs = _extent_number(form.fixed), _extent_number(form.batch)
    return fixed <= LEAST and programs <= _FEW and form.softmax is not None and _extent_number(form.looped) >= _LONG


def _precisions(form: Form) -> set[str]:
    """As what the products of f32 multiply it; narrower operands are the same in all."""
    dots = [i.access.instr for i in form.inner] + [chain_after(o.output.instr)[0] for o in form.outer]
    return {PRECISIONS.get(precision(d), "ieee") for d in dots if d.operands[0].shape.element_type == F32} or {"ieee"}


def lower_attention(instr: Instr, target: Target, knobs: Knobs) -> Unit:
    """The kernel of a fusion that has a form; UnsupportedError where it has none or no kernel."""
    form = form_of_fusion(instr)
    decision = supports(form)
    if not decision:
        raise UnsupportedError(decision.reason)
    kernel = _Kernel(instr, form, target, knobs)
    step = kernel.build()
    return Unit((*kernel.before.steps, step), tuple(kernel.before.temps))


def form_of_fusion(instr: Instr) -> Form:
    """Of a fusion of attention."""
    comp = instr.attrs["calls"]
    return form_of(output_instrs(comp), [i for i in comp.instrs if i.opcode not in ("parameter", "tuple")])


class _Kernel:
    def __init__(self, instr: Instr, form: Form, target: Target, knobs: Knobs) -> None:
        comp = instr.attrs["calls"]
        self.form, self.params, self.outputs = form, comp.params, output_instrs(comp)
        self.b = KernelBuilder(instr.name, MULTIPLE)
        buffers = {p: self.b.input(p.shape.element_type) for p in self.params}
        self.out = {o: self.b.output(o.shape.element_type) for o in self.outputs}
        self.narrow = Emitter(self.b, NO_LOOPS, buffers)
        self.wide = ScoreEmitter(self.b, NO_LOOPS, buffers)
        worth = _extent_number((*form.batch, *form.fixed, *form.looped)) >= attention_rows.WORTH
        self.rows = probabilities(form) if worth else None
        self.diagonal = self._diagonal() if worth else None
        blocks = choose(form, target, knobs, self.diagonal is not None)
        self.fixed, self.looped, self.warps, self.stages = blocks.fixed, blocks.looped, blocks.warps, blocks.stages
        self.before = Before(self.b)
        self.logarithms = None if self.rows is None else self.before.logarithms(self.rows, self._bound)
        self.reference = bool(self._may_refer() and knobs.take("reference", 1, (0,)))
        self.descriptors = self._may_describe(target) and knobs.take("descriptors", self._by_blocks(), (0, 1))

    @property
    def _bound(self) -> float:
        """Of a row's maximum in the fast form of a gradient."""
        return BOUNDS[max(o.operand.instr.shape.element_type.itemsize for o in self.form.outer)]

    def _diagonal(self) -> Diagonal | None:
        """The mask of whole blocks. In a gradient, where hidden scores are so far below all rows' maxima that hidden
        probabilities are 0."""
        diagonal = diagonal_of(self.form)
        if diagonal is None or self.form.softmax is not None:
            return diagonal
        return diagonal if self.rows is not None and diagonal.far < -self._bound - NOTHING else None

    def _by_blocks(self) -> int:
        """Whether the copy unit reads operands unless told otherwise: on an H200 it was slower beside a mask of keys
        in a softmax, and in the causal gradient of keys and values of 128 elements."""
        form = self.form
        if form.softmax is not None:
            return int(not any(self._of_looped(a) for a in form.sides))
        return int(self.diagonal is None or len(form.outer) == 1 or max(lanes(i.depth) for i in form.inner) <= 64)

    def _of_looped(self, side: Access) -> bool:
        """Whether it is a number for each looped row, whatever the fixed one."""
        digits = digits_of(flatten(side.index))
        return bool(digits & set(self.form.looped)) and not digits & set(self.form.fixed)

    def _may_describe(self, target: Target) -> bool:
        """Whether operands of looped rows can be read by blocks."""
        form = self.form
        pairs = [(i.looped, i.depth) for i in form.inner] + [(o.operand, o.width) for o in form.outer]
        return has_descriptors(target) and any(matrix_of(a, form.looped, columns) for a, columns in pairs)

    def _may_refer(self) -> bool:
        """Whether the first block's maximum may serve for all: weights have the range of f32, and a mask does not hide
        the first block."""
        form = self.form
        halves = any(o.operand.instr.shape.element_type.name == "f16" for o in form.outer)
        hidden = self.diagonal is not None and not self.diagonal.after
        return form.softmax is not None and not halves and not hidden

    def build(self) -> UnitKernel:
        b, form = self.b, self.form
        blocks = ceil_div(_extent(form.fixed), self.fixed)
        batch = b.quotient(b.task, b.size(blocks))
        self._bind(form.batch, batch)
        diagonal, block = self.diagonal, b.remainder(b.task, b.size(blocks))
        if diagonal is not None and diagonal.after:  # the last rows have the most to do: they go first
            block = b.op("subtract", b.op("subtract", b.size(blocks), b.index(1)), block)
        start = b.mul(block, b.index(self.fixed))
        b.attention(
            Attention(
                start,
                self._span(form.fixed, self.fixed),
                self._span(form.looped, self.looped),
                tuple(self._scores(i) for i in form.inner),
                self._between(),
                tuple(self._sum(o) for o in form.outer),
                self._fast({}) if form.softmax or self.rows else None,
                None if diagonal is None else self._fast({diagonal.test: diagonal.says}),
                self._statistics() if form.statistics else None,
                precision=_precisions(form).pop(),
                stages=self.stages,
                cut=None if diagonal is None else self._cut(diagonal, start),
                reference=self.reference,
            )
        )
        kernel = b.finish(make("mul", blocks, _extent(form.batch)), self._cost(), self.warps)
        inputs = [UnitRef("operand", int(p.attrs["parameter_number"])) for p in self.params]
        return UnitKernel(
            kernel, (*inputs, *self.before.inputs), tuple(UnitRef("result", n) for n in range(len(self.outputs)))
        )

    def _cut(self, diagonal: Diagonal, start: Var) -> Cut:
        b, form = self.b, self.form
        if diagonal.after:
            edge = self._whole_blocks(b.add(start, b.index(self.fixed + diagonal.number + self.looped - 1)))
            inside = self._whole_blocks(b.add(start, b.index(diagonal.number + 1)))
        else:
            edge = self._whole_blocks(b.add(start, b.index(-diagonal.number)))
            inside = self._whole_blocks(b.add(start, b.index(self.fixed - diagonal.number + self.looped - 2)))
        operands = [o.operand for o in form.outer] + ([] if form.softmax else [i.looped for i in form.inner])
        zeros, count = self.before.zeros(dict.fromkeys([*parameters_of(operands), *factors_of(form)]))
        region = b.region([S64, S64], lambda row, k: [b.load_once(zeros, k)])
        lanes_of_all = power(count if isinstance(count, int) else PROGRAMS)
        return Cut(edge, inside, diagonal.after, diagonal.far, region, Span(b.size(count), lanes_of_all, False))

    def _whole_blocks(self, number: Var) -> Var:
        """The number of looped rows in the whole blocks before `number`, which may be negative."""
        b, width = self.b, self.b.index(self.looped)
        return b.mul(b.quotient(b.op("maximum", number, b.index(0)), width), width)

    def _cost(self) -> Dim:
        widths = sum(
            _extent_number(s) for s in (*(i.depth for i in self.form.inner), *(o.width for o in self.form.outer))
        )
        return make("mul", _extent(self.form.looped), self.fixed * widths)

    # --- spans ---
    def _span(self, seq: Seq, width: int) -> Span:
        extent = _extent(seq)
        full = divides(width, extent)
        return Span(self.b.size(extent), width, full)

    def _whole(self, seq: Seq) -> Span:
        return self._span(seq, lanes(seq))

    def _bind(self, seq: Seq, number: Var) -> None:
        """Binds digits to the parts of their joint number."""
        digits = [d for d in seq if isinstance(d, Digit)]
        for digit, value in zip(digits, delinearize(self.b, number, [d.extent for d in digits])):
            self.narrow.bind((digit,), value)
            self.wide.bind((digit,), value)

    # --- regions ---
    def _scores(self, inner: Inner) -> Scores:
        fixed = self._operand(inner.fixed, self.form.fixed, inner.depth)
        looped = self._operand(inner.looped, self.form.looped, inner.depth)
        return Scores(fixed, looped, self._whole(inner.depth), self._matrix(inner.looped, inner.depth))

    def _matrix(self, operand: Access, columns: Seq) -> Var | None:
        """An operand of looped rows as a matrix of blocks, where that is chosen."""
        place = matrix_of(operand, self.form.looped, columns) if self.descriptors else None
        if place is None:
            return None
        b = self.b
        self._bind(self.form.looped, b.index(0))
        self._bind(columns, b.index(0))
        extents = b.size(_extent(self.form.looped)), b.size(place.columns)
        block = self.looped, self._whole(columns).width
        offset = self.narrow.number(flatten(place.access.index))
        return b.descriptor(self.narrow.buffers[place.access.instr], offset, extents, (b.size(place.stride),), block)

    def _operand(self, access: Access, rows: Seq, columns: Seq) -> Region:
        def fill(row: Var, column: Var) -> Sequence[Var]:
            self._bind(rows, row)
            self._bind(columns, column)
            return [self.narrow.value(access)]

        return self.b.region([S64, S64], fill)

    def _between(self, emit: Callable[[Access], Var] | None = None) -> Between:
        """What is computed between the products; the score as `emit` makes it."""
        form = self.form
        if form.score is None:
            weights = [weight_and_factor(o.weight)[0] for o in form.outer]
            return Between(None, self._elementwise(form.inner_accesses, weights))
        assert form.probability is not None
        weights = [form.outer[0].weight]
        score = self._elementwise(form.inner_accesses, [form.score], emit)
        return Between(score, self._elementwise([form.probability], weights))

    def _fast(self, known: Mapping[Access, bool]) -> Between:
        self.wide.known, self.wide.logarithm = known, self._logarithm if self.rows else None
        between = self._between(partial(self.wide.times, factor=LOG2E))
        self.wide.known, self.wide.logarithm = {}, None
        return between

    def _logarithm(self, top: Access) -> Var:
        assert self.logarithms is not None
        return self.b.load_once(self.logarithms, self.wide.number(flatten(top.index)))

    def _elementwise(
        self, given: Sequence[Access], wanted: Sequence[Access], emit: Callable[[Access], Var] | None = None
    ) -> Region:
        """(i, j, values of `given`) to those of `wanted`, all f32; or to what `emit` makes of these."""
        emit = emit or self.wide.value

        def fill(i: Var, j: Var, *values: Var) -> Sequence[Var]:
            self._bind(self.form.fixed, i)
            self._bind(self.form.looped, j)
            self.wide.replaced = {access: partial(_same, value) for access, value in zip(given, values)}
            return [_converted(self.b, emit(a), F32) for a in wanted]

        return self.b.region([S64, S64, *[F32] * len(given)], fill)

    def _sum(self, outer: Outer) -> Weighted:
        def store(i: Var, w: Var, total: Var) -> Sequence[Var]:
            self._bind(self.form.fixed, i)
            self._bind(outer.width, w)
            factor = 1.0 if self.form.softmax is not None else weight_and_factor(outer.weight)[1]
            self._store(outer.output, self.b.op("multiply", total, self.b.const(factor, F32)) if factor != 1 else total)
            return ()

        values = self._operand(outer.operand, self.form.looped, outer.width)
        stored = self.b.region([S64, S64, F32], store)
        return Weighted(values, self._whole(outer.width), stored, self._matrix(outer.operand, outer.width))

    def _statistics(self) -> Region:
        softmax = self.form.softmax
        assert softmax is not None

        def store(i: Var, top: Var, total: Var) -> Sequence[Var]:
            self._bind(self.form.fixed, i)
            for access in self.form.statistics:
                self._store(access, top if access.instr is softmax.top else total)
            return ()

        return self.b.region([S64, F32, F32], store)

    def _store(self, output: Access, value: Var) -> None:
        buffer: Buffer = self.out[output.instr]
        self.b.store(buffer, self.narrow.number(flatten(output.index)), _converted(self.b, value, buffer.dtype))


def _same(value: Var) -> Var:
    return value


def _converted(b: KernelBuilder, value: Var, dtype: DType) -> Var:
    return value if value.dtype == dtype else b.op("convert", value, dtype=dtype)


def _extent(seq: Seq) -> Dim:
    return product(d.extent for d in seq)


def _extent_number(seq: Seq) -> int:
    return sample(_extent(seq))
