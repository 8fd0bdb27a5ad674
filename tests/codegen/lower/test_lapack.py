"""Custom calls of LAPACK: every routine, type and odd size against the evaluator; modules of jax against jaxlib."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests import oracle
from tests.close import assert_near
from tfxla_cluster import compiler
from tfxla_cluster.backends import cpu, gpu, interpreter
from tfxla_cluster.codegen.kernel import lower
from tfxla_cluster.codegen.kernel.lower import lapack
from tfxla_cluster.errors import UnsupportedError, VerifierError
from tfxla_cluster.ir import attributes, text, verifier
from tfxla_cluster.ir.dim import sym
from tfxla_cluster.ir.dtype import DTYPES, S32
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.ir.lapack_calls import OPERANDS, RESULTS, SQUARE, letters_text, target_of
from tfxla_cluster.ir.node import Instr, Module
from tfxla_cluster.ir.shape import array, tuple_of
from tfxla_cluster.options import CompileOptions
from tfxla_cluster.runtime.plan import LibraryStep

TOLERANCE = {"f32": 2e-5, "f64": 1e-13, "c64": 2e-5, "c128": 1e-13}
REAL = {"f32": "f32", "f64": "f64", "c64": "f32", "c128": "f64"}
COMPLEX = {"f32": "c64", "f64": "c128", "c64": "c64", "c128": "c128"}
CONFIGS: dict[str, list[dict[str, str]]] = {
    "syevd": [{"mode": "V", "uplo": "L"}, {"mode": "N", "uplo": "U"}],
    "gesdd": [{"mode": mode} for mode in "ASN"],
    "gesvd": [{"mode": mode} for mode in "ASN"],
    "geev": [{"compute_left": "V", "compute_right": "V"}, {"compute_left": "N", "compute_right": "V"}],
    "gees": [{"mode": "V", "sort": "N"}, {"mode": "N", "sort": "N"}],
    "sytrd": [{"uplo": "L"}, {"uplo": "U"}],
    "potrf": [{"uplo": "L"}, {"uplo": "U"}],
}


def source(routine: str, dtype: str, batch: tuple[int, ...], m: int, n: int, codes: dict[str, str]) -> str:
    """A module of one call whose results are all returned but those that LAPACK spoils."""
    b, k = "".join(f"{d}," for d in batch), min(m, n)

    def of(kind: str, *dims: int) -> str:
        return f"{kind}[{(b + ','.join(map(str, dims))).rstrip(',')}]"

    a, real, less = of(dtype, m, n), REAL[dtype], max(0, n - 1)
    left, right = (m, n) if codes.get("mode") == "A" else (k, k)
    svd = [a, of(real, k), of(dtype, m, left), of(dtype, right, n), of("s32")]
    values = [of(dtype, n)] * (1 if dtype[0] == "c" else 2)
    results = {
        "getrf": [a, of("s32", k), of("s32")],
        "geqrf": [a, of(dtype, k)],
        "orgqr": [a],
        "geqp3": [a, of("s32", n), of(dtype, k)],
        "syevd": [a, of(real, n), of("s32")],
        "gesdd": svd,
        "gesvd": svd,
        "geev": [*values, of(COMPLEX[dtype], n, n), of(COMPLEX[dtype], n, n), of("s32")],
        "gees": [a, a, *values, of("s32"), of("s32")],
        "gehrd": [a, of(dtype, less), of("s32")],
        "sytrd": [a, of(real, n), of(real, less), of(dtype, less), of("s32")],
        "potrf": [a, of("s32")],
        "gtsv": [of(dtype, n)] * 3 + [of(dtype, n, 2), of("s32")],
    }[routine]
    operands = {
        "orgqr": [a, of(dtype, k)],
        "geqp3": [a, of("s32", n)],
        "gtsv": [of(dtype, n)] * 3 + [of(dtype, n, 2)],
    }.get(routine, [a])
    lost = {"gesdd": 1, "gesvd": 1, "gtsv": 3}.get(routine, 0)
    if routine == "syevd" and codes["mode"] == "N":
        lost = 1
    kept = range(lost, len(results))
    shape = results[0] if routine == "orgqr" else f"({', '.join(results)})"
    names = ", ".join(f"p{i}" for i in range(len(operands)))
    lines = [f"  p{i} = {o} parameter({i})" for i, o in enumerate(operands)]
    config = f", backend_config={letters_text(**codes)}"
    target = target_of(routine, DTYPES[dtype])
    lines.append(
        f'  call = {shape} custom-call({names}), custom_call_target="{target}",'
        f" api_version=API_VERSION_TYPED_FFI{config}"
    )
    if routine == "orgqr":
        lines[-1] = lines[-1].replace("  call", "  ROOT call", 1)
    else:
        lines += [f"  r{i} = {results[i]} get-tuple-element(call), index={i}" for i in kept]
        lines.append(f"  ROOT r = ({', '.join(results[i] for i in kept)}) tuple({', '.join(f'r{i}' for i in kept)})")
    return "HloModule m\n\nENTRY e {\n" + "\n".join(lines) + "\n}\n"


def arguments(module: Module, routine: str) -> list[np.ndarray]:
    rng, found = np.random.default_rng(1), []
    for param in module.entry.params:
        dims, dtype = param.shape.sample_dims, param.shape.element_type
        x = rng.standard_normal(dims) + (1j * rng.standard_normal(dims) if dtype.kind == "complex" else 0)
        if dtype == S32:
            x = np.zeros(dims)
        found.append(np.asarray(x.astype(dtype.numpy)))
    if routine == "potrf":
        eye = np.eye(found[0].shape[-1])
        found[0] = (found[0] @ np.swapaxes(found[0], -1, -2).conj() + 9 * eye).astype(found[0].dtype)
    if routine == "orgqr":  # factors of reflections, as geqrf gives them
        found[1] = (found[1] / 9).astype(found[1].dtype)
    if routine == "gtsv":
        found[1] = found[1] + np.asarray(9, found[1].dtype)
    return found


SIZES: list[tuple[tuple[int, ...], int, int]] = [((), 5, 5), ((3,), 4, 4), ((2, 20), 3, 3), ((2,), 1, 1), ((), 70, 70)]
ODD: list[tuple[tuple[int, ...], int, int]] = [((2,), 6, 3), ((2,), 3, 6)]
EMPTY: list[tuple[tuple[int, ...], int, int]] = [((0,), 3, 3), ((2,), 0, 0)]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("routine", RESULTS)
def test_against_the_evaluator(routine: str, dtype: str) -> None:
    square = routine in SQUARE or routine == "gtsv"
    sizes = [*SIZES, *EMPTY, *([] if square else ODD[:1] if routine == "orgqr" else ODD)]
    if routine == "sytrd":  # of many columns its last ones depend on the order of sums
        sizes.remove(((), 70, 70))
    for codes in CONFIGS.get(routine, [{}]):
        for batch, m, n in sizes if dtype == "f32" else sizes[:2]:
            module = text.parse(source(routine, dtype, batch, m, n, codes))
            verifier.verify(module)
            args = arguments(module, routine)
            want = evaluate(module, args)
            for backend in (cpu.this_machine(), interpreter.this_machine())[: 1 if m > 9 else 2]:
                got = compiler.compile_module(module, backend, CompileOptions()).executable.run(args)
                for number, (one, other) in enumerate(zip(got, want, strict=True)):
                    name = f"{routine} {dtype} {batch} {m} {n} {codes} {backend.name} result {number}"
                    assert one.dtype == other.dtype, name
                    assert_near(one, other, TOLERANCE[dtype] * (50 if m > 9 else 1), name)


def test_the_text_of_a_call_is_read_as_it_is_written() -> None:
    module = text.parse(source("gesdd", "f32", (2,), 3, 5, {"mode": "S"}))
    assert text.render(text.parse(text.render(module))) == text.render(module)


@pytest.mark.parametrize("routine", ["getrf", "potrf", "syevd"])
def test_a_status_is_a_result_of_each_matrix(routine: str) -> None:
    module = text.parse(source(routine, "f32", (3,), 4, 4, CONFIGS.get(routine, [{}])[0]))
    args = arguments(module, routine)
    args[0][1] = np.nan if routine == "syevd" else 0
    status = compiler.compile_module(module, cpu.this_machine(), CompileOptions()).executable.run(args)[-1]
    assert status[1] > 0
    assert status[0] == status[2] == 0


def test_batches_are_shared_among_tasks() -> None:
    module = text.parse(source("getrf", "f32", (100,), 4, 4, {}))
    plan = compiler.compile_module(module, cpu.this_machine(), CompileOptions()).plan
    assert [s.tasks for s in plan.steps if isinstance(s, LibraryStep)] == [16]


def test_sizes_that_vary_are_one_executable() -> None:
    rows, n = sym("rows", 3), sym("n", 4)
    a = Instr("a", "parameter", array(DTYPES["f32"], (rows, n, n)), attrs={"parameter_number": 0})
    shape = tuple_of(a.shape, array(S32, (rows, n)), array(S32, (rows,)))
    attrs = attributes.complete("custom-call", {"custom_call_target": target_of("getrf", DTYPES["f32"])})
    call = Instr("c", "custom-call", shape, (a,), attrs)
    first = text.parse(source("getrf", "f32", (3,), 4, 4, {}))
    comp = type(first.entry)("e", (a, call), call)
    module = first.replace(entry=comp)
    run = compiler.compile_module(module, cpu.this_machine(), CompileOptions()).executable.run
    for batch, size in ((3, 4), (1, 1), (20, 9), (0, 5)):
        one = text.parse(source("getrf", "f32", (batch,), size, size, {}))
        args = arguments(one, "getrf")
        for got, want in zip(run(args), evaluate(one, args), strict=True):
            assert_near(got, want, 2e-5)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("s32[2,3]", "s32[2,4]"),
        ("lapack_sgetrf_ffi", "lapack_dgetrf_ffi"),
        ("lapack_sgetrf_ffi", "lapack_spotrf_ffi"),
        ("custom-call(p0)", "custom-call(p0, p0)"),
    ],
)
def test_what_does_not_fit_its_routine_is_no_module(old: str, new: str) -> None:
    with pytest.raises(VerifierError, match=r"O8|A3"):
        verifier.verify(text.parse(source("getrf", "f32", (2,), 4, 3, {}).replace(old, new)))


def test_other_custom_calls_and_machines_are_refused_by_name() -> None:
    module = text.parse(source("getrf", "f32", (2,), 4, 4, {}))
    call = next(i for i in module.entry.instrs if i.opcode == "custom-call")
    with pytest.raises(UnsupportedError, match="lapack_sgetrf_ffi has no GPU kernel"):
        gpu.described().lower(call)
    other = call.replace(attrs={**call.attrs, "custom_call_target": "lapack_sgexyz_ffi"})
    with pytest.raises(UnsupportedError, match="lapack_sgexyz_ffi of"):
        lower.lower(other, cpu.this_machine().target)


def test_every_routine_says_how_many_operands_it_has() -> None:
    assert set(OPERANDS) == set(RESULTS) == set(lapack.ROUTINES)


def jax_programs() -> dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]]:
    """Functions of jax and the shapes of their arguments."""
    import jax
    import jax.numpy as jnp
    import jax.scipy.linalg as sl

    la = jnp.linalg
    square, tall, one = (2, 4, 4), (2, 5, 3), (4, 4)
    return {
        "solve": (la.solve, (square, square)),
        "inv": (la.inv, (square,)),
        "det": (la.det, (square,)),
        "slogdet": (la.slogdet, (square,)),
        "lu": (sl.lu, (one,)),
        "qr": (la.qr, (tall,)),
        "qr complete": (lambda a: la.qr(a, mode="complete"), (tall,)),
        "qr pivoting": (lambda a: sl.qr(a, pivoting=True), (one,)),
        "eigh": (la.eigh, (square,)),
        "eigvalsh": (la.eigvalsh, (square,)),
        "svd": (la.svd, (tall,)),
        "svd thin": (lambda a: la.svd(a, full_matrices=False), (tall,)),
        "svd values": (lambda a: la.svd(a, compute_uv=False), (tall,)),
        "eig": (la.eig, (square,)),
        "schur": (sl.schur, (one,)),
        "expm": (sl.expm, (one,)),
        "sqrtm": (sl.sqrtm, (one,)),
        "triangular": (sl.solve_triangular, (one, one)),
        "tridiagonal": (jax.lax.linalg.tridiagonal_solve, ((4,), (4,), (4,), (4, 2))),
        "pinv": (la.pinv, (tall,)),
        "lstsq": (lambda a, b: la.lstsq(a, b)[0], ((5, 3), (5, 2))),
    }


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_modules_of_jax(dtype: str) -> None:
    import jax
    from jaxlib import lapack as jaxlibs

    jaxlibs._lapack.initialize()  # fills the table of functions that jaxlib's kernels call
    rng = np.random.default_rng(0)
    for name, (fn, shapes) in jax_programs().items():
        if (name, dtype) in (("schur", "complex64"), ("sqrtm", "complex64"), ("expm", "complex64")):
            continue
        args = [rng.standard_normal(s) + (1j * rng.standard_normal(s) if dtype[0] == "c" else 0) for s in shapes]
        args = [np.asarray(a.astype(dtype)) for a in args]
        written = jax.jit(fn).lower(*args).compiler_ir("hlo").as_hlo_text()
        got = compiler.compile_module(text.parse(written), cpu.this_machine(), CompileOptions()).executable.run(args)
        for one, other in zip(got, oracle.run(written, args), strict=True):
            assert_near(one, other, 1e-5, name)
