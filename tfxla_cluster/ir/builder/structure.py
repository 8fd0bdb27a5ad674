"""Builder methods for all opcodes that are not elementwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..dim import Dim
from ..dtype import DType
from ..node import Computation, ConvDims, Instr, WindowDim
from ..shape import Shape, array, tuple_of
from .core import Core, as_shape

Rows = Sequence[tuple[Any, ...]]


class Structure(Core):
    """Attributes are named and given as in HLO text."""

    def broadcast(self, x: Instr, dims: Sequence[Dim], dimensions: Sequence[int] = ()) -> Instr:
        """`x` repeated to `dims`; its dimension i is the result's `dimensions[i]`."""
        return self.add_op("broadcast", x, shape=array(x.shape.element_type, tuple(dims)), dimensions=tuple(dimensions))

    def reshape(self, x: Instr, dims: Sequence[Dim]) -> Instr:
        return self.add_op("reshape", x, shape=array(x.shape.element_type, tuple(dims)))

    def dynamic_reshape(self, x: Instr, sizes: Sequence[Instr], dims: Sequence[Dim]) -> Instr:
        return self.add_op("dynamic-reshape", x, *sizes, shape=array(x.shape.element_type, tuple(dims)))

    def bitcast(self, x: Instr, shape: Shape | str) -> Instr:
        return self.add_op("bitcast", x, shape=as_shape(shape))

    def transpose(self, x: Instr, dimensions: Sequence[int]) -> Instr:
        """The result's dimension i is `dimensions[i]` of `x`."""
        return self.add_op("transpose", x, dimensions=tuple(dimensions))

    def reverse(self, x: Instr, dimensions: Sequence[int]) -> Instr:
        return self.add_op("reverse", x, dimensions=tuple(dimensions))

    def slice(self, x: Instr, rows: Rows) -> Instr:
        """`rows`: (start, limit) or (start, limit, stride) a dimension."""
        return self.add_op("slice", x, slice=tuple((*r, 1)[:3] for r in rows))

    def pad(self, x: Instr, value: Instr, rows: Rows) -> Instr:
        """`rows`: (low, high) or (low, high, interior) a dimension."""
        return self.add_op("pad", x, value, padding=tuple((*r, 0)[:3] for r in rows))

    def concatenate(self, operands: Sequence[Instr], dimension: int) -> Instr:
        return self.add_op("concatenate", *operands, dimensions=(dimension,))

    def dynamic_slice(self, x: Instr, starts: Sequence[Instr], sizes: Sequence[Dim]) -> Instr:
        return self.add_op("dynamic-slice", x, *starts, dynamic_slice_sizes=tuple(sizes))

    def dynamic_update_slice(self, x: Instr, update: Instr, starts: Sequence[Instr]) -> Instr:
        return self.add_op("dynamic-update-slice", x, update, *starts)

    def gather(self, x: Instr, indices: Instr, **numbers: Any) -> Instr:
        return self.add_op("gather", x, indices, **numbers)

    def scatter(
        self, operands: Sequence[Instr], indices: Instr, updates: Sequence[Instr], to_apply: Computation, **numbers: Any
    ) -> Instr:
        return self.add_op("scatter", *operands, indices, *updates, to_apply=to_apply, **numbers)

    def reduce(
        self, operands: Sequence[Instr], inits: Sequence[Instr], dimensions: Sequence[int], to_apply: Computation
    ) -> Instr:
        return self.add_op("reduce", *operands, *inits, dimensions=tuple(dimensions), to_apply=to_apply)

    def reduce_window(
        self, operands: Sequence[Instr], inits: Sequence[Instr], window: Sequence[WindowDim], to_apply: Computation
    ) -> Instr:
        return self.add_op("reduce-window", *operands, *inits, window=tuple(window), to_apply=to_apply)

    def select_and_scatter(
        self,
        x: Instr,
        source: Instr,
        init: Instr,
        window: Sequence[WindowDim],
        select: Computation,
        scatter: Computation,
    ) -> Instr:
        return self.add_op("select-and-scatter", x, source, init, window=tuple(window), select=select, scatter=scatter)

    def sort(self, operands: Sequence[Instr], dimension: int, to_apply: Computation, is_stable: bool = False) -> Instr:
        return self.add_op("sort", *operands, dimensions=(dimension,), is_stable=is_stable, to_apply=to_apply)

    def topk(self, x: Instr, shape: Shape | str, k: int, largest: bool = True) -> Instr:
        return self.add_op("topk", x, shape=as_shape(shape), k=k, largest=largest)

    def dot(
        self,
        x: Instr,
        y: Instr,
        lhs_contracting: Sequence[int] = (),
        rhs_contracting: Sequence[int] = (),
        lhs_batch: Sequence[int] = (),
        rhs_batch: Sequence[int] = (),
        dtype: DType | None = None,
    ) -> Instr:
        """Result dimensions: batch, the rest of x, the rest of y; `dtype` when it is not that of x."""
        return self.add_op(
            "dot",
            x,
            y,
            shape=None if dtype is None else array(dtype),
            lhs_contracting_dims=tuple(lhs_contracting),
            rhs_contracting_dims=tuple(rhs_contracting),
            lhs_batch_dims=tuple(lhs_batch),
            rhs_batch_dims=tuple(rhs_batch),
        )

    def convolution(
        self,
        x: Instr,
        kernel: Instr,
        window: Sequence[WindowDim],
        dim_labels: ConvDims,
        feature_group_count: int = 1,
        batch_group_count: int = 1,
        dtype: DType | None = None,
    ) -> Instr:
        return self.add_op(
            "convolution",
            x,
            kernel,
            shape=None if dtype is None else array(dtype),
            window=tuple(window),
            dim_labels=dim_labels,
            feature_group_count=feature_group_count,
            batch_group_count=batch_group_count,
        )

    def tuple(self, *elements: Instr) -> Instr:
        return self.add_op("tuple", *elements)

    def get_tuple_element(self, x: Instr, index: int) -> Instr:
        return self.add_op("get-tuple-element", x, index=index)

    def call(self, to_apply: Computation, *args: Instr) -> Instr:
        return self.add_op("call", *args, to_apply=to_apply)

    def fusion(self, calls: Computation, *args: Instr, kind: str = "kLoop") -> Instr:
        return self.add_op("fusion", *args, kind=kind, calls=calls)

    def while_(self, state: Instr, condition: Computation, body: Computation) -> Instr:
        return self.add_op("while", state, condition=condition, body=body)

    def conditional(self, selector: Instr, branches: Sequence[Computation], args: Sequence[Instr]) -> Instr:
        """A pred selects branch 0 when true, else 1; an s32 selects by number (the last when out of range)."""
        if selector.shape.element_type.kind == "pred":
            return self.add_op(
                "conditional", selector, *args, true_computation=branches[0], false_computation=branches[1]
            )
        return self.add_op("conditional", selector, *args, branch_computations=tuple(branches))

    def batch_norm_inference(
        self, x: Instr, scale: Instr, offset: Instr, mean: Instr, variance: Instr, epsilon: float, feature_index: int
    ) -> Instr:
        return self.add_op(
            "batch-norm-inference", x, scale, offset, mean, variance, epsilon=epsilon, feature_index=feature_index
        )

    def batch_norm_training(self, x: Instr, scale: Instr, offset: Instr, epsilon: float, feature_index: int) -> Instr:
        return self.add_op("batch-norm-training", x, scale, offset, epsilon=epsilon, feature_index=feature_index)

    def batch_norm_grad(
        self, x: Instr, scale: Instr, mean: Instr, variance: Instr, grad: Instr, epsilon: float, feature_index: int
    ) -> Instr:
        return self.add_op(
            "batch-norm-grad", x, scale, mean, variance, grad, epsilon=epsilon, feature_index=feature_index
        )

    def cholesky(self, x: Instr, lower: bool = True) -> Instr:
        return self.add_op("cholesky", x, lower=lower)

    def triangular_solve(
        self,
        a: Instr,
        b: Instr,
        *,
        left_side: bool,
        lower: bool,
        unit_diagonal: bool = False,
        transpose_a: str = "NO_TRANSPOSE",
    ) -> Instr:
        return self.add_op(
            "triangular-solve",
            a,
            b,
            left_side=left_side,
            lower=lower,
            unit_diagonal=unit_diagonal,
            transpose_a=transpose_a,
        )

    def fft(self, x: Instr, fft_type: str, fft_length: Sequence[int]) -> Instr:
        return self.add_op("fft", x, fft_type=fft_type, fft_length=tuple(fft_length))

    def rng_bit_generator(self, state: Instr, bits: Shape | str, algorithm: str = "rng_default") -> Instr:
        """A tuple of the new state and `bits`."""
        return self.add_op("rng-bit-generator", state, shape=tuple_of(state.shape, as_shape(bits)), algorithm=algorithm)

    def rng(self, low: Instr, high: Instr, shape: Shape | str, distribution: str = "rng_uniform") -> Instr:
        """Stateful: other values at each run."""
        return self.add_op("rng", low, high, shape=as_shape(shape), distribution=distribution)

    def get_dimension_size(self, x: Instr, dimension: int) -> Instr:
        return self.add_op("get-dimension-size", x, dimensions=(dimension,))

    def set_dimension_size(self, x: Instr, size: Instr, dimension: int, shape: Shape | None = None) -> Instr:
        return self.add_op("set-dimension-size", x, size, shape=shape, dimensions=(dimension,))

    def after_all(self, *tokens: Instr) -> Instr:
        return self.add_op("after-all", *tokens)

    def optimization_barrier(self, x: Instr) -> Instr:
        return self.add_op("opt-barrier", x)

    def custom_call(self, target: str, operands: Sequence[Instr], shape: Shape | str, **attrs: Any) -> Instr:
        return self.add_op("custom-call", *operands, shape=as_shape(shape), custom_call_target=target, **attrs)
