"""The messages of XLA's protos with what a person is shown of them: those of the IR, and more of their fields."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pool, message_factory

from tfxla_cluster.ir.proto.schema import SCHEMA, file_of

_PACKAGE = "tfxla_inspect.xla"
# Message -> fields that the IR does not keep (xla/service/hlo.proto, xla/xla_data.proto).
_MORE = {
    "HloProto": "3 buffer_assignment BufferAssignmentProto",
    "HloModuleProto": "18 buffer_donor HloBufferDonorProto",
    "FileLocation": "5 end_line int32, 6 end_column int32",
    "LayoutProto": "6 tiles TileProto*, 7 element_size_in_bits int64, 8 memory_space int64",
    "HloComputationProto": "8 execution_thread string",
    "HloInstructionProto": "40 sharding OpSharding, 61 parameter_replication ParameterReplication, "
    "74 output_operand_aliasing OutputOperandAliasing*, "
    "79 async_execution_thread string, 92 iota_collective_device_list IotaReplicaGroupListProto",
    "OpMetadata": "12 deduplicated_name string, 16 scheduling_name string, 17 source_end_line int32, "
    "18 source_column int32, 19 source_end_column int32",
}
_NEW = """
HloBufferDonorProto: 1 entries BufferDonorEntryProto*
BufferDonorEntryProto: 1 parameter_number int64, 2 parameter_shape_index int64*
ParameterReplication: 1 replicated_at_leaf_buffers bool*
TileProto: 1 dimensions int64*
OpSharding: 1 type int32, 3 tile_assignment_dimensions int64*, 4 tile_assignment_devices int64*,
    5 tuple_shardings OpSharding*, 6 replicate_on_last_tile_dim bool, 8 last_tile_dims int32*,
    9 iota_reshape_dims int64*, 10 iota_transpose_perm int32*
OutputOperandAliasing: 1 output_shape_index int64*, 2 operand_index int64, 3 operand_shape_index int64*
IotaReplicaGroupListProto: 1 num_replica_groups int64, 2 num_devices_per_group int64, 3 iota_reshape_dims int64*,
    4 iota_transpose_perm int32*
BufferAssignmentProto: 1 logical_buffers LogicalBufferProto*, 3 buffer_allocations BufferAllocationProto*
LogicalBufferProto: 1 id int64, 2 size int64, 3 defined_at Location, 4 color int64
Location: 2 instruction_name string, 3 shape_index int64*, 4 instruction_id int64
BufferAllocationProto: 1 index int64, 2 size int64, 3 is_thread_local bool, 5 is_entry_computation_parameter bool,
    6 parameter_number int64, 7 maybe_live_out bool, 8 color int64, 9 assigned Assigned*,
    10 parameter_shape_index int64*, 11 is_tuple bool, 12 is_constant bool, 13 is_parameter_aliased_with_output bool
Assigned: 1 logical_buffer_id int64, 2 offset int64, 3 size int64
"""


def _schema() -> str:
    rows = SCHEMA.strip().replace("\n    ", " ").splitlines()
    known = {row.partition(":")[0]: row for row in rows}
    for name, more in _MORE.items():
        known[name] += f", {more}"
    return "\n".join([*known.values(), _NEW.strip()])


def _build() -> dict[str, Any]:
    file = file_of("tfxla_inspect/hlo.proto", _PACKAGE, _schema())
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {
        m.name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{m.name}"))
        for m in file.message_type
    }


MESSAGES: dict[str, Any] = _build()
