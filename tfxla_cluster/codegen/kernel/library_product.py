"""Matrix products that a library multiplies, as data: what is multiplied, how it lies, by which of its algorithms."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from .choice import Choice
from .code import Params

ROUTINE = "cublasLtMatmul"  # of a plan's step: outputs are the result and, where it takes one, the workspace
# numpy-like name of a dtype -> cudaDataType_t (library_types.h).
CUDA_TYPES = {"f32": 0, "f64": 1, "f16": 2, "c64": 4, "c128": 5, "bf16": 14}
COMPUTE_F32, COMPUTE_TF32, COMPUTE_F64 = 68, 77, 70  # cublasComputeType_t (cublas_api.h)
_WORDS = 8  # of a cublasLtMatmulAlgo_t


@dataclass(frozen=True, slots=True)
class Product:
    """result[b, m, n] = the sum over k of left[b, m, k] * right[b, k, n]; the result lies by b, m and n.

    `factor`, `result`, `scale`: cudaDataType_t of both operands, of the result and of its factor 1; `compute`:
    cublasComputeType_t. Of each operand: `turned`, 1 where its free index is contiguous, 0 where k is; `stride`:
    elements between neighbours along the other one; `step`: elements between matrices.
    """

    batch: int
    rows: int
    cols: int
    depth: int
    factor: int
    result: int
    compute: int
    scale: int
    left_turned: int
    left_stride: int
    left_step: int
    right_turned: int
    right_stride: int
    right_step: int


@dataclass(frozen=True, slots=True)
class Algorithm:
    """An algorithm of the library's `version`, which takes `workspace` bytes. `words`: its cublasLtMatmulAlgo_t, which
    NVIDIA lets be kept for that version alone. `result`: cudaDataType_t of what it computes."""

    version: int
    workspace: int
    words: tuple[int, ...]
    result: int

    def __str__(self) -> str:
        digest = hashlib.sha256(repr(self.words).encode()).hexdigest()[:8]
        names = {number: name for name, number in CUDA_TYPES.items()}
        made = f"{names.get(self.result, self.result)}, {self.workspace} bytes"
        return f"cuBLASLt {version_text(self.version)}, algorithm {digest}, {made}"

    def choice(self) -> Choice:
        """As knobs, in which results keep it."""
        words = {f"algorithm{n}": word for n, word in enumerate(self.words)}
        return Choice({"cublaslt": self.version, "workspace": self.workspace, "type": self.result, **words})


def chosen(choice: Choice) -> Algorithm | None:
    """What `Algorithm.choice` made, or nothing; of a choice with other knobs too nothing."""
    names = [f"algorithm{n}" for n in range(_WORDS)]
    if choice.keys() != {"cublaslt", "workspace", "type", *names}:
        return None
    words = tuple(choice[name] for name in names)
    return Algorithm(choice["cublaslt"], choice["workspace"], words, choice["type"])


def version_text(version: int) -> str:
    """'12.9.1' of 120901, '13.1.0' of 130100."""
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}"


def to_params(product: Product, algorithm: Algorithm) -> Params:
    """Both as a plan's step has them."""
    return (*asdict(product).items(), *algorithm.choice().items())


def from_params(params: Params) -> tuple[Product, Algorithm]:
    """Of `to_params`; ValueError for others."""
    values: Mapping[str, int] = dict(params)
    names = [field.name for field in fields(Product)]
    algorithm = chosen(Choice({name: value for name, value in values.items() if name not in names}))
    if algorithm is None or not set(names) <= values.keys():
        raise ValueError("not the numbers of a library's product")
    return Product(**{name: values[name] for name in names}), algorithm
