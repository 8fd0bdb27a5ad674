"""Shapes: an array of a dtype, a tuple of shapes, a token, or an opaque value."""

from __future__ import annotations

from dataclasses import dataclass, replace

from . import dim as dims_
from .dim import Dim
from .dtype import DType


@dataclass(frozen=True, slots=True)
class Shape:
    """kind 'array': `dtype`, `dims` (outermost first), `layout` (minor to major; None = row-major).

    kind 'tuple': `elements`. kinds 'token' and 'opaque' carry nothing. Buffers of ours are always
    row-major and dense: a pass materialises any other layout; `layout` serves text and protos.
    """

    kind: str
    dtype: DType | None = None
    dims: tuple[Dim, ...] = ()
    layout: tuple[int, ...] | None = None
    elements: tuple[Shape, ...] = ()

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def is_array(self) -> bool:
        return self.kind == "array"

    @property
    def is_tuple(self) -> bool:
        return self.kind == "tuple"

    @property
    def is_static(self) -> bool:
        """Every dim (of every element) is a plain integer."""
        return all(isinstance(d, int) for d in self.dims) and all(e.is_static for e in self.elements)

    @property
    def element_count(self) -> Dim:
        return dims_.product(self.dims)

    @property
    def sample_dims(self) -> tuple[int, ...]:
        """The dims as numbers, for estimates and text."""
        return tuple(dims_.sample(d) for d in self.dims)

    @property
    def element_type(self) -> DType:
        """The dtype of an array shape."""
        assert self.dtype is not None, self
        return self.dtype

    @property
    def byte_size(self) -> Dim:
        """Bytes of a dense buffer of an array shape."""
        return dims_.make("mul", self.element_count, self.element_type.itemsize)

    def with_dims(self, dims: tuple[Dim, ...]) -> Shape:
        return replace(self, dims=tuple(dims), layout=None)

    def same_as(self, other: Shape) -> bool:
        """Equal but for layout."""
        return (self.kind, self.dtype, self.dims) == (other.kind, other.dtype, other.dims) and (
            len(self.elements) == len(other.elements)
            and all(a.same_as(b) for a, b in zip(self.elements, other.elements))
        )

    def __str__(self) -> str:
        if self.is_tuple:
            return "(" + ", ".join(map(str, self.elements)) + ")"
        if not self.is_array:
            return f"{self.kind}[]"
        return f"{self.dtype}[{','.join(map(str, self.dims))}]"


def array(dtype: DType, dims: tuple[Dim, ...] = (), layout: tuple[int, ...] | None = None) -> Shape:
    return Shape("array", dtype, tuple(dims), layout)


def tuple_of(*elements: Shape) -> Shape:
    return Shape("tuple", elements=tuple(elements))


TOKEN = Shape("token")
