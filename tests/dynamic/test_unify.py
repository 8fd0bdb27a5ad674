"""One module from modules of several sizes: what is fitted, what is not and why, and that no wrong one is proven."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import ml_dtypes
import numpy as np
import pytest

from tests.codegen.triton import gpu_module
from tfxla_cluster import compiler
from tfxla_cluster.backends import cpu
from tfxla_cluster.dynamic import prove, rows, unify
from tfxla_cluster.dynamic.misfit import Misfit
from tfxla_cluster.dynamic.rows import Rows
from tfxla_cluster.dynamic.unifier import Generic
from tfxla_cluster.dynamic.unify import Limits
from tfxla_cluster.ir import guard
from tfxla_cluster.ir.builder import Builder, scalar_computation
from tfxla_cluster.ir.dim import LEAST_GENERIC, DimExpr
from tfxla_cluster.ir.dtype import DTYPES, F32, S32
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.ir.node import ConvDims, Instr, Metadata, Module, WindowDim
from tfxla_cluster.ir.rewrite import rebuild
from tfxla_cluster.ir.shape import array, tuple_of
from tfxla_cluster.ir.size_values import instantiate, named_sizes
from tfxla_cluster.ir.verifier import verify
from tfxla_cluster.size_spec import Size

IMAGE = ConvDims(0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2))
Body = Callable[..., list[Instr]]


def lowered(body: Body, *sizes: int) -> Rows:
    """`body(builder, *sizes)` as a module, as the bridge lowers it at these sizes."""
    b = Builder("m")
    return rows.of_module(b.module(*body(b, *sizes)))


def unified(body: Body, *sizes: Sequence[int], limits: Limits = unify.NONE) -> Generic:
    """The generic module of those at some sizes; it has to be one."""
    found = unify.unify([lowered(body, *own) for own in sizes], limits)
    assert isinstance(found, Generic), str(found)
    return found


def misfit(body: Body, *sizes: Sequence[int], limits: Limits = unify.NONE) -> str:
    """Why there is none."""
    found = unify.unify([lowered(body, *own) for own in sizes], limits)
    assert isinstance(found, Misfit)
    return str(found)


def floats(b: Builder, *dims: int) -> Instr:
    return b.parameter(array(F32, dims))


def drawn(module: Module, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(-4, 5, p.shape.sample_dims).astype(p.shape.element_type.numpy) for p in module.entry.params]


def check_in_triton(body: Body) -> None:
    """Its kernels for all sizes, in Triton's interpreter."""
    generic = unified(body, (32, 10), (48, 14))
    executable = gpu_module.compiled(generic.module, gpu_module.Interpreted()).executable
    for sizes in ((5, 2), (13, 9)):
        own = lowered(body, *sizes).module
        args = drawn(own, 7)
        for got, want in zip(executable.run(args), evaluate(own, args), strict=True):
            assert (got.dtype, got.shape, got.tobytes()) == (want.dtype, want.shape, want.tobytes()), sizes


def check_at(body: Body, generic: Generic, *sizes: int) -> None:
    """Proven at sizes, and there as the module of these sizes, bit for bit: by the evaluator and compiled."""
    own = lowered(body, *sizes)
    proof = prove.prove(generic, own)
    assert proof, proof.reason
    env = prove.sizes_of(generic, own.module.param_shapes)
    assert isinstance(env, Mapping)
    verify(instantiate(generic.module, env))
    args = drawn(own.module, 7)
    wanted = evaluate(own.module, args)
    args += prove.handed_over(generic, own)
    executable = compiler.compile_module(generic.module, cpu.this_machine()).executable
    for results in (evaluate(instantiate(generic.module, env), args), executable.run(args)):
        for got, want in zip(results, wanted, strict=True):
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            assert got.tobytes() == want.tobytes(), f"{sizes}: {got} for {want}"


# --- what is fitted ---


def _moves(b: Builder, n: int, m: int) -> list[Instr]:
    x = floats(b, n, m)
    flat = b.reshape(x, [n * m])
    again = b.reshape(flat, [m, n])
    head, tail = b.slice(x, [(1, n, 1), (0, m, 1)]), b.slice(x, [(0, 1, 1), (0, m, 1)])
    padded = b.pad(x, b.constant(0.0), [(1, n), (0, 0)])
    left, right = b.slice(x, [(0, n, 1), (1, m, 1)]), b.slice(x, [(0, n, 1), (0, 1, 1)])
    wide = b.pad(b.concatenate([left, right], 1), b.constant(2.0), [(0, 0), (3, 1)])
    return [wide, again, b.concatenate([head, tail], 0), padded, b.transpose(x, [1, 0]), b.iota(array(S32, (m, n)), 1)]


