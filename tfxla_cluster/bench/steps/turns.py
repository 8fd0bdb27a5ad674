"""Steps of whole models through TensorFlow: must-compile and clusters by this package, stock jit_compile, plain graph.

Each is a process of its own, with its own variables; they take turns, so that clocks and neighbours are the same for
all. First steps come one after the other: XLA measures candidates on a GPU while it compiles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing

from ...child_process import Child
from ..gpu_suite import CLUSTERS, GRAPH, OURS, STOCK, Result
from ..measure import summary

CONTENDERS = {STOCK: "stock", GRAPH: "graph", OURS: "must", CLUSTERS: "auto"}  # -> mode of a step
DIRECT, JAX = "ours, jit", "jax"
CALLERS = {STOCK: "stock", GRAPH: "graph", OURS: "must", DIRECT: "jit", JAX: "jax"}
STEPS = 3  # in a turn
CALLS = 2000  # in a turn, where a step is a call of a microsecond or so
WARM_STEPS = 2
TOLERANCE = 2e-2  # of the first loss, in bf16
Start = Callable[[str, str, int], Child]


def start(name: str, mode: str, batch: int) -> Child:
    """The process of a step in a mode."""
    return Child(f"{name} ({mode})", f"{__package__}.worker", [name, mode, str(batch)])


def run(
    name: str,
    batch: int,
    rounds: int,
    started: Start = start,
    contenders: Mapping[str, str] = CONTENDERS,
    steps: int = STEPS,
) -> Result:
    """Measures a step of `batch` examples, so many `steps` in a turn; milliseconds a step are `sustained`."""
    result = Result(f"{name}, {batch} examples", "step")
    with ExitStack() as stack:
        children = {c: stack.enter_context(closing(started(name, mode, batch))) for c, mode in contenders.items()}
        for contender, child in children.items():
            _first(contender, child, result)
        samples: dict[str, list[float]] = {contender: [] for contender in children}
        for _ in range(rounds):
            for contender, child in children.items():
                answer = _asked(contender, child, f"turn {steps}", result)
                samples[contender] += [answer["ms"]] if answer else []
        for contender, child in children.items():
            answer = _asked(contender, child, "end", result)
            if answer:
                timing = summary(samples[contender])
                result.sustained = {**result.sustained, contender: timing}
                result.details[contender] |= {**answer, "examples_per_s": batch / timing.median * 1e3}
    return result


def _first(contender: str, child: Child, result: Result) -> None:
    """The first steps, whose loss has to be that of the contenders before."""
    answer = _asked(contender, child, "first", result)
    losses = [details["loss"] for details in result.details.values()]
    if answer:
        result.details[contender] = answer
    if answer and losses and not abs(answer["loss"] - losses[0]) <= TOLERANCE * abs(losses[0]):
        result.failed[contender] = f"its first loss is {answer['loss']:.4g}, that of the others {losses[0]:.4g}"
    _asked(contender, child, f"turn {WARM_STEPS}", result)


def _asked(contender: str, child: Child, question: str, result: Result) -> dict[str, float]:
    """The answer; none, and `result` is told, where the contender fails or has failed."""
    if contender in result.failed:
        return {}
    answer = child.ask(question)
    if "failed" in answer:
        result.failed[contender] = answer["failed"]
        return {}
    return answer
