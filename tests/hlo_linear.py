"""Cases of linear algebra: cholesky and triangular-solve in all their forms; what XLA's own custom calls are."""

from __future__ import annotations

from tests.hlo_case import Case, module

_REAL_OF = {"f32": "f32", "f64": "f64", "c64": "f32", "c128": "f64", "bf16": "bf16"}


def _dominant(dtype: str, n: int, dims: str, by: int) -> str:
    """HLO text of `aa`: parameter `a` with `by` added on the diagonal."""
    added, none = (f"({by}, 0)", "(0, 0)") if dtype[0] == "c" else (by, 0)
    return f"""
  i = s32[{n},{n}] iota(), iota_dimension=0
  j = s32[{n},{n}] iota(), iota_dimension=1
  same = pred[{n},{n}] compare(i, j), direction=EQ
  ten = {dtype}[] constant({added})
  tens = {dtype}[{n},{n}] broadcast(ten), dimensions={{}}
  zero = {dtype}[] constant({none})
  zeros = {dtype}[{n},{n}] broadcast(zero), dimensions={{}}
  diagonal = {dtype}[{n},{n}] select(same, tens, zeros)
  more = {dtype}[{dims}{n},{n}] broadcast(diagonal), dimensions={{{"1,2" if dims else "0,1"}}}
  aa = {dtype}[{dims}{n},{n}] add(a, more)"""


def cholesky(dtype: str, lower: str, n: int, dims: str, by: int) -> Case:
    """`dims`: of the batch, each with a comma; `by`: what is added on the diagonal."""
    body = (
        f"  a = {dtype}[{dims}{n},{n}] parameter(0)"
        + _dominant(dtype, n, dims, by)
        + f"\n  ROOT r = {dtype}[{dims}{n},{n}] cholesky(aa), lower={lower}"
    )
    if dtype[0] == "c":  # the diagonal of a Hermitian matrix is real
        real, kept = _REAL_OF[dtype], f"{dtype}[{dims}{n},{n}]"
        body = body.replace(
            f"\n  aa = {kept} add(a, more)",
            f"""
  re = {real}[{dims}{n},{n}] real(a)
  none = {real}[] constant(0)
  nones = {real}[{dims}{n},{n}] broadcast(none), dimensions={{}}
  ra = {kept} complex(re, nones)
  all = pred[{dims}{n},{n}] broadcast(same), dimensions={{{"1,2" if dims else "0,1"}}}
  ha = {kept} select(all, ra, a)
  aa = {kept} add(ha, more)""",
        )
    return Case(f"cholesky-{dtype}-{lower}-{dims}{n}-{by}", module(body), 512, finite=True)


def _cholesky() -> list[Case]:
    cases = []
    for dtype in _REAL_OF:
        for lower in ("true", "false"):
            sizes = ((5, "3,", 40), (1, "", 9), (0, "2,", 1), (33, "", 200), (4, "2,", -1))
            cases += [cholesky(dtype, lower, *size) for size in (sizes if dtype == "f32" else sizes[:1] + sizes[-1:])]
    return cases


def solve(dtype: str, left: str, n: int, b: str, lower: str, transpose: str, by: int = 10) -> Case:
    """Two systems of `n` unknowns; `b`: the dims of the right-hand sides; `by`: what is added on a diagonal that is
    not of ones."""
    unit = "true" if dtype == "f64" else "false"
    body = (
        f"  a = {dtype}[2,{n},{n}] parameter(0)\n  b = {dtype}[{b}] parameter(1)"
        + _dominant(dtype, n, "2,", by if unit == "false" else 1)
        + f"\n  ROOT r = {dtype}[{b}] triangular-solve(aa, b), left_side={left}, lower={lower},"
        f" transpose_a={transpose}, unit_diagonal={unit}"
    )
    return Case(f"solve-{dtype}-{left}-{b}-{lower}-{transpose}", module(body), 4096, finite=True)


def _solves() -> list[Case]:
    cases = []
    for dtype in _REAL_OF:
        sizes = (("true", 7, "2,7,3"), ("false", 7, "2,3,7"), ("true", 1, "2,1,70"), ("false", 3, "2,0,3"))
        for left, n, b in sizes if dtype == "f32" else sizes[:2]:
            for lower in ("true", "false"):
                forms = ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT") if dtype in ("f32", "c64") else ("ADJOINT",)
                cases += [solve(dtype, left, n, b, lower, transpose) for transpose in forms]
    return cases


def linear() -> list[Case]:
    return [*_cholesky(), *_solves()]


def expanded() -> list[Case]:
    """Custom calls that XLA expands itself, as TensorFlow's bridge makes them: CPUs have them, by LAPACK."""
    cases = []
    for dtype in ("f32", "f64", "c64", "c128", "bf16"):
        sizes = ((3, 5, 5), (2, 7, 3), (2, 3, 7), (1, 1, 1), (0, 4, 2), (2, 0, 3), (2, 3, 0), (1, 40, 70))
        for batch, m, n in sizes if dtype == "f32" else sizes[:3]:
            k, a = min(m, n), f"{dtype}[{batch},{m},{n}]"
            body = f"""  a = {a} parameter(0)
  qr = ({a}, {dtype}[{batch},{k}]) custom-call(a), custom_call_target="Qr"
  packed = {a} get-tuple-element(qr), index=0
  tau = {dtype}[{batch},{k}] get-tuple-element(qr), index=1
  q = {a} custom-call(packed, tau), custom_call_target="ProductOfElementaryHouseholderReflectors"
  ROOT r = ({a}, {a}) tuple(packed, q)"""
            cases.append(Case(f"qr-{dtype}-{batch}-{m}-{n}", module(body), 512, finite=True))
        real, n = _REAL_OF[dtype], 6
        for lower in (0, 1):
            a = f"{dtype}[2,{n},{n}]"
            body = f"""  a = {a} parameter(0)
  e = ({a}, {real}[2,{n}]) custom-call(a), custom_call_target="Eigh", backend_config="{lower},1,100,1e-6"
  ROOT w = {real}[2,{n}] get-tuple-element(e), index=1"""
            cases.append(Case(f"eigh-{dtype}-{lower}", module(body), 512, finite=True))
    return cases