def _tied(b: Builder, n: int, m: int) -> list[Instr]:
    """The third argument has the first two's sizes multiplied, the second those of the first."""
    x, y, z = floats(b, n, m), floats(b, n, m), floats(b, n * m * 2)
    both = b.concatenate([b.reshape(b.add(x, y), [n * m])] * 2, 0)
    return [b.add(both, z)]


def _literals(b: Builder, n: int, m: int) -> list[Instr]:
    """What TensorFlow folds: counts, means, Bessel's correction, scales, shapes, ranges and masks."""
    x, count = floats(b, n, m), n * m
    values = [
        b.constant(np.float32(1 / n)),
        b.constant(np.float32(0.1) * np.float32(1)),
        b.constant(np.float32(count / (count - 1))),
        b.constant(np.float32(1 / np.sqrt(m))),
        b.constant(np.float64(n) / 3),
        b.constant(np.float32(2.5 * n).astype(ml_dtypes.bfloat16)),
        b.constant(n - 1),
        b.constant(np.array([n, 7, count], np.int32)),
        b.constant(np.array([[3, -n]], np.int64)),
        b.constant(np.arange(n, dtype=np.int32) * 3 - 1),
        b.constant(np.tril(np.ones((m, m), np.float32))),
        b.constant(np.triu(np.full((1, n, n), True), 1)),
        b.constant(np.full((n, 2), 0.5 / m, np.float32)),
        b.constant(np.eye(m, dtype=np.float32) * n),
        b.constant(np.broadcast_to(np.tri(m, dtype=bool), (3, 2, m, m))),
        b.constant(np.broadcast_to(np.eye(n, m, 1), (m, n, m))),
        b.constant(np.broadcast_to(np.array([[0.5, np.nan, -0.0]], np.float32)[:, None], (1, n, 3))),
        b.constant(np.arange(n)[:, None] - np.arange(m)[None] + n),
        b.constant(np.arange(1, m + 1).astype(ml_dtypes.bfloat16)),
        b.constant(np.zeros((m,), np.float32)),
    ]
    return [x, *values]


def _control(b: Builder, n: int, m: int) -> list[Instr]:
    """A loop that counts to a size over arrays, and branches."""
    x = floats(b, n, m)
    state = tuple_of(array(S32), array(F32, (n, m)))
    body, condition = Builder("body"), Builder("condition")
    inner = body.parameter(state)
    step = body.add(body.get_tuple_element(inner, 0), body.constant(1))
    filled = body.add(body.get_tuple_element(inner, 1), body.broadcast(body.constant(np.float32(n)), [n, m]))
    asked = condition.parameter(state)
    limit = condition.compare(condition.get_tuple_element(asked, 0), condition.constant(m), "LT")
    loop = b.while_(b.tuple(b.constant(0), x), condition.build(limit), body.build(step, filled))
    result = b.get_tuple_element(loop, 1)
    branches = []
    for name, opcode in (("yes", "negate"), ("no", "abs")):
        branch = Builder(name)
        branches.append(branch.build(branch.add_op(opcode, branch.parameter(array(F32, (n, m))))))
    chosen = b.conditional(b.compare(b.constant(0), b.get_tuple_element(loop, 0), "LT"), branches, [result, x])
    total = b.reduce([chosen], [b.constant(0.0)], [0], scalar_computation("add", "f32"))
    return [total, b.get_tuple_element(loop, 0)]


def _products(b: Builder, n: int, m: int) -> list[Instr]:
    """A convolution with stride 2 over an image whose height varies, a batched product, a gather."""
    x, weights = floats(b, n, m, 6, 3), floats(b, 3, 3, 3, 2)
    window = (WindowDim(3, 1, 1, 1), WindowDim(3, 2, 0, 0))
    image = b.convolution(x, weights, window=window, dim_labels=IMAGE)
    pairs = b.dot(x, x, [2, 3], [2, 3], [0], [0])
    return [image, pairs]


FITTED = {"moves": _moves, "tied": _tied, "literals": _literals, "control": _control, "products": _products}


@pytest.mark.parametrize("name", FITTED)
def test_one_module(name: str) -> None:
    body = FITTED[name]
    generic = unified(body, (32, 10), (48, 14))
    assert len(named_sizes(generic.module)) == 2
    for sizes in ((32, 10), (5, 2), (2, 31), (23, 29)):
        check_at(body, generic, *sizes)


def test_one_size_alone_stays_alone() -> None:
    generic = unified(_moves, (32, 10), (48, 10))
    assert [size.low for size in named_sizes(generic.module).values()] == [2]
    assert not prove.prove(generic, lowered(_moves, 48, 11))


