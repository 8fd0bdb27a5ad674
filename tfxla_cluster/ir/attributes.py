"""The attribute table: which attributes each opcode has, their defaults, and how text writes them.

Readers (text, proto, builder) complete an instruction's attributes with the defaults here, so that
later code may index `attrs[...]` for everything the table lists; printers leave defaults out.
"""

from __future__ import annotations

from typing import Any

REQUIRED = object()

# name -> how HLO text writes the value. The order is the order in which text prints attributes.
KINDS: dict[str, str] = {
    "dimensions": "ints",
    "iota_dimension": "int",
    "slice": "slice",
    "padding": "padding",
    "dynamic_slice_sizes": "ints",
    "window": "window",
    "dim_labels": "dim_labels",
    "feature_group_count": "int",
    "batch_group_count": "int",
    "lhs_batch_dims": "ints",
    "lhs_contracting_dims": "ints",
    "rhs_batch_dims": "ints",
    "rhs_contracting_dims": "ints",
    "lhs_ragged_dims": "ints",
    "rhs_group_dims": "ints",
    "offset_dims": "ints",
    "collapsed_slice_dims": "ints",
    "start_index_map": "ints",
    "operand_batching_dims": "ints",
    "start_indices_batching_dims": "ints",
    "update_window_dims": "ints",
    "inserted_window_dims": "ints",
    "scatter_dims_to_operand_dims": "ints",
    "input_batching_dims": "ints",
    "scatter_indices_batching_dims": "ints",
    "index_vector_dim": "int",
    "slice_sizes": "ints",
    "indices_are_sorted": "bool",
    "unique_indices": "bool",
    "is_stable": "bool",
    "direction": "word",
    "type": "word",
    "index": "int",
    "epsilon": "float",
    "feature_index": "int",
    "exponent_bits": "int",
    "mantissa_bits": "int",
    "distribution": "word",
    "algorithm": "word",
    "delta": "int",
    "fft_type": "word",
    "fft_length": "ints",
    "left_side": "bool",
    "lower": "bool",
    "unit_diagonal": "bool",
    "transpose_a": "word",
    "k": "int",
    "largest": "bool",
    "operand_precision": "words",
    "kind": "word",
    "custom_call_target": "string",
    "custom_call_has_side_effect": "bool",
    "api_version": "word",
    "channel_id": "int",
    "replica_groups": "groups",
    "source_target_pairs": "groups",
    "constrain_layout": "bool",
    "use_global_device_ids": "bool",
    "is_host_transfer": "bool",
    "infeed_config": "string",
    "outfeed_config": "string",
    "to_apply": "computation",
    "calls": "computation",
    "condition": "computation",
    "body": "computation",
    "true_computation": "computation",
    "false_computation": "computation",
    "select": "computation",
    "scatter": "computation",
    "branch_computations": "computations",
    "called_computations": "computations",
    "result_accuracy": "raw",
    "sharding": "raw",
    "frontend_attributes": "strings",
    "backend_config": "config",
}
# Any instruction may carry these; they change no value.
COMMON = frozenset(("frontend_attributes", "backend_config", "sharding", "operand_precision", "result_accuracy"))

# XLA's parser insists on these even where the value is the table's default.
_ALWAYS_WRITTEN = frozenset(
    (
        "fft_type",
        "fft_length",
        "offset_dims",
        "collapsed_slice_dims",
        "start_index_map",
        "index_vector_dim",
        "slice_sizes",
        "update_window_dims",
        "inserted_window_dims",
        "scatter_dims_to_operand_dims",
        "algorithm",
        "padding",
        "dynamic_slice_sizes",
        "dimensions",
        "left_side",
        "lower",
        "transpose_a",
        "kind",
        "k",
        "largest",
        "replica_groups",
    )
)

_DIMENSIONS = {"dimensions": REQUIRED}
_REDUCER = {"to_apply": REQUIRED}
_COLLECTIVE = {"replica_groups": (), "channel_id": 0, "constrain_layout": False, "use_global_device_ids": False}
_DOT = {
    "lhs_batch_dims": (),
    "lhs_contracting_dims": (),
    "rhs_batch_dims": (),
    "rhs_contracting_dims": (),
    "algorithm": "",
}
_WINDOWED = {"window": (), "dim_labels": REQUIRED, "feature_group_count": 1, "batch_group_count": 1}

