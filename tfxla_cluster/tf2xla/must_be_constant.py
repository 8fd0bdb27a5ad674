"""Which arguments of a function must be known when it is lowered: TensorFlow's table, walked backwards.

An argument is needed as a constant when some op takes a value computed from it as a shape, an axis or the
like. Ops that read only a shape (Shape, Rank, Size) stop the walk: sizes are known anyway.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tensorflow.python.framework import op_def_registry

from .function_calls import LOOPS, PASSING, Library, passing

_TABLE_TEXT = """
reduction_indices: All Any Max Mean Min Prod Sum
dimension: ArgMax ArgMin XlaVariadicSort
orig_input_shape: AvgPool3DGrad AvgPoolGrad
crops: BatchToSpace BatchToSpaceND
block_shape: BatchToSpaceND SpaceToBatchND
size: Bincount DenseBincount ResizeBilinear ResizeNearestNeighbor Slice TensorArrayV3
s0,s1: BroadcastArgs BroadcastGradientArgs
shape: BroadcastTo ConcatOffset Empty ParameterizedTruncatedNormal RandomStandardNormal RandomUniform
    RandomUniformInt Reshape ScatterNd StatefulStandardNormalV2 StatefulTruncatedNormal StatefulUniform
    StatefulUniformFullInt StatefulUniformInt StatelessParameterizedTruncatedNormal StatelessRandomNormal
    StatelessRandomNormalV2 StatelessRandomUniform StatelessRandomUniformFullInt StatelessRandomUniformFullIntV2
    StatelessRandomUniformInt StatelessRandomUniformIntV2 StatelessRandomUniformV2 StatelessTruncatedNormal
    StatelessTruncatedNormalV2 StridedSliceGrad TruncatedNormal XlaRngBitGenerator
group_assignment: CollectiveAssignGroupV2 XlaAllReduce XlaReduceScatter
group_key,group_size: CollectiveReduceV2
concat_dim: Concat ConcatOffset
axis: ConcatV2 Cumprod Cumsum CumulativeLogsumexp GatherV2 ReverseV2 Roll UniqueV2
perm: ConjugateTranspose Transpose
filter_sizes: Conv2DBackpropFilter Conv3DBackpropFilterV2 DepthwiseConv2dNativeBackpropFilter
input_sizes: Conv2DBackpropInput Conv3DBackpropInputV2 DepthwiseConv2dNativeBackpropInput
indices: DynamicStitch ParallelDynamicStitch
element_shape: EmptyTensorList TensorListFromTensor TensorListReserve TensorListSplit
max_num_elements: EmptyTensorList
dim: ExpandDims
dims: Fill Reverse
fft_length: IRFFT IRFFT2D IRFFT3D RFFT RFFT2D RFFT3D
k: InTopKV2 MatrixDiagPartV2 MatrixDiagPartV3 MatrixDiagV2 MatrixDiagV3 MatrixSetDiagV2 MatrixSetDiagV3 TopKV2
padding_value: MatrixDiagPartV2 MatrixDiagPartV3 MatrixDiagV2 MatrixDiagV3
num_cols,num_rows: MatrixDiagV2 MatrixDiagV3
num: LinSpace
x,y: ListDiff
ksize,strides: MaxPoolGradGradV2 MaxPoolGradV2 MaxPoolV2
paddings: MirrorPad MirrorPadGrad Pad PadV2 SpaceToBatch SpaceToBatchND
num_samples: Multinomial StatelessMultinomial
max_output_size: NonMaxSuppressionV3 NonMaxSuppressionV4
depth: OneHot
delta,limit,start: Range
begin,end,strides: ResourceStridedSliceAssign StridedSlice StridedSliceGrad TensorStridedSliceUpdate
begin: Slice
alg: RngReadAndSkip StatelessRandomNormalV2 StatelessRandomUniformFullIntV2 StatelessRandomUniformIntV2
    StatelessRandomUniformV2 StatelessTruncatedNormalV2 StochasticCastToInt
algorithm: RngSkip StatefulStandardNormalV2 StatefulTruncatedNormal StatefulUniform StatefulUniformFullInt
    StatefulUniformInt XlaRngBitGenerator
num_segments: SegmentMaxV2 SegmentMinV2 SegmentProdV2 SegmentSumV2 UnsortedSegmentMax UnsortedSegmentMin
    UnsortedSegmentProd UnsortedSegmentSum
output_shape: SparseToDense
split_dim: Split SplitV
size_splits: SplitV
max_size: StackV2
lengths: TensorArraySplitV3 TensorListSplit
num_elements: TensorListReserve
multiples: Tile
scales,zero_points: UniformDequantize UniformQuantize UniformQuantizedClipByValue
lhs_scales,lhs_zero_points,output_scales,output_zero_points,rhs_scales,rhs_zero_points: UniformQuantizedAdd
    UniformQuantizedConvolution UniformQuantizedDot
