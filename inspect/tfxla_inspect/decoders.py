"""From the bytes of a file that is no text to what a person reads, by file_kinds.Kind.form.

Needs protobuf; dumps of text are read without this module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.message import DecodeError

from .parsers import buffer_proto, hlo_proto, wire
from .parsers.hlo_schema import MESSAGES

_FIRST_FIELD = 1 << 3 | 2  # number 1, a message


def scheduled(data: bytes) -> bool | None:
    """Whether an HLO proto of unknown origin is scheduled, as optimised modules are; None where it is none."""
    try:
        return bool(_module(data)[0].HasField("schedule"))
    except ValueError:
        return None


def _message(name: str, data: bytes) -> Any:
    try:
        return MESSAGES[name].FromString(data)
    except DecodeError as error:
        raise ValueError(f"no {name}: {error}") from None


def _module(data: bytes) -> tuple[Any, Any]:
    """The HloModuleProto and the HloProto around it, whichever of both `data` is."""
    for name in ("HloProto", "HloModuleProto"):
        try:
            found = MESSAGES[name].FromString(data)
        except DecodeError:
            continue
        module = found.hlo_module if name == "HloProto" else found
        if module.computations:
            return module, found if name == "HloProto" else MESSAGES["HloProto"](hlo_module=found)
    raise ValueError("neither an HloProto nor an HloModuleProto, or cut off")


def _hlo(data: bytes) -> str:
    return hlo_proto.printed(_module(data)[0])


def _buffers(data: bytes) -> str:
    return buffer_proto.printed(_module(data)[1])


def _snapshot(data: bytes) -> str:
    """The module of an HloSnapshot, after comments that say what it ran on and of which shapes the inputs were."""
    snapshot = _message("HloSnapshot", data)
    if not snapshot.hlo.hlo_module.computations:
        raise ValueError("no module in the snapshot")
    inputs = [hlo_proto.shape_text(literal.shape) for literal in snapshot.arguments]
    said = [f"// snapshot on {snapshot.execution_platform or 'an unknown platform'}, {len(inputs)} inputs"]
    said += [f"// input {number}: {shape}" for number, shape in enumerate(inputs)]
    return "\n".join([*said, hlo_proto.printed(snapshot.hlo.hlo_module)])


def _unoptimized(data: bytes) -> str:
    """The module of an HloUnoptimizedSnapshot: the field that it begins with. A length may stand before it, and bytes
    of the inputs after it."""
    for start in (0, wire.varint(data, 0)[1]):
        key, position = wire.varint(data, start)
        if key == _FIRST_FIELD:
            size, position = wire.varint(data, position)
            try:
                module = MESSAGES["HloModuleProto"].FromString(data[position : position + size])
            except DecodeError:
                continue
            if module.computations:
                return hlo_proto.printed(module)
    raise ValueError("no module in the snapshot")


# file_kinds.Kind.form -> what reads it. ValueError where the bytes are not what the name says.
DECODERS: dict[str, Callable[[bytes], str]] = {
    "hlo": _hlo,
    "buffers": _buffers,
    "snapshot": _snapshot,
    "snapshots": _unoptimized,
    "proto": wire.printed,
}
