"""XLA's messages of autotuning results, in a private descriptor pool, and ours inside their `other`.

Numbers and names are those of xla/autotuning.proto and xla/autotune_results.proto (a test compares them with the
headers in TensorFlow's wheel). Our `Choice` travels in `AutotuneResult.other.config`, so that XLA's tools can skip it.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import any_pb2, descriptor_pool, duration_pb2, message_factory, text_format, wrappers_pb2

from ...ir.proto.schema import file_of

XLA = """
AutotuneResult: 8 scratch_bytes int64, 9 run_time .google.protobuf.Duration, 7 failure AutotuneResult.FailureResult,
    5 conv AutotuneResult.ConvKey, 6 gemm AutotuneResult.GemmKey, 17 triton AutotuneResult.TritonGemmKey,
    15 cuda_conv_plan AutotuneResult.CudaConvPlanKey, 18 custom_kernel_fusion AutotuneResult.CustomKernelFusionKey,
    16 algorithm .stream_executor.dnn.AlgorithmProto, 19 other AutotuneResult.BackendConfigKey
enum AutotuneResult.FailureKind: 0 UNKNOWN, 1 REDZONE_MODIFIED, 2 WRONG_RESULT, 3 DISQUALIFIED
AutotuneResult.FailureResult: 1 kind enum:AutotuneResult.FailureKind, 2 msg string, 13 buffer_address int64,
    11 reference_conv AutotuneResult.ConvKey, 12 reference_gemm AutotuneResult.GemmKey,
    14 reference_cuda_conv_plan AutotuneResult.CudaConvPlanKey,
    15 reference_algorithm .stream_executor.dnn.AlgorithmProto
AutotuneResult.ConvKey: 1 algorithm int64, 2 tensor_ops_enabled bool
AutotuneResult.GemmKey: 1 algorithm int64, 2 autotune_workspace_size int64
AutotuneResult.CudaConvPlanKey: 1 exec_plan_id string
AutotuneResult.TritonGemmKey: 1 block_m int64, 2 block_n int64, 3 block_k int64, 4 split_k int64, 5 num_stages int64,
    6 num_warps int64, 7 num_ctas int64, 8 is_tma_allowed bool, 9 is_warp_specialization_allowed bool,
    10 waves_per_eu int64
AutotuneResult.CustomKernelFusionKey: 1 kernel_index int64
AutotuneResult.BackendConfigKey: 1 name string, 2 config .google.protobuf.Any
AutotuneResults: 1 version int32, 4 results AutotuneResults.Entry*
AutotuneResults.Entry: 1 device string, 2 hlo string, 3 result AutotuneResult, 4 version int32
"""
DNN = """
AlgorithmProto: 1 algo_id int64, 2 math_type enum:AlgorithmProto.MathType, 4 tuning_knobs AlgorithmProto.KnobsEntry*,
    5 is_cudnn_frontend bool, 6 workspace_size .google.protobuf.UInt64Value
enum AlgorithmProto.MathType: 0 DEFAULT_MATH, 1 TENSOR_OP_MATH
AlgorithmProto.KnobsEntry: 1 key int64, 2 value int64
"""
# What was chosen: knobs by name; what each configuration that was measured took, or why it fell out; who measured.
OURS = """
Knob: 1 name string, 2 value int64
Candidate: 1 knobs Knob*, 2 run_time .google.protobuf.Duration, 3 failure AutotuneFailure
AutotuneFailure: 1 kind string, 2 message string
Choice: 1 knobs Knob*, 2 candidates Candidate*, 3 made_by string
"""
CHOICE_URL = "type.googleapis.com/tfxla_cluster.Choice"


def _pool() -> descriptor_pool.DescriptorPool:
    known = [module.DESCRIPTOR for module in (any_pb2, duration_pb2, wrappers_pb2)]
    pool = descriptor_pool.DescriptorPool()
    for file in known:
        pool.AddSerializedFile(file.serialized_pb)
    names = [file.name for file in known]
    dnn = file_of("xla/tsl/protobuf/dnn.proto", "stream_executor.dnn", DNN, names)
    for made in (
        dnn,
        file_of("xla/autotuning.proto", "xla", XLA, [*names, dnn.name]),
        file_of("tfxla_cluster/tuning.proto", "tfxla_cluster", OURS, names),
    ):
        pool.AddSerializedFile(made.SerializeToString())
    return pool


_POOL = _pool()


def message(name: str) -> Any:
    """The message class of a full name, such as 'xla.AutotuneResults'."""
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(name))


def to_text(value: Any) -> str:
    """Text format, with what an Any holds written out."""
    return str(text_format.MessageToString(value, descriptor_pool=_POOL))


def from_text(text: str, value: Any) -> None:
    """Fills `value`; ValueError says where the text is no such message."""
    try:
        text_format.Parse(text, value, descriptor_pool=_POOL)
    except text_format.ParseError as error:
        raise ValueError(str(error)) from None
