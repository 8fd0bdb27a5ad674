"""OpSharding protos as HLO text writes them."""

from __future__ import annotations

from typing import Any

# OpSharding.Type
_REPLICATED, _MAXIMAL, _TUPLE, _OTHER, _MANUAL, _UNKNOWN = range(6)
_WORDS = {_REPLICATED: "replicated", _MANUAL: "manual", _UNKNOWN: "unknown", 6: "unreduced"}


def rendered(proto: Any) -> str:
    """`{replicated}`, `{devices=[2,2]<=[4]}`, `{{..}, {..}}`."""
    if proto.type == _TUPLE:
        return "{" + ", ".join(map(rendered, proto.tuple_shardings)) + "}"
    if proto.type in _WORDS:
        return f"{{{_WORDS[proto.type]}}}"
    if proto.type == _MAXIMAL:
        return f"{{maximal device={proto.tile_assignment_devices[0] if proto.tile_assignment_devices else 0}}}"
    text = f"{{devices=[{_list(proto.tile_assignment_dimensions)}]{_devices(proto)}"
    if proto.replicate_on_last_tile_dim:
        text += " last_tile_dim_replicate"
    if proto.last_tile_dims:
        text += " last_tile_dims={" + ", ".join(_WORDS.get(t, "?") for t in proto.last_tile_dims) + "}"
    return text + "}"


def _devices(proto: Any) -> str:
    if not proto.iota_reshape_dims:
        return _list(proto.tile_assignment_devices)
    order = list(proto.iota_transpose_perm)
    turned = "" if order == sorted(order) else f"T({_list(order)})"
    return f"<=[{_list(proto.iota_reshape_dims)}]{turned}"


def _list(values: Any) -> str:
    return ",".join(map(str, values))
