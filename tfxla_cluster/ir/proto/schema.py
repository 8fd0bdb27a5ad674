"""The message definitions, built in code in a private descriptor pool.

Only the fields the IR keeps are listed; others are skipped by protobuf when read. Numbers are those
of xla/service/hlo.proto and xla/xla_data.proto (tests compare them with TensorFlow's own).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

# message: (number field type), `*` marks a repeated field; a capitalised type is a message.
SCHEMA = """
HloProto: 1 hlo_module HloModuleProto
HloSnapshot: 1 hlo HloProto, 2 arguments LiteralProto*, 3 result LiteralProto, 4 execution_platform string
HloUnoptimizedSnapshot: 1 hlo_module HloModuleProto, 2 partitions HloInputs*
HloInputs: 1 arguments LiteralProto*
HloModuleProto: 1 name string, 2 entry_computation_name string, 3 computations HloComputationProto*,
    4 host_program_shape ProgramShapeProto, 5 id int64, 6 entry_computation_id int64, 7 schedule HloScheduleProto,
    8 input_output_alias HloInputOutputAliasProto, 17 stack_frame_index StackFrameIndexProto,
    19 frontend_attributes FrontendAttributes
HloScheduleProto: 1 sequences SequencesEntry*
SequencesEntry: 1 key int64, 2 value InstructionSequence
InstructionSequence: 1 instruction_ids int64*
HloInputOutputAliasProto: 1 entries AliasEntryProto*
AliasEntryProto: 1 output_shape_index int64*, 2 parameter_number int64, 3 parameter_shape_index int64*, 4 kind int32
StackFrameIndexProto: 1 file_names string*, 2 function_names string*, 3 file_locations FileLocation*,
    4 stack_frames StackFrame*
FileLocation: 1 file_name_id int32, 2 function_name_id int32, 3 line int32, 4 column int32
StackFrame: 1 file_location_id int32, 2 parent_frame_id int32
HloComputationProto: 1 name string, 2 instructions HloInstructionProto*, 4 program_shape ProgramShapeProto,
    5 id int64, 6 root_id int64, 7 is_fusion_computation bool
ProgramShapeProto: 1 parameters ShapeProto*, 2 result ShapeProto, 3 parameter_names string*
ShapeProto: 2 element_type int32, 3 dimensions int64*, 4 tuple_shapes ShapeProto*, 5 layout LayoutProto,
    6 is_dynamic_dimension bool*
LayoutProto: 1 minor_to_major int64*, 16 tail_padding_alignment_in_elements int64
HloInstructionProto: 1 name string, 2 opcode string, 3 shape ShapeProto, 7 metadata OpMetadata,
    8 literal LiteralProto, 9 parameter_number int64, 11 fusion_kind string, 13 tuple_index int64,
    14 dimensions int64*, 15 window Window, 16 convolution_dimension_numbers ConvolutionDimensionNumbers,
    17 slice_dimensions SliceDimensions*, 18 exponent_bits int32, 19 mantissa_bits int32,
    20 dynamic_slice_sizes int64*, 21 padding_config PaddingConfig, 22 outfeed_config bytes, 23 distribution int32,
    24 epsilon float, 25 feature_index int64, 26 channel_id int64, 27 infeed_config bytes,
    28 custom_call_target string, 30 dot_dimension_numbers DotDimensionNumbers, 31 fft_type int32,
    32 fft_length int64*, 33 gather_dimension_numbers GatherDimensionNumbers, 34 gather_slice_sizes int64*,
    35 id int64, 36 operand_ids int64*, 37 control_predecessor_ids int64*, 38 called_computation_ids int64*,
    43 backend_config bytes, 47 is_host_transfer bool, 48 scatter_dimension_numbers ScatterDimensionNumbers,
    49 replica_groups ReplicaGroup*, 50 feature_group_count int64, 51 precision_config PrecisionConfig,
    52 source_target_pairs SourceTarget*, 56 constrain_layout bool, 58 batch_group_count int64,
    59 triangular_solve_options TriangularSolveOptions, 60 is_stable bool, 62 cholesky_options CholeskyOptions,
    63 comparison_direction string, 65 custom_call_has_side_effect bool, 66 delta int64, 67 indices_are_sorted bool,
    68 frontend_attributes FrontendAttributes, 69 unique_indices bool, 70 rng_algorithm int32,
    71 use_global_device_ids bool, 72 comparison_type string, 77 custom_call_api_version int32, 81 k int64,
    85 largest bool, 87 collective_device_list CollectiveDeviceListProto, 102 comparison_order string
