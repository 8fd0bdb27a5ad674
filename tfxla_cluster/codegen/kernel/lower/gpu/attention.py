"""Attention on a GPU: a program has a block of fixed rows and goes over the looped ones (`fusion.attention_form`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from .....decision import YES, Decision, no
from .....errors import UnsupportedError
from .....fusion.attention_form import Form, Inner, Outer, chain_after, form_of
from .....fusion.index import Access, Digit, Seq, flatten
from .....fusion.program import Program, output_instrs
from .....ir.dim import Dim, ceil_div, make, product, sample
from .....ir.dtype import F32, S64, DType
from .....ir.node import Instr
from .....target import Target
from ...attention_ir import Attention, Between, Cut, Scores, Span, Weighted
from ...builder import KernelBuilder
from ...choice import Knobs
from ...ir import Buffer, Region, Var
from ...unit import Unit, UnitKernel, UnitRef
from ..dot import precision
from ..emit import Emitter
from ..space import delinearize
from .attention_cut import Diagonal, diagonal_of
from .attention_rows import logarithms, probabilities
from .attention_scores import LOG2E, ScoreEmitter, weight_and_factor
from .product_factors import PRECISIONS
from .shapes import MULTIPLE, power

LEAST = 16  # lanes of a block that a matrix unit multiplies
WIDEST = 256  # lanes of a row of an operand, all of which a block holds
_NO_LOOPS = Program((), (), (), (), (), (), (), (), (), (), ())
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
    return YES


def _precisions(form: Form) -> set[str]:
    """As what the products of f32 multiply it; narrower operands are the same in all."""
    dots = [i.access.instr for i in form.inner] + [chain_after(o.output.instr)[0] for o in form.outer]
    return {PRECISIONS.get(precision(d), "ieee") for d in dots if d.operands[0].shape.element_type == F32} or {"ieee"}


def lower_attention(instr: Instr, target: Target, knobs: Knobs) -> Unit:
    """The kernel of a fusion that has a form; UnsupportedError where it has none or no kernel."""
    comp = instr.attrs["calls"]
    form = form_of(output_instrs(comp), [i for i in comp.instrs if i.opcode not in ("parameter", "tuple")])
    decision = supports(form)
    if not decision:
        raise UnsupportedError(decision.reason)
    kernel = _Kernel(instr, form, knobs)
    if kernel.rows is None:
        return Unit((kernel.build(),))
    step = logarithms(instr.name, kernel.rows, kernel.row_operands, kernel.bytes_of_weights, temp=0)
    return Unit((step, kernel.build()), (product((*kernel.rows.top.instr.shape.dims, F32.itemsize)),))


class _Kernel:
    def __init__(self, instr: Instr, form: Form, knobs: Knobs) -> None:
        comp = instr.attrs["calls"]
        self.form, self.params, self.outputs = form, comp.params, output_instrs(comp)
        self.b = KernelBuilder(instr.name, MULTIPLE)
        buffers = {p: self.b.input(p.shape.element_type) for p in self.params}
        self.out = {o: self.b.output(o.shape.element_type) for o in self.outputs}
        self.narrow = Emitter(self.b, _NO_LOOPS, buffers)
        self.wide = ScoreEmitter(self.b, _NO_LOOPS, buffers)
        widest = max(_extent_number(s) for s in (*(i.depth for i in form.inner), *(o.width for o in form.outer)))
        small, sums = widest <= 64, len(form.outer)
        self.fixed = knobs.take("fixed", _rows(form.fixed, 64 if sums > 1 else 128), (32, 64, 128))
        self.looped = knobs.take("looped", _rows(form.looped, 64 if widest <= 128 else 32), (32, 64, 128))
        self.warps = knobs.take("warps", 4, (8,))
        self.diagonal = diagonal_of(form)
        self.reference = bool(self._may_refer() and knobs.take("reference", 1, (0,)))
        self.stages = knobs.take("stages", 3 if small else 2, (2, 3))
        self.rows = probabilities(form)
        self.logarithms = None if self.rows is None else self.b.input(F32)

    @property
    def bytes_of_weights(self) -> int:
        return max(o.operand.instr.shape.element_type.itemsize for o in self.form.outer)

    @property
    def row_operands(self) -> list[int]:
        """The numbers of the operands that are a row's maximum and sum."""
        found = (self.rows.top, self.rows.total) if self.rows else ()
        return [int(a.instr.attrs["parameter_number"]) for a in found]

    def _may_refer(self) -> bool:
        """Whether the first block's maximum may serve for all: weights have the range of f32, no statistics leave, and
        a mask does not hide the first block."""
        form = self.form
        halves = any(o.operand.instr.shape.element_type.name == "f16" for o in form.outer)
        hidden = self.diagonal is not None and not self.diagonal.after
        return form.softmax is not None and not form.statistics and not halves and not hidden

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
                self._fast({}),
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
        inputs += [UnitRef("temp", 0)] if self.rows else []
        return UnitKernel(kernel, tuple(inputs), tuple(UnitRef("result", n) for n in range(len(self.outputs))))

    def _cut(self, diagonal: Diagonal, start: Var) -> Cut:
        b, form = self.b, self.form
        if diagonal.after:
            edge = self._whole_blocks(b.add(start, b.index(self.fixed + diagonal.number + self.looped - 1)))
            inside = self._whole_blocks(b.add(start, b.index(diagonal.number + 1)))
        else:
            edge = self._whole_blocks(b.add(start, b.index(-diagonal.number)))
            inside = self._whole_blocks(b.add(start, b.index(self.fixed - diagonal.number + self.looped - 2)))
        checked = [(self._operand(o.operand, form.looped, o.width), self._whole(o.width)) for o in form.outer]
        if form.softmax is None:
            known = {o.operand.instr for o in form.outer}
            checked += [
                (self._operand(i.looped, form.looped, i.depth), self._whole(i.depth))
                for i in form.inner
                if i.looped.instr not in known
            ]
        return Cut(edge, inside, diagonal.after, diagonal.far, tuple(checked))

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
        full = isinstance(extent, int) and extent % width == 0
        return Span(self.b.size(extent), width, full)

    def _whole(self, seq: Seq) -> Span:
        return self._span(seq, max(LEAST, power(_extent_number(seq))))

    def _bind(self, seq: Seq, number: Var) -> None:
        """Binds digits to the parts of their joint number."""
        digits = [d for d in seq if isinstance(d, Digit)]
        for digit, value in zip(digits, delinearize(self.b, number, [d.extent for d in digits])):
            self.narrow.bind((digit,), value)
            self.wide.bind((digit,), value)

    # --- regions ---
    def _scores(self, inner: Inner) -> Scores:
        fixed = self._operand(inner.fixed, self.form.fixed, inner.depth)
        return Scores(fixed, self._operand(inner.looped, self.form.looped, inner.depth), self._whole(inner.depth))

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
        return Weighted(values, self._whole(outer.width), self.b.region([S64, S64, F32], store))

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


def _rows(seq: Seq, most: int) -> int:
    """Lanes for a block of rows: no more than there are."""
    return max(LEAST, min(most, power(_extent_number(seq))))
