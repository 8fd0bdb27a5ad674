"""A call of LAPACK while its unit is made: its arguments, the kernels before and after it.

LAPACK's matrices are column-major and are worked on in place: kernels transpose them in and out. What a routine may
leave unwritten is zeroed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....errors import UnsupportedError
from ....ir import dim as dims_
from ....ir.dim import Dim
from ....ir.dtype import S32, S64, DType
from ....ir.lapack_calls import LapackCall
from ....ir.node import Instr
from ....ir.shape import Shape, array
from ....target import Target
from ..builder import KernelBuilder
from ..choice import DEFAULT, Knobs
from ..foreign_call import LAPACK, Argument, Input, Output, Work, encode, integer, letter, tasks_of
from ..ir import Kernel
from ..unit import Unit, UnitCopy, UnitKernel, UnitLibrary, UnitRef
from . import fused

_INT = 4  # bytes of LAPACK's integers
_MOST = 2**31 - 1  # that they hold


class Call:
    """The unit of a call while it is made: kernels before it, its arguments, kernels after it.

    `m`, `n`: rows and columns of the first operand's matrices. Buffers that LAPACK writes are outputs of the step.
    """

    def __init__(self, instr: Instr, call: LapackCall, target: Target) -> None:
        self.instr, self.call, self.target = instr, call, target
        self.shapes = instr.shape.elements if instr.shape.is_tuple else (instr.shape,)
        first = instr.operands[0].shape
        self.dtype = first.element_type
        self.real = call.real
        self.is_complex = self.dtype.kind == "complex"
        self.batch = first.dims[: call.batch_rank(first.rank)]
        self.count = dims_.product(self.batch)
        self.m, self.n = first.dims[-2:] if first.rank >= 2 else (first.dims[-1], first.dims[-1])
        self.tasks = tasks_of(self.count)
        self._before: list[UnitKernel | UnitLibrary | UnitCopy] = []
        self._after: list[UnitKernel | UnitLibrary | UnitCopy] = []
        self._temps: list[Dim] = []
        self._inputs: list[UnitRef] = []
        self._outputs: list[UnitRef] = []
        self._arguments: list[Argument] = []

    # --- sizes ---
    @property
    def least(self) -> Dim:
        """min(m, n)"""
        return dims_.make("min", self.m, self.n)

    @property
    def most(self) -> Dim:
        """max(m, n)"""
        return dims_.make("max", self.m, self.n)

    # --- arguments ---
    def add(self, *arguments: Argument) -> None:
        self._arguments += arguments

    def letters(self, *codes: str) -> None:
        self.add(*map(letter, codes))

    def integers(self, *values: Dim) -> None:
        for value in values:
            if isinstance(value, int) and value > _MOST:
                raise UnsupportedError(f"{self.instr.name} is too large for LAPACK: {value} does not fit its integers")
        self.add(*map(integer, values))

    def matrix(self, number: int, operand: int | None = None) -> None:
        """Result `number`, column-major, and its leading dimension; it begins as an operand."""
        shape = self.shapes[number]
        held = self._temp(shape.byte_size)
        turned = _turned(shape)
        if operand is not None:
            self._before += self._moved(shape, turned, UnitRef("operand", operand), held)
        elif self._may_be_unwritten():
            self._before += self._zeroed(turned, held)
        self.output(held, turned)
        self.integers(dims_.make("max", shape.dims[-2], 1))
        self._after += self._moved(turned, shape, held, UnitRef("result", number))

    def lost(self, operand: int) -> None:
        """An operand, column-major, and its leading dimension; what LAPACK leaves there is no result."""
        shape = self.instr.operands[operand].shape
        held, turned = self._temp(shape.byte_size), _turned(shape)
        self._before += self._moved(shape, turned, UnitRef("operand", operand), held)
        self.output(held, turned)
        self.integers(dims_.make("max", shape.dims[-2], 1))

    def pairs(self, number: int, imaginary: int) -> None:
        """Result `number`, complex, of a real matrix in which conjugate vectors are a column of real and one of
        imaginary parts; which are, the result `imaginary` tells, their eigenvalues' imaginary parts."""
        shape = self.shapes[number]
        turned = array(self.dtype, _turned(shape).dims)
        held = self._temp(turned.byte_size)
        if self._may_be_unwritten():
            self._before += self._zeroed(turned, held)
        self.output(held, turned)
        self.integers(dims_.make("max", self.n, 1))
        places = (held, UnitRef("result", imaginary)), (UnitRef("result", number),)
        self._after.append(UnitKernel(_joined(shape, self.dtype), *places))

    def vector(self, number: int, operand: int | None = None, skipped: int = 0) -> None:
        """Result `number`, as it lies, from an element on; it begins as an operand."""
        shape, ref = self.shapes[number], UnitRef("result", number)
        if operand is not None:
            self._before.append(UnitCopy(UnitRef("operand", operand), ref, shape.byte_size))
        elif self._may_be_unwritten():
            self._before += self._zeroed(shape, ref)
        self.output(ref, shape, skipped)

    def output(self, ref: UnitRef, shape: Shape, skipped: int = 0) -> None:
        """The address in a buffer of `shape`, on by one of the batch a call."""
        each, size = dims_.product(shape.dims[len(self.batch) :]), shape.element_type.itemsize
        self.add(Output(self._output(ref), dims_.make("mul", each, size), skipped * size))

    def input(self, operand: int) -> None:
        """The address in an operand, which LAPACK only reads."""
        shape = self.instr.operands[operand].shape
        each = dims_.product(shape.dims[len(self.batch) :])
        self._inputs.append(UnitRef("operand", operand))
        self.add(Input(len(self._inputs) - 1, dims_.make("mul", each, shape.element_type.itemsize)))

    def info(self, number: int | None = None) -> None:
        """Result `number`, the status of each of the batch; None: nobody asks."""
        if number is None:
            self.work(1, S32)
        else:
            self.add(Output(self._output(UnitRef("result", number)), _INT))

    def work(self, elements: Dim, dtype: DType, length: bool = False) -> None:
        """Memory of a task of its own; and how long it is."""
        elements = dims_.make("max", elements, 1)
        size = dims_.ceil_div(dims_.make("mul", elements, dtype.itemsize), 64) * 64
        ref = self._temp(dims_.make("mul", size, self.tasks))
        self.add(Work(self._output(ref), size))
        if length:
            self.integers(elements)

    def _may_be_unwritten(self) -> bool:
        """LAPACK writes no vectors where none are asked for, and returns at once where there is no element."""
        first = self.instr.operands[0].shape
        empty = not all(isinstance(d, int) and d > 0 for d in first.dims[-2:])
        return empty or any(self.call.letter(key, "V") == "N" for key in ("mode", "compute_left", "compute_right"))

    def _temp(self, size: Dim) -> UnitRef:
        self._temps.append(size)
        return UnitRef("temp", len(self._temps) - 1)

    def _output(self, ref: UnitRef) -> int:
        if ref not in self._outputs:
            self._outputs.append(ref)
        return self._outputs.index(ref)

    # --- kernels ---
    def _moved(self, source: Shape, target: Shape, read: UnitRef, write: UnitRef) -> Sequence[UnitKernel]:
        """Kernels that swap the innermost two dims."""
        order = (*range(source.rank - 2), source.rank - 1, source.rank - 2)
        operand = Instr("x", "parameter", source, attrs={"parameter_number": 0})
        moved = Instr(self.instr.name, "transpose", target, (operand,), {"dimensions": order})
        return self._kernels(moved, read, write)

    def _zeroed(self, shape: Shape, write: UnitRef) -> Sequence[UnitKernel]:
        zero = Instr("zero", "constant", array(shape.element_type), (), {"literal": shape.element_type.numpy.type(0)})
        filled = Instr(self.instr.name, "broadcast", shape, (zero,), {"dimensions": ()})
        return self._kernels(filled, write, write)

    def _kernels(self, instr: Instr, read: UnitRef, write: UnitRef) -> Sequence[UnitKernel]:
        unit = fused.lower_single(instr, self.target, Knobs(DEFAULT))
        places = {"operand": read, "result": write}
        made = []
        for step in unit.steps:
            assert isinstance(step, UnitKernel), step
            inputs, outputs = (tuple(places[r.kind] for r in refs) for refs in (step.inputs, step.outputs))
            made.append(replace(step, inputs=inputs, outputs=outputs))
        return made

    def unit(self) -> Unit:
        cost = dims_.make("mul", dims_.make("mul", self.least, self.least), self.most)
        each = dims_.make("mul", dims_.ceil_div(self.count, self.tasks), dims_.make("max", cost, 1))
        sizes = encode(self._arguments, self.count)
        call = UnitLibrary(
            f"{LAPACK}{self.call.name}", tuple(self._inputs), tuple(self._outputs), (), sizes, self.tasks, each
        )
        return Unit((*self._before, call, *self._after), tuple(self._temps))


