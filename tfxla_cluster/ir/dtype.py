"""Element types of HLO: one table, keyed by the name the HLO text uses."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
from numpy.typing import DTypeLike


@dataclass(frozen=True, slots=True)
class DType:
    """An HLO element type.

    `name` is the HLO text name, `number` the value of `xla.PrimitiveType`, `numpy` the array
    type that holds one element a slot (4-bit types take one byte an element), `kind` one of
    'pred', 'int', 'uint', 'float', 'complex', `bits` the width XLA counts.
    """

    name: str
    number: int
    numpy: np.dtype
    kind: str
    bits: int

    @property
    def itemsize(self) -> int:
        """Bytes an element takes in a buffer of ours."""
        return self.numpy.itemsize

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """Signed or unsigned integer (not pred)."""
        return self.kind in ("int", "uint")

    def __repr__(self) -> str:
        return self.name


def _row(name: str, number: int, numpy: DTypeLike, kind: str, bits: int) -> DType:
    return DType(name, number, np.dtype(numpy), kind, bits)


# Numbers: xla/xla_data.proto, enum PrimitiveType.
DTYPES: dict[str, DType] = {
    d.name: d
    for d in (
        _row("pred", 1, np.bool_, "pred", 8),
        _row("s4", 21, ml_dtypes.int4, "int", 4),
        _row("s8", 2, np.int8, "int", 8),
        _row("s16", 3, np.int16, "int", 16),
        _row("s32", 4, np.int32, "int", 32),
        _row("s64", 5, np.int64, "int", 64),
        _row("u4", 22, ml_dtypes.uint4, "uint", 4),
        _row("u8", 6, np.uint8, "uint", 8),
        _row("u16", 7, np.uint16, "uint", 16),
        _row("u32", 8, np.uint32, "uint", 32),
        _row("u64", 9, np.uint64, "uint", 64),
        _row("f16", 10, np.float16, "float", 16),
        _row("bf16", 16, ml_dtypes.bfloat16, "float", 16),
        _row("f32", 11, np.float32, "float", 32),
        _row("f64", 12, np.float64, "float", 64),
        _row("f8e5m2", 19, ml_dtypes.float8_e5m2, "float", 8),
        _row("f8e4m3", 28, ml_dtypes.float8_e4m3, "float", 8),
        _row("f8e4m3fn", 20, ml_dtypes.float8_e4m3fn, "float", 8),
        _row("f8e4m3b11fnuz", 23, ml_dtypes.float8_e4m3b11fnuz, "float", 8),
        _row("f8e5m2fnuz", 24, ml_dtypes.float8_e5m2fnuz, "float", 8),
        _row("f8e4m3fnuz", 25, ml_dtypes.float8_e4m3fnuz, "float", 8),
        _row("f8e3m4", 29, ml_dtypes.float8_e3m4, "float", 8),
        _row("c64", 15, np.complex64, "complex", 64),
        _row("c128", 18, np.complex128, "complex", 128),
    )
}
BY_NUMBER: dict[int, DType] = {d.number: d for d in DTYPES.values()}
_BY_NUMPY: dict[np.dtype, DType] = {d.numpy: d for d in DTYPES.values()}

PRED, S32, S64, U32, U64 = (DTYPES[n] for n in ("pred", "s32", "s64", "u32", "u64"))
F16, BF16, F32, F64 = (DTYPES[n] for n in ("f16", "bf16", "f32", "f64"))


def from_numpy(dtype: DTypeLike) -> DType:
    """The HLO type of a NumPy dtype; KeyError when HLO has none."""
    return _BY_NUMPY[np.dtype(dtype)]
