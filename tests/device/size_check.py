"""Runs a bundle that `size_bundle` wrote on this machine's GPU: kernels for all sizes against the evaluator at many
sizes, and beside kernels for one size.

Ratios are the time of kernels for one size over that of kernels for all, by turns of replayed CUDA graphs; the results
of both are compared. Exit code 1 where a result is wrong.
"""

from __future__ import annotations

import lzma
import pickle
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from tests.device.kernel_check import difference, results
from tfxla_cluster.bench.gpu_rows import Draw
from tfxla_cluster.codegen.kernel.code import Code
from tfxla_cluster.errors import TfxlaError
from tfxla_cluster.ir import proto
from tfxla_cluster.ir.dtype import DTYPES
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.ir.size_values import instantiate, named_sizes
from tfxla_cluster.runtime import plan_json
from tfxla_cluster.runtime.gpu.driver import Driver
from tfxla_cluster.runtime.gpu.executable import Executable

TURNS, LONGEST_S, MOST_CALLS = 9, 0.004, 200
Arrays = list[np.ndarray[Any, Any]]


def drawn(draw: Draw, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """An input."""
    if draw.below:
        return rng.integers(0, draw.below, draw.shape).astype(DTYPES[draw.dtype].numpy)
    return np.asarray(rng.standard_normal(draw.shape) * draw.scale).astype(DTYPES[draw.dtype].numpy)


def reference(case: dict[str, Any], size: int) -> tuple[Arrays, Arrays] | None:
    """Arguments at a size and the evaluator's results; None where the module is not for that size."""
    module = proto.read(case["module"])
    sizes = named_sizes(module)
    if not all(one.admits(size) for one in sizes.values()):
        return None
    rng = np.random.default_rng(size)
    args = [drawn(draw, rng) for draw in case["inputs"][size]]
    return args, [np.asarray(a) for a in evaluate(instantiate(module, dict.fromkeys(sizes, size)), args)]


def executable(
    bundle: dict[str, Any], made: dict[str, Any], least_graph: int = 0, driver: Driver | None = None
) -> Executable:
    """Of a plan in the bundle, on the first GPU."""
    code = Code(tuple(bundle["cubins"][n] for n in made["cubins"]))
    return Executable(plan_json.loads(made["plan"]), code, driver=driver, least_graph=least_graph)


def check(bundle: dict[str, Any], driver: Driver | None = None) -> int:
    """Prints what is wrong; how often something was."""
    jobs = [(case, size) for case in bundle["cases"] for size in case["checked"]]
    with ProcessPoolExecutor() as pool:
        wanted = dict(zip(((c["name"], s) for c, s in jobs), pool.map(reference, *zip(*jobs))))
    wrong = runs = 0
    for case in bundle["cases"]:
        both = [executable(bundle, case["generic"], least, driver) for least in (0, 1)]
        for size in case["checked"]:
            found = wanted[case["name"], size]
            for one in both if found else ():
                runs += 1
                for said in _problems(one, case, found):
                    wrong += 1
                    print(
                        f"WRONG {case['name']} at {size}{' as a graph' if one is both[1] else ''}: {said}", flush=True
                    )
    print(f"{len(bundle['cases'])} functions, {runs} runs, {wrong} wrong outputs", flush=True)
    return wrong


def _problems(one: Executable, case: dict[str, Any], wanted: tuple[Arrays, Arrays]) -> list[str]:
    try:
        found = results(one, case["name"], wanted[0])
    except (TfxlaError, MemoryError) as error:
        return [str(error)]
    return list(filter(None, (difference(a, b, case["ulps"]) for a, b in zip(found, wanted[1], strict=True))))


def times(bundle: dict[str, Any]) -> int:
    """Prints a row for each function and size; how many results of both kernels differ."""
    wrong = 0
    print(f"{'own ms':>9} {'all ms':>9} {'ratio':>6}  function, size")
    for case in bundle["cases"]:
        generic = executable(bundle, case["generic"], 1)
        for size, made in case["static"].items():
            wrong += _row(case, size, executable(bundle, made, 1), generic)
    return wrong


def _row(case: dict[str, Any], size: int, own: Executable, generic: Executable) -> int:
    import torch

    from tfxla_cluster.bench.gpu_ours import Ours
    from tfxla_cluster.bench.handed_arrays import TORCH_DTYPES

    def tensor(draw: Draw) -> Any:
        kind = getattr(torch, TORCH_DTYPES[draw.dtype])
        if draw.below:
            return torch.randint(0, draw.below, draw.shape, device="cuda", dtype=kind)
        return (torch.randn(draw.shape, device="cuda") * draw.scale).to(kind)

    inputs = [tensor(draw) for draw in case["inputs"][size]]
    pair = [Ours(own, inputs), Ours(generic, inputs)]
    for ours in pair * 4:
        ours()
    torch.cuda.synchronize()
    far = [_far(torch, a, b) for a, b in zip(pair[0].outputs, pair[1].outputs)]
    calls = int(min(max(LONGEST_S / _seconds(torch, pair[0], 3), 3), MOST_CALLS))
    turns = [[_seconds(torch, ours, calls) * 1e3 for ours in pair] for _ in range(TURNS)]
    ratio = median(a / b for a, b in turns)
    wrong = max(far) > 0.02
    best = [min(turn[k] for turn in turns) for k in (0, 1)]
    mark = f"  RESULTS DIFFER by {max(far):.2g}" if wrong else "  *" if ratio < 0.97 else ""
    print(f"{best[0]:9.4f} {best[1]:9.4f} {ratio:6.2f}  {case['name']}, {size}{mark}", flush=True)
    return int(wrong)


def _far(torch: Any, one: Any, other: Any) -> float:
    """The largest difference as a part of the largest element; infinite where NaN is elsewhere."""
    if not one.numel():
        return 0.0
    one, other = one.double(), other.double()
    if not torch.equal(one.isnan(), other.isnan()):
        return float("inf")
    one, other = one.nan_to_num(), other.nan_to_num()
    return float((one - other).abs().max() / one.abs().max().clamp(min=1e-30))


def _seconds(torch: Any, call: Any, calls: int) -> float:
    """Of one of so many calls, by events."""
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    for _ in range(calls):
        call()
    stop.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(stop)) / 1e3 / calls


def main() -> int:
    bundle = pickle.loads(lzma.decompress(Path(sys.argv[1]).read_bytes()))
    parts = sys.argv[2:] or ["check", "times"]
    return int(sum({"check": check, "times": times}[part](bundle) for part in parts) > 0)


if __name__ == "__main__":
    sys.exit(main())
