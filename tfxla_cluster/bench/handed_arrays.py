"""A row's arrays and module in a directory, from the process that draws them to the one that takes them.

row.json    {"case": ..., "inputs": [[dtype, shape], ...], "expected": [...]}; dtypes by HLO's names
inputs.0, expected.0, ...   the elements' bytes
module.pb   the HloModuleProto
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

KINDS = ("inputs", "expected")
TORCH_DTYPES = {
    "f32": "float32",
    "f64": "float64",
    "f16": "float16",
    "bf16": "bfloat16",
    "s32": "int32",
    "s64": "int64",
    "pred": "bool",
}


@dataclass(frozen=True)
class Array:
    """u8[bytes] of elements of `dtype`, HLO's name."""

    dtype: str
    shape: tuple[int, ...]
    data: np.ndarray


def write(directory: Path, case: str, arrays: Mapping[str, Sequence[tuple[str, np.ndarray]]], module: bytes) -> None:
    """`arrays`: for each of KINDS (HLO's name of the dtype, array)."""
    said: dict[str, object] = {"case": case}
    for kind in KINDS:
        said[kind] = [(dtype, array.shape) for dtype, array in arrays[kind]]
        for number, (_, array) in enumerate(arrays[kind]):
            np.ascontiguousarray(array).reshape(-1).view(np.uint8).tofile(directory / f"{kind}.{number}")
    (directory / "module.pb").write_bytes(module)
    (directory / "row.json").write_text(json.dumps(said))


def read(directory: Path) -> tuple[str, list[Array], list[Array]]:
    """(case, inputs, expected)."""
    said = json.loads((directory / "row.json").read_text())
    inputs, expected = (
        [
            Array(dtype, tuple(shape), np.fromfile(directory / f"{kind}.{number}", np.uint8))
            for number, (dtype, shape) in enumerate(said[kind])
        ]
        for kind in KINDS
    )
    return said["case"], inputs, expected


def tensor(array: Array, device: str) -> Any:
    """The array as PyTorch's tensor on `device`."""
    import torch

    dtype = getattr(torch, TORCH_DTYPES[array.dtype])
    return torch.from_numpy(array.data).to(device).view(dtype).reshape(array.shape)


def module(directory: Path) -> bytes:
    """The HloModuleProto."""
    return (directory / "module.pb").read_bytes()
