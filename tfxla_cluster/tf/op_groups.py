"""Tables about TensorFlow ops: the groups of `--tf_xla_ops_to_cluster`, and inputs that must be constants.

Names are TensorFlow's.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_PWRED = "ArgMax ArgMin DiagPart LogSoftmax Softmax SparseSoftmaxCrossEntropyWithLogits"

GROUPS: dict[str, frozenset[str]] = {
    name: frozenset(words.split())
    for name, words in {
        "PW": (
            "Abs Acos Acosh Add AddN AddV2 Angle ApproximateEqual Asin Atan Atan2 Atanh Bitcast BitwiseAnd "
            "BitwiseOr BitwiseXor Cast Ceil ClipByValue CollectiveAssignGroupV2 CollectiveReduceV2 Complex "
            "ComplexAbs Conj ConjugateTranspose Const Cos Cosh Digamma Div DivNoNan Elu EluGrad Empty Equal Erf "
            "Erfc Erfinv Exp Expm1 Floor FloorDiv FloorMod Greater GreaterEqual Identity IdentityN Imag Inv "
            "Invert IsFinite IsInf IsNan LeakyReluGrad LeftShift Less LessEqual Lgamma Log Log1p LogicalAnd "
            "LogicalNot LogicalOr Maximum Minimum Mod Mul MulNoNan Ndtri Neg NotEqual PlaceholderWithDefault Pow "
            "PreventGradient Real RealDiv Reciprocal ReciprocalGrad Relu Relu6 Relu6Grad ReluGrad RightShift Rint "
            "Round Rsqrt RsqrtGrad Select SelectV2 Selu SeluGrad Sigmoid SigmoidGrad Sign Sin Sinh Snapshot "
            "Softplus SoftplusGrad Softsign SoftsignGrad Sqrt SqrtGrad Square SquaredDifference StopGradient Sub "
            "Tan Tanh TanhGrad Transpose TruncateDiv TruncateMod Xdivy Xlog1py Xlogy _EagerConst "
            "_UnaryOpsComposition "
        ),
        "RED": "All Any Max Mean Min Prod Sum",
        "PWRED": _PWRED,
        "REDUCEWINDOW": _PWRED,
        "REDUCEWINDOWPW": "BiasAddGrad LRN LRNGrad",
        "BN": (
            "FusedBatchNorm FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3 FusedBatchNormV2 "
            "FusedBatchNormV3 _FusedBatchNormEx "
        ),
        "Conv": "_FusedConv2D",
        "SORT": "TopKV2",
        "MISC": (
            "ApproxTopK BiasAdd BroadcastArgs BroadcastGradientArgs BroadcastTo Concat ConcatOffset ConcatV2 "
            "Const DeviceIndex ExpandDims Fill InvertPermutation MirrorPad MirrorPadGrad NoOp OneHot OnesLike "
            "Pack Pad PadV2 Range Rank Reshape ResourceStridedSliceAssign Reverse ReverseSequence ReverseV2 Shape "
            "ShapeN Size Slice Split SplitV Squeeze StridedSlice StridedSliceGrad TensorStridedSliceUpdate Tile "
            "Transpose Unpack XlaConcatND XlaSplitND ZerosLike "
        ),
    }.items()
}
GROUPS["FUSIBLE"] = frozenset().union(*GROUPS.values())


_ARGUMENTS = """
Reshape shape; BroadcastTo shape; ScatterNd shape; Fill dims; Empty shape; Range start limit delta; LinSpace num
RandomUniform shape; RandomStandardNormal shape; TruncatedNormal shape; RandomUniformInt shape
StatelessRandomUniform shape; StatelessRandomNormal shape; StatelessTruncatedNormal shape
StatelessRandomUniformInt shape; StatelessRandomUniformFullInt shape; StatelessRandomUniformV2 shape
StatelessRandomNormalV2 shape; StatelessTruncatedNormalV2 shape; StatelessRandomUniformIntV2 shape
StatelessRandomUniformFullIntV2 shape; StatelessRandomUniformV2 alg; StatelessRandomNormalV2 alg
StatelessTruncatedNormalV2 alg; StatelessRandomUniformIntV2 alg; StatelessRandomUniformFullIntV2 alg
StatelessParameterizedTruncatedNormal shape; ParameterizedTruncatedNormal shape
StatefulUniform shape algorithm; StatefulUniformInt shape algorithm; StatefulUniformFullInt shape algorithm
StatefulStandardNormalV2 shape algorithm; StatefulTruncatedNormal shape algorithm; RngReadAndSkip alg; RngSkip algorithm
Slice begin size; StridedSlice begin end strides; StridedSliceGrad shape begin end strides
ResourceStridedSliceAssign begin end strides; TensorStridedSliceUpdate begin end strides
Pad paddings; PadV2 paddings; MirrorPad paddings; MirrorPadGrad paddings; Tile multiples
Transpose perm; ConjugateTranspose perm; Sum reduction_indices; Mean reduction_indices; Max reduction_indices
Min reduction_indices; Prod reduction_indices; All reduction_indices; Any reduction_indices
ArgMax dimension; ArgMin dimension; ExpandDims dim; GatherV2 axis; ConcatV2 axis; Concat concat_dim; ConcatOffset concat_dim
ReverseV2 axis; Reverse dims; Cumsum axis; Cumprod axis; CumulativeLogsumexp axis; Roll axis; Split split_dim
SplitV size_splits split_dim; OneHot depth; TopKV2 k; InTopKV2 k; ApproxTopK k
UnsortedSegmentSum num_segments; UnsortedSegmentMax num_segments; UnsortedSegmentMin num_segments
UnsortedSegmentProd num_segments; SegmentSumV2 num_segments; SegmentMaxV2 num_segments; SegmentMinV2 num_segments
SegmentProdV2 num_segments; ResizeBilinear size; ResizeNearestNeighbor size; Bincount size; DenseBincount size
SpaceToBatchND block_shape paddings; BatchToSpaceND block_shape crops; SpaceToBatch paddings; BatchToSpace crops
SparseToDense output_shape; MatrixDiagV2 k num_rows num_cols padding_value; MatrixDiagV3 k num_rows num_cols padding_value
MatrixDiagPartV2 k padding_value; MatrixDiagPartV3 k padding_value; MatrixSetDiagV2 k; MatrixSetDiagV3 k
Conv2DBackpropInput input_sizes; Conv2DBackpropFilter filter_sizes; Conv3DBackpropInputV2 input_sizes
Conv3DBackpropFilterV2 filter_sizes; DepthwiseConv2dNativeBackpropInput input_sizes
DepthwiseConv2dNativeBackpropFilter filter_sizes; RFFT fft_length; RFFT2D fft_length; RFFT3D fft_length
IRFFT fft_length; IRFFT2D fft_length; IRFFT3D fft_length; TensorListReserve element_shape num_elements
EmptyTensorList element_shape max_num_elements; TensorListFromTensor element_shape; TensorListSplit element_shape
Multinomial num_samples; NonMaxSuppressionV3 max_output_size; NonMaxSuppressionV4 max_output_size
DynamicStitch indices; ParallelDynamicStitch indices; BroadcastArgs s0 s1; BroadcastGradientArgs s0 s1
MaxPoolV2 ksize strides; MaxPoolGradV2 ksize strides; InvertPermutation x
"""


def _constant_inputs() -> dict[str, frozenset[str]]:
    table: dict[str, set[str]] = {}
    for entry in _ARGUMENTS.replace("\n", ";").split(";"):
        words = entry.split()
        if words:
            table.setdefault(words[0], set()).update(words[1:])
    return {op: frozenset(names) for op, names in table.items() if names}


CONSTANT_INPUTS: dict[str, frozenset[str]] = _constant_inputs()
"""Op -> names of its input arguments whose values XLA needs when it compiles."""

SHAPE_OPS = frozenset({"Shape", "ShapeN", "Rank", "Size", "TensorListElementShape", "VariableShape"})
"""Ops whose result follows from the shape of the input: a need for a constant stops at them."""


def constant_positions(op: str, arguments: Sequence[Any], sizes: Sequence[int]) -> list[int]:
    """Positions of the data inputs of an op that must be constants.

    `arguments`: the op's input ArgDefs; `sizes[k]`: how many tensors argument k stands for on this node.
    """
    names = CONSTANT_INPUTS.get(op)
    if not names:
        return []
    positions: list[int] = []
    start = 0
    for argument, count in zip(arguments, sizes):
        if argument.name in names:
            positions.extend(range(start, start + count))
        start += count
    return positions