def _turned(shape: Shape) -> Shape:
    return array(shape.element_type, (*shape.dims[:-2], shape.dims[-1], shape.dims[-2]))


def _joined(shape: Shape, real: DType) -> Kernel:
    """Columns of real and imaginary parts, column-major -> the complex matrix. A task a matrix."""
    b, n = KernelBuilder("eigenvectors"), shape.dims[-1]
    parts, values, joined = b.input(real), b.input(real), b.output(shape.element_type)
    size = b.size(n)
    start, base = b.mul(b.task, size), b.mul(b.task, b.size(dims_.make("mul", n, n)))
    zero, one, last = b.const(0, real), b.index(1), b.op("subtract", size, b.index(1))
    with b.loop(b.index(0), size) as column:
        value = b.load(values, b.add(start, column))
        first, second = b.compare(value, zero, "GT"), b.compare(value, zero, "LT")
        before = b.op("maximum", b.op("subtract", column, one), b.index(0))
        after = b.op("minimum", b.add(column, one), last)
        of_real = b.op("select", second, before, column, dtype=S64)
        of_imaginary = b.op("select", first, after, column, dtype=S64)
        with b.loop(b.index(0), size) as row:
            re, im = (b.load(parts, b.add(base, b.add(b.mul(place, size), row))) for place in (of_real, of_imaginary))
            turned = b.op("select", second, b.op("negate", im), zero, dtype=real)
            im = b.op("select", first, im, turned, dtype=real)
            value = b.op("complex", re, im, dtype=shape.element_type)
            b.store(joined, b.add(base, b.add(b.mul(row, size), column)), value)
    tasks = dims_.product(shape.dims[:-2])
    return b.finish(tasks, dims_.make("max", dims_.make("mul", n, n), 1))
