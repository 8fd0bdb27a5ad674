"""How many bytes a shape in HLO text takes."""

from __future__ import annotations

import math
import re

from tfxla_cluster.ir.dtype import DTYPES

# Dims are numbers; of a size that varies the sample stands there (`101/*n*/`), of a bound `<=8`.
_ARRAY = re.compile(r"\b([a-z]\w*)\[([^\]]*)\]")
_NUMBER = re.compile(r"\d+")
_COMMENT = re.compile(r"/\*.*?\*/")
_MOST = 2**62  # what no machine has: numbers of a damaged file


def byte_size(shape: str) -> int:
    """Bytes of the arrays in `shape`, dense; a tuple's together. What is no array of known type counts 0."""
    found = _ARRAY.findall(_COMMENT.sub("", shape))
    return min(sum(_bytes(dtype, dims) for dtype, dims in found), _MOST)


def _bytes(dtype: str, dims: str) -> int:
    known = DTYPES.get(dtype)
    return 0 if known is None else math.prod(int(n[:20]) for n in _NUMBER.findall(dims)) * known.itemsize
