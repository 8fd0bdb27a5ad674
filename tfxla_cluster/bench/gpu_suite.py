"""Measures the modules of a bundle against their peers on the GPU of this machine, in one process, taking turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..decision import Decision
from ..ir.dim import sample
from ..ir.node import Module
from . import gpu_peers, gpu_timing
from .gpu_bundle import Case
from .gpu_convolutions import convolution_rows
from .gpu_ours import Ours
from .gpu_products import attention_rows, product_rows
from .gpu_rows import Draw, GpuRow, memory_rows
from .measure import Timing

OURS, CLUSTERS = "ours", "ours, clusters"
XLA, STOCK, GRAPH = "XLA", "stock jit", "graph"
COPY, PRODUCT = "copy", "product"
_PRODUCT_SIZE = 8192
Call = Callable[[], Any]
Timings = Mapping[str, Timing]


def all_rows() -> list[GpuRow]:
    return [*memory_rows(), *product_rows(), *attention_rows(), *convolution_rows()]


@dataclass
class Result:
    """What a case gave. `burst`, `sustained` (products, steps): by contender. `failed`: contender -> why not.
    `errors`: contender -> largest difference from the first contender's result, as a part of the largest element.
    `details`: contender -> what else was measured of a step."""

    case: str
    family: str
    moved: int = 0
    flops: float = 0.0
    burst: Timings = field(default_factory=dict)
    sustained: Timings = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    details: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def timings(self) -> Timings:
        """Of the state that is compared: bursts where there are any."""
        return self.burst or self.sustained

    @property
    def floor_ms(self) -> float:
        """The longer of a copy of the bytes and the operations at the best product rate."""
        product = self.burst[PRODUCT].median * self.flops / (2.0 * _PRODUCT_SIZE**3) if PRODUCT in self.burst else 0.0
        return max(self.burst[COPY].median, product)

    def ratios(self, timings: Timings) -> dict[str, float]:
        """Peer -> its time over ours."""
        peers = [name for name in timings if name not in (OURS, CLUSTERS, COPY, PRODUCT)]
        return {name: timings[name].median / timings[OURS].median for name in peers} if OURS in timings else {}

    def data(self) -> dict[str, Any]:
        """For JSON."""
        found: dict[str, Any] = {
            "case": self.case,
            "family": self.family,
            "bytes": self.moved,
            "flops": self.flops,
            "failed": self.failed,
            "errors": self.errors,
            "details": self.details,
        }
        for state, timings in (("burst", self.burst), ("sustained", self.sustained)):
            ratios = self.ratios(timings)
            found[state] = {
                "ms": {name: t.median for name, t in timings.items()},
                "spread": {name: [t.low, t.high] for name, t in timings.items()},
                "samples": min((t.rounds for t in timings.values()), default=0),
                "vs_xla": ratios.get(XLA),
                "vs_stock_jit": ratios.get(STOCK),
                "vs_best_peer": min(ratios.values(), default=None),
            }
        if self.burst:
            found["floor_ms"] = self.floor_ms
        return found


def draws_of(module: Module) -> tuple[Draw, ...]:
    """Inputs for a module that is no row: floats normal, integers 0 to 9, preds 0 or 1."""
    found = []
    for param in module.entry.params:
        dtype = param.shape.element_type
        below = 2 if dtype.kind == "pred" else 10 if dtype.is_integer else 0
        found.append(Draw(tuple(sample(d) for d in param.shape.dims), str(dtype), below))
    return tuple(found)


def run(case: Case, row: GpuRow | None, executable: Any | Decision, rounds: int) -> Result:
    """Measures a case. `executable`: ours, or the Decision against it. `row`: None for a module of the user's, whose
    one peer is XLA."""
    result = Result(row.case if row else case.name, row.family if row else "module", flops=row.flops if row else 0.0)
    tensors = gpu_peers.drawn(row.inputs if row else draws_of(case.module))
    calls: dict[str, Call] = {}
    makers = [] if row is None else list(gpu_peers.makers(row, tensors).items())
    makers.append((XLA, lambda: gpu_peers.xla(case.module, tensors)))
    if isinstance(executable, Decision):
        result.failed[OURS] = executable.reason
    else:
        makers.append((OURS, lambda: Ours(executable, tensors)))
    expected = None
    for name, make in makers:
        found = checked(
            name, make, expected, row.tolerance if row else 1e-2, result, "PyTorch" if row else "the others"
        )
        if found is not None:
            calls[name], expected = found[0], expected if expected is not None else found[1]
    result.moved = _bytes(tensors) + _bytes(expected or ())
    calls[COPY] = gpu_peers.copier(result.moved)
    if result.flops:
        calls[PRODUCT] = product(tensors)
    result.burst = gpu_timing.burst([gpu_timing.TorchSide(calls)], rounds)
    if result.flops:
        del calls[COPY], calls[PRODUCT]
        result.sustained = gpu_timing.sustained([gpu_timing.TorchSide(calls)], rounds)
    return result


def checked(
    name: str,
    make: Callable[[], Call],
    expected: Sequence[Any] | None,
    tolerance: float,
    result: Result,
    reference: str,
) -> tuple[Call, list[Any]] | None:
    """The contender and its result, None where it fails or is wrong: a fast wrong kernel is no result. `expected`: None
    for the first that runs, whose result is expected of the others; `reference`: whose it is."""
    try:
        call = make()
        found = gpu_peers.tensors_of(call())
        if expected is not None:
            result.errors[name] = gpu_peers.error(found, expected)
    except Exception as error:  # noqa: BLE001 - libraries raise what they like; it is told and fails the run
        result.failed[name] = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"
        return None
    if result.errors.get(name, 0.0) > tolerance:
        result.failed[name] = f"differs from {reference} by {result.errors[name]:.1e}"
        return None
    return call, found


def product(tensors: Sequence[Any]) -> Call:
    """The product whose rate is the floor of rows with operations, of the first tensor's dtype."""
    return gpu_peers.product(_PRODUCT_SIZE, tensors[0].dtype)


def _bytes(tensors: Sequence[Any]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