def test_the_same_product_of_another_op_is_another_module() -> None:
    """TensorFlow lets some of its ops drop bits of f32, and not others."""

    def product(op: str, size: int) -> Rows:
        module = lowered(lambda b, n: [b.dot(floats(b, n, 3), floats(b, 3, n), [1], [0])], size).module
        root = module.entry.root
        return rows.of_module(module.replace(entry=rebuild(module.entry, {root: root.replace(metadata=Metadata(op))})))

    generic = unify.unify([product("MatMul", size) for size in (8, 12)])
    assert isinstance(generic, Generic)
    assert prove.prove(generic, product("MatMul", 20))
    assert "SparseMatMul" in prove.prove(generic, product("SparseMatMul", 20)).reason


def test_three_modules_tell_sizes_apart() -> None:
    """Two that changed together are one size; a third module parts them."""
    two = unified(_moves, (32, 32), (48, 48))
    assert len(named_sizes(two.module)) == 1
    assert "s0 is 48 and 32" in prove.prove(two, lowered(_moves, 48, 32)).reason
    three = unified(_moves, (32, 32), (48, 48), (48, 32))
    check_at(_moves, three, 7, 11)


def test_ranges_are_narrowed_where_that_is_needed() -> None:
    def body(b: Builder, n: int) -> list[Instr]:
        return [b.slice(floats(b, n), [(5, n, 1)])]

    generic = unified(body, (8,), (12,))
    assert [size.low for size in named_sizes(generic.module).values()] == [5]
    check_at(body, generic, 9)
    less = lowered(lambda b, n: [b.slice(floats(b, n), [(min(5, n), n, 1)])], 4)
    assert "must be at least 5" in prove.prove(generic, less).reason


def test_small_sizes_have_an_end() -> None:
    """Kernels may keep rows of small sizes at hand; a large one makes a module for any."""
    small = unified(_variable, (8,), (12,))
    assert [size.high for size in named_sizes(small.module).values()] == [2**15]
    assert "must be at least 2 and at most 32768" in prove.prove(small, lowered(_variable, 40_000)).reason
    check_at(_variable, unified(_variable, (8,), (12,), (40_000,)), 50_000)


def test_dead_constants_do_not_matter() -> None:
    def body(b: Builder, n: int) -> list[Instr]:
        if n > 4:
            b.constant(3)
        return [b.negate(floats(b, n))]

    check_at(body, unified(body, (3,), (8,)), 4)


# --- what is not ---


def _python_branch(b: Builder, n: int) -> list[Instr]:
    x = floats(b, n)
    return [b.negate(x) if n == 33 else b.abs(x)]


def _table(b: Builder, n: int) -> list[Instr]:
    table = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    return [b.add(floats(b, n), b.constant(table))]


def _squares(b: Builder, n: int) -> list[Instr]:
    """A literal whose length is no expression that is looked for."""
    return [floats(b, n), b.constant(np.zeros(n**5 % 97, np.float32))]


def _odd(b: Builder, n: int) -> list[Instr]:
    """Padding of an odd size; the window differs."""
    window = [WindowDim(2, 2, 0, n % 2)]
    return [b.reduce_window([floats(b, n)], [b.constant(0.0)], window, scalar_computation("add", "f32"))]


def _variable(b: Builder, n: int) -> list[Instr]:
    return [b.add(floats(b, n), floats(b, n))]


def _constant(b: Builder, n: int) -> list[Instr]:
    return [b.multiply(floats(b, 4), b.broadcast(b.constant(float(n)), [4]))]


def _transforms(b: Builder, n: int) -> list[Instr]:
    """Over one dimension and over two."""
    x = b.convert(floats(b, 6, n), DTYPES["c64"])
    return [b.fft(x, "FFT", [n] if n % 2 else [6, n])]


def _rows_of_their_own(b: Builder, n: int) -> list[Instr]:
    """The same first row, others that differ."""
    table = np.concatenate([np.ones((1, 3)), np.random.default_rng(n).standard_normal((n - 1, 3))])
    return [floats(b, n), b.constant(table.astype(np.float32))]


MISFITS: dict[str, tuple[Body, Sequence[int], str]] = {
    "python": (_python_branch, (32, 33), "%negate (negate): the programs part here: %abs"),
    "table": (_table, (4, 6), "%constant (constant): a literal varies that follows no size: [-0.651"),
    "rows": (_rows_of_their_own, (4, 6), "%constant (constant): a literal varies that follows no size: [[ 1."),
    "length": (
        _squares,
        (4, 6, 7),
        "%constant (constant): its sizes follow from those of the arguments in no way: f32[54]",
    ),
    "window": (_odd, (4, 5), "%reduce-window (reduce-window): window differs: (WindowDim(size=2, stride=2, pad_low=0"),
    "transforms": (_transforms, (4, 5), "%fft (fft): fft_length differs: (6, 4), (5,)"),
    "one": (_variable, (1, 5), "sizes below 2 have modules of their own"),
    "none": (_variable, (0, 5), "sizes below 2 have modules of their own"),
    "same": (_variable, (5, 5), "no size of an argument differs"),
    "constant": (_constant, (4, 5), "no size of an argument differs, but this constant does"),
}


