"""Attributes between HloInstructionProto and the IR: per opcode, a reader and a writer for each.

`_PLAIN` covers attributes that are one field; the rest have a pair of functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..node import ConvDims, WindowDim

# attribute -> field, where the value is copied as it is (a repeated field as a tuple).
_PLAIN = {
    "parameter_number": "parameter_number",
    "index": "tuple_index",
    "exponent_bits": "exponent_bits",
    "mantissa_bits": "mantissa_bits",
    "feature_index": "feature_index",
    "channel_id": "channel_id",
    "delta": "delta",
    "k": "k",
    "largest": "largest",
    "is_stable": "is_stable",
    "direction": "comparison_direction",
    "indices_are_sorted": "indices_are_sorted",
    "unique_indices": "unique_indices",
    "epsilon": "epsilon",
    "feature_group_count": "feature_group_count",
    "batch_group_count": "batch_group_count",
    "kind": "fusion_kind",
    "custom_call_target": "custom_call_target",
    "custom_call_has_side_effect": "custom_call_has_side_effect",
    "constrain_layout": "constrain_layout",
    "use_global_device_ids": "use_global_device_ids",
    "is_host_transfer": "is_host_transfer",
}
_LISTS = {
    "dimensions": "dimensions",
    "dynamic_slice_sizes": "dynamic_slice_sizes",
    "fft_length": "fft_length",
    "slice_sizes": "gather_slice_sizes",
}
_DOT = {
    "lhs_contracting_dims": "lhs_contracting_dimensions",
    "rhs_contracting_dims": "rhs_contracting_dimensions",
    "lhs_batch_dims": "lhs_batch_dimensions",
    "rhs_batch_dims": "rhs_batch_dimensions",
}
_GATHER = (
    "offset_dims",
    "collapsed_slice_dims",
    "start_index_map",
    "operand_batching_dims",
    "start_indices_batching_dims",
)
_SCATTER = (
    "update_window_dims",
    "inserted_window_dims",
    "scatter_dims_to_operand_dims",
    "input_batching_dims",
    "scatter_indices_batching_dims",
)
_ENUMS = {
    "fft_type": ("fft_type", ("FFT", "IFFT", "RFFT", "IRFFT")),
    "distribution": ("distribution", ("rng_invalid", "rng_uniform", "rng_normal")),
    "api_version": (
        "custom_call_api_version",
        (
            "",
            "API_VERSION_ORIGINAL",
            "API_VERSION_STATUS_RETURNING",
            "API_VERSION_STATUS_RETURNING_UNIFIED",
            "API_VERSION_TYPED_FFI",
        ),
    ),
}
_RNG_ALGORITHMS = ("rng_default", "rng_three_fry", "rng_philox")
_DOT_ALGORITHMS = (
    "",
    "any_f8_any_f8_f32",
    "any_f8_any_f8_f32_fast_accum",
    "f16_f16_f16",
    "f16_f16_f32",
    "bf16_bf16_bf16",
    "bf16_bf16_f32",
    "bf16_bf16_f32_x3",
    "bf16_bf16_f32_x6",
    "tf32_tf32_f32",
    "tf32_tf32_f32_x3",
    "f32_f32_f32",
    "f64_f64_f64",
    "bf16_bf16_f32_x9",
)
_PRECISIONS = ("default", "high", "highest")
_TRANSPOSES = ("TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")
_TRIANGULAR = ("left_side", "lower", "unit_diagonal")

Read = Callable[[Any], Any]
Write = Callable[[Any, Any], None]


def _plain(field: str) -> tuple[Read, Write]:
    # proto3 cannot tell 0 from "not set": the table's defaults are what 0 means for these fields.
    return (lambda p: getattr(p, field)), (lambda p, v: setattr(p, field, v))


def _list(field: str, part: str = "") -> tuple[Read, Write]:
    def where(p: Any) -> Any:
        return getattr(p, part) if part else p

    return (lambda p: tuple(getattr(where(p), field))), (lambda p, v: getattr(where(p), field).extend(v))


def _inner(part: str, field: str) -> tuple[Read, Write]:
    return (lambda p: getattr(getattr(p, part), field)), (lambda p, v: setattr(getattr(p, part), field, v))


def _enum(field: str, names: tuple[str, ...]) -> tuple[Read, Write]:
    return (lambda p: names[getattr(p, field)]), (lambda p, v: setattr(p, field, names.index(v)))


def _read_window(p: Any) -> tuple[WindowDim, ...]:
    return tuple(
        WindowDim(
            d.size, d.stride, d.padding_low, d.padding_high, d.base_dilation, d.window_dilation, d.window_reversal
        )
        for d in p.window.dimensions
    )


def _write_window(p: Any, value: tuple[WindowDim, ...]) -> None:
    p.window.SetInParent()
    for w in value:
        p.window.dimensions.add(
            size=w.size,
            stride=w.stride,
            padding_low=w.pad_low,
            padding_high=w.pad_high,
            base_dilation=w.base_dilation,
            window_dilation=w.window_dilation,
            window_reversal=w.reversal,
        )


def _read_dim_labels(p: Any) -> ConvDims | None:
    """None of a custom call that is no convolution: TensorFlow's bridge gives each one empty numbers."""
    d = p.convolution_dimension_numbers
    if p.opcode == "custom-call" and d.input_batch_dimension == d.input_feature_dimension:
        return None
    return ConvDims(
        d.input_batch_dimension,
        d.input_feature_dimension,
        tuple(d.input_spatial_dimensions),
        d.kernel_input_feature_dimension,
        d.kernel_output_feature_dimension,
        tuple(d.kernel_spatial_dimensions),
        d.output_batch_dimension,
        d.output_feature_dimension,
        tuple(d.output_spatial_dimensions),
    )