# opcode -> attribute -> default (REQUIRED: none). An opcode that is not listed has no attributes of its own.
BY_OPCODE: dict[str, dict[str, Any]] = {
    "parameter": {"parameter_number": REQUIRED},
    "constant": {"literal": REQUIRED},
    "iota": {"iota_dimension": REQUIRED},
    **{
        op: dict(_DIMENSIONS)
        for op in ("broadcast", "transpose", "reverse", "concatenate", "get-dimension-size", "set-dimension-size")
    },
    "map": {"dimensions": (), **_REDUCER},
    "reduce": {**_DIMENSIONS, **_REDUCER},
    "sort": {**_DIMENSIONS, "is_stable": False, **_REDUCER},
    "slice": {"slice": REQUIRED},
    "pad": {"padding": ()},
    "dynamic-slice": {"dynamic_slice_sizes": ()},
    "reduce-window": {"window": (), **_REDUCER},
    "select-and-scatter": {"window": (), "select": REQUIRED, "scatter": REQUIRED},
    "convolution": _WINDOWED,
    "dot": _DOT,
    "ragged-dot": {**_DOT, "lhs_ragged_dims": (), "rhs_group_dims": ()},
    "gather": {
        "offset_dims": (),
        "collapsed_slice_dims": (),
        "start_index_map": (),
        "operand_batching_dims": (),
        "start_indices_batching_dims": (),
        "index_vector_dim": 0,
        "slice_sizes": (),
        "indices_are_sorted": False,
    },
    "scatter": {
        "update_window_dims": (),
        "inserted_window_dims": (),
        "scatter_dims_to_operand_dims": (),
        "input_batching_dims": (),
        "scatter_indices_batching_dims": (),
        "index_vector_dim": 0,
        "indices_are_sorted": False,
        "unique_indices": False,
        **_REDUCER,
    },
    "compare": {"direction": REQUIRED, "type": REQUIRED},
    "get-tuple-element": {"index": REQUIRED},
    "batch-norm-inference": {"epsilon": REQUIRED, "feature_index": REQUIRED},
    "batch-norm-training": {"epsilon": REQUIRED, "feature_index": REQUIRED},
    "batch-norm-grad": {"epsilon": REQUIRED, "feature_index": REQUIRED},
    "reduce-precision": {"exponent_bits": REQUIRED, "mantissa_bits": REQUIRED},
    "rng": {"distribution": REQUIRED},
    "rng-bit-generator": {"algorithm": "rng_default"},
    "rng-get-and-update-state": {"delta": REQUIRED},
    "fft": {"fft_type": "FFT", "fft_length": ()},
    "cholesky": {"lower": False},
    "triangular-solve": {"left_side": False, "lower": False, "unit_diagonal": False, "transpose_a": "NO_TRANSPOSE"},
    "topk": {"k": REQUIRED, "largest": True},
    "fusion": {"kind": "kLoop", "calls": REQUIRED},
    "call": _REDUCER,
    "while": {"condition": REQUIRED, "body": REQUIRED},
    # Either the pair (pred operand) or the tuple (s32 operand).
    "conditional": {"true_computation": None, "false_computation": None, "branch_computations": None},
    "custom-call": {
        "custom_call_target": REQUIRED,
        "custom_call_has_side_effect": False,
        "api_version": "",
        "window": None,
        "dim_labels": None,
        "feature_group_count": 1,
        "batch_group_count": 1,
        "called_computations": None,
        "to_apply": None,
    },
    "all-reduce": {**_COLLECTIVE, **_REDUCER},
    "all-reduce-start": {**_COLLECTIVE, **_REDUCER},
    "reduce-scatter": {**_DIMENSIONS, **_COLLECTIVE, **_REDUCER},
    "all-gather": {**_DIMENSIONS, **_COLLECTIVE},
    "all-gather-start": {**_DIMENSIONS, **_COLLECTIVE},
    "all-to-all": {"dimensions": (), **_COLLECTIVE},
    "collective-broadcast": _COLLECTIVE,
    "ragged-all-to-all": _COLLECTIVE,
    "collective-permute": {"source_target_pairs": REQUIRED, "channel_id": 0},
    "collective-permute-start": {"source_target_pairs": REQUIRED, "channel_id": 0},
    **{op: {"channel_id": 0, "is_host_transfer": False} for op in ("send", "send-done", "recv", "recv-done")},
    "infeed": {"infeed_config": ""},
    "outfeed": {"outfeed_config": ""},
    **{op: {"calls": None} for op in ("async-start", "async-update", "async-done")},
}
_NONE: dict[str, Any] = {}


def defaults(opcode: str) -> dict[str, Any]:
    """The attributes of an opcode with their defaults; REQUIRED where there is none."""
    return BY_OPCODE.get(opcode, _NONE)


def comparison_type(kind: str) -> str:
    """The `type` a compare has when it says none; `kind` is the kind of the operands' dtype."""
    return {"float": "FLOAT", "complex": "FLOAT", "int": "SIGNED"}.get(kind, "UNSIGNED")


def ordered(type: str, order: str, kind: str) -> str:
    """The comparison type that a compare of dtype `kind` with XLA's attributes `type` and `order` has ('' where
    absent). From 2026 on XLA states the total order of floats in `order`, before in `type`."""
    return "TOTALORDER" if order == "TOTAL" and kind == "float" else type or comparison_type(kind)


def complete(opcode: str, attrs: dict[str, Any], operand_kind: str = "") -> dict[str, Any]:
    """Fill `attrs` with the opcode's defaults (in place) and return it.

    `operand_kind` is the dtype kind of the first operand, used for compare. KeyError, with the
    attribute's name, when a required one is missing.
    """
    for name, value in defaults(opcode).items():
        if attrs.get(name) is not None:
            continue
        if name == "type":
            attrs[name] = comparison_type(operand_kind)
        elif value is REQUIRED:
            raise KeyError(name)
        elif value is not None:
            attrs[name] = value
    return attrs


def is_default(opcode: str, name: str, value: Any, operand_kind: str = "") -> bool:
    """True when text and proto may leave the attribute out."""
    if name == "type":
        return bool(value == comparison_type(operand_kind))
    if name in _ALWAYS_WRITTEN and value != "":
        return False
    default = defaults(opcode).get(name, REQUIRED)
    return default is not REQUIRED and type(default) is type(value) and bool(default == value)