input_scales,input_zero_points,output_scales,output_zero_points: UniformRequantize
broadcast_dims: XlaBroadcastHelper
feature_group_count,lhs_dilation,padding,rhs_dilation,window_strides: XlaConv XlaConvV2
size_indices: XlaDynamicSlice
slice_sizes: XlaGather
padding_high,padding_interior,padding_low: XlaPad
scatter_dimension: XlaReduceScatter
base_dilations,padding,window_dilations,window_dimensions,window_strides: XlaReduceWindow
dim_index: XlaRemoveDynamicDimensionSize XlaSetDynamicDimensionSize
padding,window_dimensions,window_strides: XlaSelectAndScatter
bound: XlaSetBound
host_args: _FusedConv2D
"""


def _parse(text: str) -> dict[str, frozenset[str]]:
    table: dict[str, set[str]] = {}
    for line in text.replace("\n    ", " ").strip().splitlines():
        names, _, ops = line.partition(": ")
        for op in ops.split():
            table.setdefault(op, set()).update(names.split(","))
    return {op: frozenset(names) for op, names in table.items()}


# Op -> names of its inputs that must be constants (TensorFlow 2.21: XlaOpRegistry::CompileTimeConstantInputArgNames).
TABLE = _parse(_TABLE_TEXT)
METADATA_OPS = frozenset(
    [
        *("Shape", "ShapeN", "Rank", "Size", "VariableShape", "VarIsInitializedOp"),
        *("TensorListElementShape", "TensorListLength"),
    ]
)
SELECTOR_FIRST = ("If", "StatelessIf", "Case", "StatelessCase")


def input_counts(node: Any) -> Iterator[tuple[str, int]]:
    """(input name, how many tensors it takes) of a NodeDef, in order; nothing for an op that is a function."""
    op_def = op_def_registry.get(node.op)
    for arg in op_def.input_arg if op_def is not None else ():
        if arg.number_attr:
            yield arg.name, node.attr[arg.number_attr].i if arg.number_attr in node.attr else 0
        elif arg.type_list_attr:
            yield arg.name, len(node.attr[arg.type_list_attr].list.type) if arg.type_list_attr in node.attr else 0
        else:
            yield arg.name, 1


def required_inputs(node: Any, library: Library, known: Mapping[str, frozenset[int]] | None = None) -> frozenset[int]:
    """Positions of a node's data inputs that must be constants. `library(name)` gives a FunctionDef or None, `known`
    the constant arguments of the functions that it calls (None: they are looked at)."""
    wanted = TABLE.get(node.op)
    if wanted is not None:
        found: list[int] = []
        position = 0
        for name, count in input_counts(node):
            found += range(position, position + count) if name in wanted else ()
            position += count
        return frozenset(found)
    callees = passing(node, library)
    if not callees:
        return frozenset()
    if known is None:
        known = _constant_args(callees, library)
    needed = frozenset().union(*(known.get(d.signature.name, frozenset()) for d in callees))
    if node.op in LOOPS:
        return frozenset(i for i in needed if i in loop_invariant(callees[-1]))
    return frozenset(i + 1 for i in needed) if node.op in SELECTOR_FIRST else needed


def loop_invariant(body: Any) -> frozenset[int]:
    """Positions of a loop body's arguments that it returns unchanged."""
    producers = {n.name: n for n in body.node_def}
    found = []
    for i, (arg, out) in enumerate(zip(body.signature.input_arg, body.signature.output_arg)):
        source = body.ret[out.name]
        while source.split(":")[0] in producers and producers[source.split(":")[0]].op == "Identity":
            source = producers[source.split(":")[0]].input[0]
        found += [i] if source == arg.name else []
    return frozenset(found)


def constant_args(function: Any, library: Library) -> frozenset[int]:
    """Positions of the FunctionDef's arguments whose values its lowering needs."""
    return _constant_args([function], library)[function.signature.name]


def _constant_args(roots: Iterable[Any], library: Library) -> dict[str, frozenset[int]]:
    """As `constant_args`, of these functions and all that they call, by name: each once, callees first."""
    library = functools.cache(library)  # asked for the op of each node, of which there are few
    known: dict[str, frozenset[int]] = {}
    seen: set[str] = set()
    for root in roots:
        stack = [] if root.signature.name in seen else [(root, _callees(root, library))]
        seen.add(root.signature.name)
        while stack:
            function, rest = stack[-1]
            fresh = next((callee for callee in rest if callee.signature.name not in seen), None)
            if fresh is None:
                known[function.signature.name] = _own_constant_args(function, library, known)
                stack.pop()
            else:
                seen.add(fresh.signature.name)
                stack.append((fresh, _callees(fresh, library)))
    return known


def _callees(function: Any, library: Library) -> Iterator[Any]:
    return (found for node in function.node_def if node.op not in TABLE for found in passing(node, library))


def _may_require(op: str, library: Library) -> bool:
    """May nodes of this op need constants, by themselves or by what they call?"""
    return op in TABLE or op in PASSING or library(op) is not None


def _own_constant_args(function: Any, library: Library, known: Mapping[str, frozenset[int]]) -> frozenset[int]:
    read = _feeding(function, library, known)
    return frozenset(i for i, arg in enumerate(function.signature.input_arg) if arg.name in read)


def feeding(functions: Sequence[Any], library: Library) -> dict[str, frozenset[str]]:
    """Name of a FunctionDef -> names of its arguments and nodes from which what has to be a constant is computed; sizes
    are known anyway."""
    known = _constant_args(functions, library)
    return {function.signature.name: _feeding(function, library, known) for function in functions}


def _feeding(function: Any, library: Library, known: Mapping[str, frozenset[int]]) -> frozenset[str]:
    producers = {n.name: n for n in function.node_def}
    asked = [n for n in function.node_def if _may_require(n.op, library)]
    seen = {ref.split(":")[0] for n in asked for ref in _pick(n, required_inputs(n, library, known))}
    pending = list(seen)
    while pending:
        node = producers.get(pending.pop())
        if node is None or node.op in METADATA_OPS:
            continue
        for source in (ref.split(":")[0] for ref in node.input if not ref.startswith("^")):
            if source not in seen:
                seen.add(source)
                pending.append(source)
    return frozenset(seen)


def _pick(node: Any, positions: Iterable[int]) -> Sequence[str]:
    data = [ref for ref in node.input if not ref.startswith("^")]
    return [data[i] for i in positions if i < len(data)]