def _write_dim_labels(p: Any, v: ConvDims) -> None:
    d = p.convolution_dimension_numbers
    d.SetInParent()
    d.input_batch_dimension, d.input_feature_dimension = v.lhs_batch, v.lhs_feature
    d.kernel_input_feature_dimension, d.kernel_output_feature_dimension = v.rhs_input, v.rhs_output
    d.output_batch_dimension, d.output_feature_dimension = v.out_batch, v.out_feature
    d.input_spatial_dimensions.extend(v.lhs_spatial)
    d.kernel_spatial_dimensions.extend(v.rhs_spatial)
    d.output_spatial_dimensions.extend(v.out_spatial)


def _read_slice(p: Any) -> tuple[tuple[int, int, int], ...]:
    return tuple((s.start, s.limit, s.stride) for s in p.slice_dimensions)


def _write_slice(p: Any, value: Any) -> None:
    for start, limit, stride in value:
        p.slice_dimensions.add(start=start, limit=limit, stride=stride)


def _read_padding(p: Any) -> tuple[tuple[int, int, int], ...]:
    return tuple((d.edge_padding_low, d.edge_padding_high, d.interior_padding) for d in p.padding_config.dimensions)


def _write_padding(p: Any, value: Any) -> None:
    p.padding_config.SetInParent()
    for low, high, interior in value:
        p.padding_config.dimensions.add(edge_padding_low=low, edge_padding_high=high, interior_padding=interior)


def _read_algorithm(p: Any) -> str:
    if p.opcode == "rng-bit-generator":
        return _RNG_ALGORITHMS[p.rng_algorithm]
    name = _DOT_ALGORITHMS[p.precision_config.algorithm]
    return f"dot_{name}" if name else ""


def _write_algorithm(p: Any, value: str) -> None:
    if p.opcode == "rng-bit-generator":
        p.rng_algorithm = _RNG_ALGORITHMS.index(value)
    elif value:
        p.precision_config.algorithm = _DOT_ALGORITHMS.index(value.removeprefix("dot_"))


def _read_index_vector_dim(p: Any) -> int:
    part = p.gather_dimension_numbers if p.opcode == "gather" else p.scatter_dimension_numbers
    return int(part.index_vector_dim)


