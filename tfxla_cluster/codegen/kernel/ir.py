"""Kernel IR: loop nests over scalar SSA values, the one form from which every target is generated.

A `Kernel` runs `grid` independent tasks. Its body is a list of statements in SSA form: a statement
defines values (`Var`), loads or stores one element, or is a loop. One loop of a nest may be marked
'vector': its iterations run in lanes (a SIMD register on a CPU, a block of a Triton program).
Values are scalars as written; a target widens those that depend on a vector loop's variable. A `Tile`
(GPUs only) is a block whose lanes go through its whole body in step, so that values stay in registers
between a reduction over the lanes (`Across`) and what follows it.

Index arithmetic is ordinary `Op`s on s64 values. Every extent is a value, usually a `Size` read
from the sizes given at run time, so that one kernel serves many shapes.

Meaning of an `Op` is that of the HLO instruction of the same opcode (`ir.evaluator`). A 'divide' or
'remainder' with the attribute `index` is of index values: not negative where the result is used, below 2^52,
and a divisor of 0 (the extent of an empty dimension) counts as 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Union

from ...ir.dim import Dim
from ...ir.dtype import DType


@dataclass(frozen=True, slots=True, eq=False)
class Var:
    """An SSA value: one element of `dtype`. `hint`, for people: the HLO instruction that it was made for."""

    dtype: DType
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Buffer:
    """A flat, dense array of `dtype` a kernel reads or writes; offsets count elements.

    role 'in' and 'out': `index` into the inputs or outputs of the ABI. An 'out' buffer may be read
    too (in-place update). role 'scratch': private to one task, `elements` long (a number that the
    kernel fixes), undefined at the start of a task; `index` counts the kernel's scratch buffers.
    """

    role: str
    index: int
    dtype: DType
    elements: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Const:
    """`out` is `value` (int, float, bool or complex, converted to out.dtype)."""

    out: Var
    value: Any


@dataclass(frozen=True, slots=True, eq=False)
class Size:
    """`out` (s64) is the number in `slot` of the kernel's sizes, a positive multiple of `multiple` (0: not known)."""

    out: Var
    slot: int
    multiple: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """`out = opcode(operands)`; attrs as the HLO instruction's (`direction` of compare, ...). `approximate`, of an
    exponential or logistic of f32 or a power of 2: right to 2^-20 of the result, and of the argument; of a tanh to
    2^-10 of the result."""

    out: Var
    opcode: str
    operands: tuple[Var, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """`out = buffer[offset]`; where `mask` is false, `other` (zero when None) and no access."""

    out: Var
    buffer: Buffer
    offset: Var
    mask: Var | None = None
    other: Var | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Store:
    """`buffer[offset] = value` where `mask` holds. Offsets of one vector loop never collide.

    `stream`: so much is written that it is out of the caches before it is read again, so that a target
    may write past them. `matrix`: of a `Descriptor`, whose element at the indices of the two tiles around the store is
    the one at the offset; a target may write a block of it whole. `place`, `rows`: of an array of more dims, where in
    all but the last, the inner tile's, the block of the outer tile's lanes begins, and how many of each it holds.
    """

    buffer: Buffer
    offset: Var
    value: Var
    mask: Var | None = None
    stream: bool = False
    matrix: Var | None = None
    place: tuple[Var, ...] = ()
    rows: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class For:
    """`for var in range(start, stop)`, with values carried from one iteration to the next.

    kind 'serial': in order. kind 'vector': iterations are independent (no carried values) and may
    run in lanes. `args[i]` is the carried value at the start of an iteration (`init[i]` at the
    first), `yields[i]` its value at the end, `outs[i]` the last one after the loop. `width`: lanes of a
    vector loop on a target that chooses none itself (a power of two; 0: as the target likes). `overlap`: no iteration
    of a serial loop reads what another writes, so that a target may begin one before the last is done.
    """

    var: Var
    start: Var
    stop: Var
    body: tuple[Stmt, ...]
    kind: str = "serial"
    init: tuple[Var, ...] = ()
    args: tuple[Var, ...] = ()
    yields: tuple[Var, ...] = ()
    outs: tuple[Var, ...] = ()
    width: int = 0
    overlap: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Statements with arguments and results, inlined where used."""

    args: tuple[Var, ...]
    body: tuple[Stmt, ...]
    results: tuple[Var, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Reduce:
    """Combine `values` of all iterations, in an order the target chooses from the extent alone.

    `outs = fold(combine, init, values(var) for var in range(start, stop))`. `combine` takes
    (accumulators..., values...) and gives the new accumulators; it is associative and commutative.
    `identity[i]`: a neutral element of combine, or None where unknown: then every partial
    accumulator starts from a value. Lanes follow `kind` 'vector'; 'serial' keeps the order. `width` as
    `For` has it.
    """

    var: Var
    start: Var
    stop: Var
    body: tuple[Stmt, ...]
    values: tuple[Var, ...]
    init: tuple[Var, ...]
    identity: tuple[Any, ...]
    combine: Region
    outs: tuple[Var, ...]
    kind: str = "vector"
    width: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Tile:
    """`body` for every `var` in range(start, stop) at once, in `width` lanes that keep step.

    `width` is a power of two, and at least stop - start. Tiles nest: their lanes then form a block of more
    dimensions. Lanes with var >= stop are idle: they neither load nor store at offsets that depend on
    `var`, and take no part in an `Across` or `Scan`; what they compute has no meaning. `full`: no lane is ever idle.
    `parts`: what follows a `Dot` in the body may go over the lanes in so many runs, so that less is held at once.
    """

    var: Var
    start: Var
    stop: Var
    width: int
    body: tuple[Stmt, ...]
    full: bool = False
    parts: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Across:
    """`outs = fold(combine, init, values of the lanes of the enclosing tile whose variable is `lane`)`.

    `combine`, `identity` and the freedom of order as `Reduce` has them; the results are the same in all
    lanes of the tile.
    """

    lane: Var
    values: tuple[Var, ...]
    init: tuple[Var, ...]
    identity: tuple[Any, ...]
    combine: Region
    outs: tuple[Var, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Scan:
    """Lane l's `outs` are the fold of `values` of the lanes up to l of the enclosing tile whose variable is `lane`.

    `combine` takes (left..., right...) and is associative; the target chooses where the parentheses stand.
    """

    lane: Var
    values: tuple[Var, ...]
    combine: Region
    outs: tuple[Var, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Descriptor:
    """`out` stands for an array of which a template reads, or a store writes, whole blocks of the extents `block`.

    Element [.., i, j], each index less than its extent in `dims`, is buffer[offset + .. + i * strides[-1] + j]; outside
    there are zeros. The offset and the strides are whole units of 16 bytes.
    """

    out: Var
    buffer: Buffer
    offset: Var
    dims: tuple[Var, ...]
    strides: tuple[Var, ...]
    block: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Blocks:
    """A factor of a `Dot` as blocks of the `Descriptor` that defines `matrix`: a matrix whose columns are k, or its
    rows where `turned`. `thirds`: the factor is f32, the sum of three blocks of bf16 that lie so many of the rows
    apart, the leading one first. `place`: of an array of more dims, the index at which the block of the lanes and of
    the k from its argument on begins; the elements of the block are those of a matrix in the same order."""

    matrix: Var
    turned: bool
    thirds: Var | None = None
    place: Region | None = None

    def regions(self) -> tuple[Region, ...]:
        return () if self.place is None else (self.place,)


@dataclass(frozen=True, slots=True, eq=False)
class Dot:
    """`out = sum of a(k) * b(k) for k in range(start, stop)`: in two nested tiles, a block of a matrix product.

    The factors have one dtype, or one that `matrix_types.unit_type` makes of both; they are multiplied and added in
    that of `out`, in an order that the target chooses from the statement and the extent alone. `a` depends on the
    variable of the outer tile and not on that of the inner, `b` the other way round: each is evaluated once for all
    lanes of a block. `depth`: how many k a target takes at a time (a power of two); `full`: stop - start is a multiple
    of it. `precision`: of products of f32, one of PRECISIONS. `stages`: how many blocks of k are on their way at once.
    `a_blocks`, `b_blocks`: where the factor may be read so; the regions say the same. `run`: 0, or a multiple of
    `depth`, of which start and stop are multiples too: the regions then take k as (k // run, k % run), the first of
    which is one for a whole block.
    """

    out: Var
    start: Var
    stop: Var
    a: Region
    b: Region
    depth: int
    full: bool = False
    precision: str = "ieee"
    stages: int = 1
    a_blocks: Blocks | None = None
    b_blocks: Blocks | None = None
    run: int = 0

    def regions(self) -> tuple[Region, ...]:
        """All regions of the statement, in order."""
        places = (r for blocks in (self.a_blocks, self.b_blocks) if blocks is not None for r in blocks.regions())
        return (self.a, self.b, *places)


PRECISIONS = ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")  # how a GPU may multiply f32, as Triton names it


@dataclass(frozen=True, slots=True, eq=False)
class If:
    """`outs = then` where `cond` (a scalar, not in lanes), else `orelse`."""

    cond: Var
    then: Region
    orelse: Region
    outs: tuple[Var, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class While:
    """`args` carry from `init`; while `cond` (a region of args, one pred result) `body` gives the next."""

    init: tuple[Var, ...]
    cond: Region
    body: Region
    outs: tuple[Var, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """`c[i, j] = (c[i, j] if accumulate else 0) + sum of a[i, k] * b[k, j] over k < depth`; i < rows, j < cols.

    The sum runs in the order of k and is then added to c, in the dtype of the three buffers (one
    float dtype). Element offsets: c[i, j]: c_offset + i * c_stride + j. a[i, k]: a_offset + i *
    a_stride + k ('row' major), or a_offset + k * a_stride + i ('depth' major). b[k, j]: b_offset +
    k * b_stride + j, or where `packed` b_offset + (j // panel) * b_stride + k * panel + j % panel.
    Whole panels of `panel` columns are read of a packed b, which must have room for them; else nothing beside the
    columns is touched. Not packed, depth is at most `contraction.PANEL_DEPTH`.
    """

    c: Buffer
    c_offset: Var
    c_stride: Var
    a: Buffer
    a_offset: Var
    a_stride: Var
    b: Buffer
    b_offset: Var
    b_stride: Var
    rows: Var
    cols: Var
    depth: Var
    accumulate: Var
    a_major: str = "row"
    packed: bool = True
    panel: int = 16


@dataclass(frozen=True, slots=True, eq=False)
class TritonCall:
    """The whole body of a kernel that its user wrote in Triton: `text` defines the jitted `function`.

    `arguments`: (parameter, a buffer to point to, or the text of a value). The kernel's tasks are the grid's first
    axis, `grid` the other two. `options` go to Triton's compiler. `places`: (function, file, line of its `def`).
    """

    function: str
    text: str
    arguments: tuple[tuple[str, Buffer | str], ...]
    grid: tuple[int, int]
    options: tuple[tuple[str, int], ...]
    places: tuple[tuple[str, str, int], ...]


class Template:
    """A statement that has a module of its own, and of which a target has one of its own (`attention_ir`)."""

    __slots__ = ()

    def regions(self) -> tuple[Region, ...]:
        """All regions of the statement, in order; each has two axes of lanes."""
        raise NotImplementedError


Stmt = Union[
    Template,
    Const,
    Size,
    Op,
    Load,
    Store,
    For,
    Reduce,
    Tile,
    Across,
    Scan,
    If,
    While,
    Descriptor,
    Dot,
    Product,
    TritonCall,
]


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """`body` runs once for each task: `task` (s64) counts from 0 to the number of tasks - 1.

    `sizes` gives the meaning of each size slot as a Dim over the module's sizes, `tasks` the
    number of tasks. Neither takes part in `codegen.kernel.key`: kernels that differ only there
    share machine code, and the launch plan holds the Dims. `cost` estimates the work of one task in scalar operations
    (for the grain of threads). `name` is for people, not unique. `warps` of a GPU's program (0: by its blocks' size).
    """

    name: str
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    scratch: tuple[Buffer, ...]
    sizes: tuple[Dim, ...]
    tasks: Dim
    task: Var
    body: tuple[Stmt, ...]
    cost: Dim = 1
    warps: int = 0
