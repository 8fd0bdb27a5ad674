"""Tables about TensorFlow ops, by TensorFlow's names: the groups of `--tf_xla_ops_to_cluster`, shape ops."""

from __future__ import annotations

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


SHAPE_OPS = frozenset({"Shape", "ShapeN", "Rank", "Size", "TensorListElementShape", "VariableShape"})
"""Ops whose result follows from the shape of the input: a need for a constant stops at them."""