@pytest.mark.parametrize("name", MISFITS)
def test_why_there_is_none(name: str) -> None:
    body, sizes, reason = MISFITS[name]
    assert reason in misfit(body, *((size,) for size in sizes))


def test_variables_have_numbers() -> None:
    said = misfit(_variable, (4,), (5,), limits=Limits({(1, 0): "it is a variable's"}))
    assert "%p1 (parameter): dimension 0 may not vary (it is a variable's): 4, 5" in said


def test_sizes_have_the_names_and_ranges_that_are_said() -> None:
    def body(b: Builder, n: int, m: int) -> list[Instr]:
        return [b.add(floats(b, n, m), floats(b, n, m))]

    limits = Limits(sizes={(0, 0): Size("rows", 3, 40), (1, 1): Size("s9", max=8)})
    found = unify.unify([lowered(body, 4, 6), lowered(body, 20, 7)], limits)
    assert isinstance(found, Generic)
    rows_, inner = found.module.entry.params[0].shape.dims
    assert isinstance(rows_, DimExpr)
    assert isinstance(inner, DimExpr)
    assert (rows_.name, rows_.low, rows_.high) == ("rows", 3, 40)
    assert (inner.name, inner.low, inner.high) == ("s1", LEAST_GENERIC, 8)
    assert prove.prove(found, lowered(body, 40, 8))
    for wrong in ((41, 8), (2, 8), (40, 9)):
        assert not prove.prove(found, lowered(body, *wrong))
    parted = unify.unify([lowered(body, 4, 6), lowered(body, 41, 7)], limits)
    assert "dimension 0 leaves rows[3..40]: 4, 41" in str(parted)


def test_sizes_are_at_most_what_a_table_has() -> None:
    """As many rows are taken of what does not vary."""

    def body(b: Builder, n: int) -> list[Instr]:
        rows_ = b.slice(floats(b, 50, 3), [(0, n), (0, 3)])
        return [b.add(rows_, floats(b, n, 3))]

    found = unified(body, (4,), (20,))
    assert prove.prove(found, lowered(body, 50))
    assert prove.prove(found, lowered(body, 2))
    wide = unify.unify([lowered(body, 4), lowered(body, 20)], Limits(sizes={(1, 0): Size("n", max=30)}))
    assert isinstance(wide, Generic)
    assert not prove.prove(wide, lowered(body, 31))


def test_residue_classes_have_modules_of_their_own() -> None:
    """Windows hold numbers: sizes of one class have the same."""
    for first in (8, 9):
        generic = unified(_odd, (first,), (first + 8,))
        check_at(_odd, generic, first + 4)
        assert not prove.prove(generic, lowered(_odd, first + 5))


# --- no wrong one is proven ---


@pytest.mark.parametrize(
    "wrong",
    [
        lambda b, n: [b.multiply(floats(b, n), b.broadcast(b.constant(np.float32(min(n, 40))), [n]))],
        lambda b, n: [b.slice(floats(b, n), [(0, min(n, 40) - 1, 1)])],
        lambda b, n: [floats(b, n), b.iota(array(S32, (min(n, 40),)))],
        lambda b, n: [b.add(floats(b, n), b.constant(np.full(n, min(n, 40), np.float32)))],
        lambda b, n: [b.negate(floats(b, n)) if n < 40 else b.abs(floats(b, n))],
        lambda b, n: [b.reverse(floats(b, n, 2), [0 if n < 40 else 1])],
    ],
    ids=["literal", "slice", "shape", "array", "opcode", "attribute"],
)  # fmt: skip
def test_what_holds_at_two_sizes_only_is_not_proven(wrong: Body) -> None:
    generic = unified(wrong, (32,), (36,))
    for size in (3, 39):
        check_at(wrong, generic, size)
    assert prove.prove(generic, lowered(wrong, 60)).rule == "dynamic-proof"


def test_a_proof_looks_at_aliases_and_parameters() -> None:
    generic = unified(_variable, (4,), (6,))
    more = lowered(lambda b, n: [*_variable(b, n), floats(b, n)], 5)
    assert not prove.prove(generic, more)


def test_kernels_may_be_for_some_sizes_only() -> None:
    guards = [guard.divisible((0, 0), 4), guard.in_range((1, 0), 2, 100)]
    assert prove.holds(guards, lowered(_variable, 8).module.param_shapes)
    for size in (6, 104):
        assert "for other sizes" in prove.holds(guards, lowered(_variable, size).module.param_shapes).reason
