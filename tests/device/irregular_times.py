"""Sorts, scatters, factorisations and depthwise convolutions on this machine's GPU beside PyTorch and XLA.

    python -m tests.device.irregular_times [NAME...] [--form KNOB=VALUE,... --form ...] [--ordered] [--no-xla]

Needs PyTorch, JAX and Triton 3.9 or newer. A line: milliseconds by CUPTI (medians) of PyTorch, XLA and ours in its
default form and in those that are asked for, and the largest difference from PyTorch's result as a part of the largest
element. NAME: rows whose names begin so. --ordered: sums of scatters have the same bits in each run.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tests.codegen.contraction.test_convolution import module as convolution
from tests.codegen.contraction.test_convolution import out_shape
from tests.device.product_times import choice
from tests.hlo_case import combiner, module
from tfxla_cluster import compiler
from tfxla_cluster.backends import gpu
from tfxla_cluster.bench import gpu_peers, handed_arrays
from tfxla_cluster.bench.gpu_ours import Ours
from tfxla_cluster.bench.gpu_timing import TorchSide, burst
from tfxla_cluster.codegen.kernel.choice import UNTUNED, Choices, Given
from tfxla_cluster.errors import TfxlaError
from tfxla_cluster.ir import text
from tfxla_cluster.options import CompileOptions

ROUNDS = 15
TOTAL_LESS = """lt {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT, type=TOTALORDER
}
"""
PAIR_LESS = TOTAL_LESS.replace("  ROOT", "  c = s32[] parameter(2)\n  d = s32[] parameter(3)\n  ROOT")
ROWS = "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1"
Draw = Callable[[Any], Sequence[Any]]  # of torch: the arguments
Peer = Callable[..., Any]  # of torch and the arguments


@dataclass(frozen=True)
class Row:
    name: str
    source: str
    draw: Draw
    peer: Peer


def rows() -> Iterator[Row]:
    """All of them."""
    for dims in ((1, 1_000_000), (1024, 8192), (16384, 1024), (4096, 2048), (100_000, 100)):
        yield _sort(dims, numbers=False)
        yield _sort(dims, numbers=True)
    for opcode, places, count, inner in (
        ("add", 30000, 65536, 1024),
        ("add", 4000, 60000, 64),
        ("maximum", 4000, 60000, 64),
        ("add", 8, 65536, 256),
        ("add", 100_000, 1_000_000, 1),
        ("maximum", 100_000, 1_000_000, 1),
        ("add", 1000, 2000, 64),
    ):
        yield _scatter(opcode, places, count, inner)
    for batch, n in ((64, 64), (1, 1024), (16, 512), (256, 128)):
        yield _cholesky(batch, n)
        yield _solve(batch, n)
    for dtype in ("bf16", "f32"):
        yield _depthwise(dtype, 256, 56, 64)
        yield _depthwise(dtype, 128, 28, 256)


def _sort(dims: tuple[int, int], numbers: bool) -> Row:
    shape = f"[{dims[0]},{dims[1]}]"
    kinds = [f"f32{shape}", *[f"s32{shape}"] * numbers]
    lines = [f"  x{n} = {kind} parameter({n})" for n, kind in enumerate(kinds)]
    result = f"({', '.join(kinds)})" if numbers else kinds[0]
    lines.append(
        f"  ROOT r = {result} sort({'x0, x1' if numbers else 'x0'}), dimensions={{1}}, is_stable=true, to_apply=lt"
    )
    source = module("\n".join(lines), PAIR_LESS if numbers else TOTAL_LESS)

    def draw(torch: Any) -> list[Any]:
        x = torch.randn(dims, device="cuda")
        return [x, torch.arange(dims[1], dtype=torch.int32, device="cuda").expand(dims).contiguous()][: 1 + numbers]

    def peer(torch: Any, x: Any, *rest: Any) -> Any:
        values, places = torch.sort(x, dim=1, stable=True)
        return [values, places.int()] if numbers else [values]

    return Row(f"sort {dims[0]}x{dims[1]}{' with numbers' * numbers}", source, draw, peer)


def _scatter(opcode: str, places: int, count: int, inner: int) -> Row:
    body = f"""  x = f32[{places},{inner}] parameter(0)
  i = s32[{count},1] parameter(1)
  u = f32[{count},{inner}] parameter(2)
  ROOT r = f32[{places},{inner}] scatter(x, i, u), {ROWS}, to_apply=f"""

    def draw(torch: Any) -> list[Any]:
        index = torch.randint(0, places, (count, 1), dtype=torch.int32, device="cuda")
        return [torch.zeros(places, inner, device="cuda"), index, torch.randn(count, inner, device="cuda")]

    def peer(torch: Any, x: Any, i: Any, u: Any) -> Any:
        if opcode == "add":
            return [x.index_add(0, i[:, 0], u)]
        return [x.index_reduce(0, i[:, 0].long(), u, "amax")]

    return Row(f"scatter {opcode} {count}x{inner} into {places}", module(body, combiner(opcode, "f32")), draw, peer)


def _positive(torch: Any, batch: int, n: int) -> Any:
    x = torch.randn(batch, n, n, device="cuda")
    return x @ x.mT / n + torch.eye(n, device="cuda")


def _cholesky(batch: int, n: int) -> Row:
    kind = f"f32[{batch},{n},{n}]"
    source = module(f"  a = {kind} parameter(0)\n  ROOT r = {kind} cholesky(a), lower=true")
    return Row(
        f"cholesky {batch}x{n}",
        source,
        lambda torch: [_positive(torch, batch, n)],
        lambda torch, a: [torch.linalg.cholesky(a)],
    )


def _solve(batch: int, n: int) -> Row:
    kind = f"f32[{batch},{n},{n}]"
    how = "left_side=true, lower=true, unit_diagonal=false, transpose_a=NO_TRANSPOSE"
    source = module(
        f"  a = {kind} parameter(0)\n  b = {kind} parameter(1)\n  ROOT r = {kind} triangular-solve(a, b), {how}"
    )

    def draw(torch: Any) -> list[Any]:
        return [torch.linalg.cholesky(_positive(torch, batch, n)), torch.randn(batch, n, n, device="cuda")]

    return Row(
        f"solve {batch}x{n}x{n}", source, draw, lambda torch, a, b: [torch.linalg.solve_triangular(a, b, upper=False)]
    )


def _depthwise(dtype: str, images: int, size: int, channels: int) -> Row:
    lhs, rhs, window = (images, size, size, channels), (3, 3, 1, channels), "size=3x3 pad=1_1x1_1"
    labels, groups = "b01f_01io->b01f", f", feature_group_count={channels}"
    source = convolution(lhs, rhs, window, labels, out_shape(lhs, rhs, window, labels, dtype, groups), dtype, groups)

    def draw(torch: Any) -> list[Any]:
        kind = getattr(torch, handed_arrays.TORCH_DTYPES[dtype])
        return [torch.randn(lhs, device="cuda").to(kind), torch.randn(rhs, device="cuda").to(kind)]

    def peer(torch: Any, x: Any, w: Any) -> Any:
        found = torch.nn.functional.conv2d(x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1), padding=1, groups=channels)
        return [found.permute(0, 2, 3, 1)]

    return Row(f"depthwise {dtype} {images}x{size}x{size}x{channels}", source, draw, peer)


def _compiled(row: Row, form: str, ordered: bool) -> Any:
    """The executable in a form ('' for the default), or why there is none."""
    made = text.parse(row.source)
    choices: Choices = Given(made.entry.root.name, choice(form)) if form else UNTUNED
    try:
        return compiler.compile_module(
            made, gpu.this_machine(0, not ordered), CompileOptions(), choices=choices
        ).executable
    except TfxlaError as error:
        return str(error)


def measured(row: Row, executables: dict[str, Any], with_xla: bool) -> list[str]:
    """A line for the peers and one for each form."""
    import torch

    torch.manual_seed(0)
    args = list(row.draw(torch))
    calls: dict[str, Callable[[], Any]] = {"torch": lambda: row.peer(torch, *args)}
    if with_xla:
        calls["xla"] = gpu_peers.xla(text.parse(row.source), args)
    ours = {name: Ours(made, args) for name, made in executables.items() if not isinstance(made, str)}
    want = calls["torch"]()
    errors = {name: gpu_peers.error(call(), want) for name, call in ours.items()}
    found = burst([TorchSide({**calls, **{f"ours {name}": call for name, call in ours.items()}})], ROUNDS)
    best = min(found[name].median for name in calls)
    lines = [f"{row.name:42} " + ", ".join(f"{name} {found[name].median:.4f}" for name in calls)]
    for name, made in executables.items():
        if isinstance(made, str):
            lines.append(f"    {name or 'default'}: {made}")
        else:
            ms = found[f"ours {name}"].median
            lines.append(f"    {best / ms:6.3f} {ms:9.4f} ms, {errors[name]:.1e} off  {name or 'default'}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--form", action="append", default=[], help="KNOB=VALUE,... besides the default form")
    parser.add_argument("--ordered", action="store_true")
    parser.add_argument("--no-xla", action="store_true")
    parser.add_argument("--threads", type=int, default=16, help="that compile (default 16)")
    options = parser.parse_args()
    wanted = [row for row in rows() if not options.names or row.name.startswith(tuple(options.names))]
    jobs = [(row, form) for row in wanted for form in ("", *options.form)]
    with ThreadPoolExecutor(options.threads) as pool:
        made = dict(zip(jobs, pool.map(lambda job: _compiled(*job, options.ordered), jobs)))
    for row in wanted:
        executables = {form: made[row, form] for form in ("", *options.form)}
        print("\n".join(measured(row, executables, not options.no_xla)), flush=True)


if __name__ == "__main__":
    main()