def _write_index_vector_dim(p: Any, value: int) -> None:
    part = p.gather_dimension_numbers if p.opcode == "gather" else p.scatter_dimension_numbers
    part.SetInParent()
    part.index_vector_dim = value


def _read_lower(p: Any) -> bool:
    return bool(p.cholesky_options.lower if p.opcode == "cholesky" else p.triangular_solve_options.lower)


def _write_lower(p: Any, value: bool) -> None:
    part = p.cholesky_options if p.opcode == "cholesky" else p.triangular_solve_options
    part.SetInParent()
    part.lower = value


def _read_groups(p: Any) -> tuple[tuple[int, ...], ...]:
    groups = p.replica_groups or p.collective_device_list.replica_groups
    return tuple(tuple(g.replica_ids) for g in groups)


def _write_groups(p: Any, value: Any) -> None:
    for ids in value:
        p.replica_groups.add(replica_ids=ids)


def _write_pairs(p: Any, value: Any) -> None:
    for source, target in value:
        p.source_target_pairs.add(source=source, target=target)


def _write_comparison(p: Any, value: str) -> None:
    """By both fields: XLA of before 2026 reads the one, later ones the other."""
    p.comparison_type = value
    if value == "TOTALORDER":
        p.comparison_order = "TOTAL"


def _config(field: str) -> tuple[Read, Write]:
    return (lambda p: getattr(p, field).decode("utf-8", "replace")), (lambda p, v: setattr(p, field, v.encode()))


def _write_strings(p: Any, value: tuple[tuple[str, str], ...]) -> None:
    for key, text in value:
        p.frontend_attributes.map.add(key=key, value=text)


CODECS: dict[str, tuple[Read, Write]] = {
    **{name: _plain(field) for name, field in _PLAIN.items()},
    **{name: _list(field) for name, field in _LISTS.items()},
    **{name: _list(field, "dot_dimension_numbers") for name, field in _DOT.items()},
    **{name: _list(name, "gather_dimension_numbers") for name in _GATHER},
    **{name: _list(name, "scatter_dimension_numbers") for name in _SCATTER},
    **{name: _enum(field, names) for name, (field, names) in _ENUMS.items()},
    **{name: _inner("triangular_solve_options", name) for name in _TRIANGULAR},
    "iota_dimension": (lambda p: p.dimensions[0], lambda p, v: p.dimensions.append(v)),
    "transpose_a": (
        lambda p: _TRANSPOSES[p.triangular_solve_options.transpose_a],
        lambda p, v: setattr(p.triangular_solve_options, "transpose_a", _TRANSPOSES.index(v)),
    ),
    "type": (lambda p: p.comparison_type, _write_comparison),
    "window": (_read_window, _write_window),
    "dim_labels": (_read_dim_labels, _write_dim_labels),
    "slice": (_read_slice, _write_slice),
    "padding": (_read_padding, _write_padding),
    "algorithm": (_read_algorithm, _write_algorithm),
    "index_vector_dim": (_read_index_vector_dim, _write_index_vector_dim),
    "lower": (_read_lower, _write_lower),
    "replica_groups": (_read_groups, _write_groups),
    "source_target_pairs": (lambda p: tuple((s.source, s.target) for s in p.source_target_pairs), _write_pairs),
    "infeed_config": _config("infeed_config"),
    "outfeed_config": _config("outfeed_config"),
}
# Attributes any instruction may carry: (is there one?, read, write).
COMMON: dict[str, tuple[Read, Read, Write]] = {
    "backend_config": (lambda p: p.backend_config, *_config("backend_config")),
    "operand_precision": (
        lambda p: any(p.precision_config.operand_precision) if p.HasField("precision_config") else False,
        lambda p: tuple(_PRECISIONS[v] for v in p.precision_config.operand_precision),
        lambda p, v: p.precision_config.operand_precision.extend(map(_PRECISIONS.index, v)),
    ),
    "frontend_attributes": (
        lambda p: p.HasField("frontend_attributes") and p.frontend_attributes.map,
        lambda p: tuple(sorted((e.key, e.value) for e in p.frontend_attributes.map)),
        _write_strings,
    ),
}