SliceDimensions: 1 start int64, 2 limit int64, 3 stride int64
OpMetadata: 1 op_type string, 2 op_name string, 3 source_file string, 4 source_line int32, 15 stack_frame_id int32
LiteralProto: 1 shape ShapeProto, 2 preds bool*, 3 u8s bytes, 4 s32s int32*, 5 s64s int64*, 6 u32s uint32*,
    7 u64s uint64*, 8 f32s float*, 9 f64s double*, 10 tuple_literals LiteralProto*, 11 f16s bytes, 12 c64s float*,
    13 bf16s bytes, 15 s8s bytes, 16 u16s bytes, 17 s16s bytes, 18 c128s double*, 19 f8e5m2s bytes,
    20 f8e4m3fns bytes, 21 s4s bytes, 22 u4s bytes, 23 f8e4m3b11fnuzs bytes, 24 f8e5m2fnuzs bytes,
    25 f8e4m3fnuzs bytes, 28 f8e4m3s bytes, 29 f8e3m4s bytes
Window: 1 dimensions WindowDimension*
WindowDimension: 1 size int64, 2 stride int64, 3 padding_low int64, 4 padding_high int64, 5 window_dilation int64,
    6 base_dilation int64, 7 window_reversal bool
ConvolutionDimensionNumbers: 3 kernel_input_feature_dimension int64, 4 kernel_output_feature_dimension int64,
    6 kernel_spatial_dimensions int64*, 7 input_batch_dimension int64, 8 input_feature_dimension int64,
    9 output_batch_dimension int64, 10 output_feature_dimension int64, 11 input_spatial_dimensions int64*,
    12 output_spatial_dimensions int64*
DotDimensionNumbers: 1 lhs_contracting_dimensions int64*, 2 rhs_contracting_dimensions int64*,
    3 lhs_batch_dimensions int64*, 4 rhs_batch_dimensions int64*
GatherDimensionNumbers: 1 offset_dims int64*, 2 collapsed_slice_dims int64*, 3 start_index_map int64*,
    4 index_vector_dim int64, 5 operand_batching_dims int64*, 6 start_indices_batching_dims int64*
ScatterDimensionNumbers: 1 update_window_dims int64*, 2 inserted_window_dims int64*,
    3 scatter_dims_to_operand_dims int64*, 4 index_vector_dim int64, 5 input_batching_dims int64*,
    6 scatter_indices_batching_dims int64*
PaddingConfig: 1 dimensions PaddingConfigDimension*
PaddingConfigDimension: 1 edge_padding_low int64, 2 edge_padding_high int64, 3 interior_padding int64
PrecisionConfig: 1 operand_precision int32*, 2 algorithm int32
ReplicaGroup: 1 replica_ids int64*
CollectiveDeviceListProto: 1 replica_groups ReplicaGroup*
SourceTarget: 1 source int64, 2 target int64
TriangularSolveOptions: 1 left_side bool, 2 lower bool, 3 unit_diagonal bool, 4 transpose_a int32
CholeskyOptions: 1 lower bool
FrontendAttributes: 1 map MapEntry*
MapEntry: 1 key string, 2 value string
"""
_SCALARS = {
    "string": 9,
    "bytes": 12,
    "int64": 3,
    "int32": 5,
    "uint32": 13,
    "uint64": 4,
    "bool": 8,
    "float": 2,
    "double": 1,
}
_PACKAGE = "tfxla_cluster.xla"


def _field(message: Any, text: str, package: str) -> None:
    number, name, kind = text.split()
    field = message.field.add(name=name, number=int(number))
    field.label = 3 if kind.endswith("*") else 1
    kind = kind.rstrip("*")
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type = 14 if kind.startswith("enum:") else 11
        kind = kind.removeprefix("enum:")
        field.type_name = kind if kind.startswith(".") else f".{package}.{kind}"


def file_of(name: str, package: str, schema: str, imports: Sequence[str] = ()) -> descriptor_pb2.FileDescriptorProto:
    """The file of a schema in the form of SCHEMA. `A.B` is message B inside A, which stands in an earlier row; a type
    that begins with a dot is of another package; `enum:E` an enumeration, a row `enum A.E: 0 NO, 1 YES` defines it."""
    file = descriptor_pb2.FileDescriptorProto(name=name, package=package, syntax="proto3", dependency=imports)
    known: dict[str, Any] = {}
    for row in schema.strip().replace("\n    ", " ").splitlines():
        title, _, fields = row.partition(":")
        outer, _, inner = title.removeprefix("enum ").rpartition(".")
        if title.startswith("enum "):
            values = known[outer].enum_type.add(name=inner).value
            for number, value in (text.split() for text in fields.split(",")):
                values.add(name=value, number=int(number))
            continue
        message = known[title] = (known[outer].nested_type if outer else file.message_type).add(name=inner)
        for text in filter(None, (part.strip() for part in fields.split(","))):
            _field(message, text, package)
    return file


def _build() -> dict[str, Any]:
    file = file_of("tfxla_cluster/hlo.proto", _PACKAGE, SCHEMA)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {
        m.name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{m.name}"))
        for m in file.message_type
    }


MESSAGES: dict[str, Any] = _build()
