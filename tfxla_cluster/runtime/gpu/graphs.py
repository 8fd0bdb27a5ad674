"""The CUDA graphs of an executable: whether its plan can be one, and the words that machine code keeps them in."""

from __future__ import annotations

import weakref
from collections.abc import Sequence

import numpy as np

from ...decision import YES, Decision, no
from ..plan import CopyStep, KernelStep, LaunchPlan, LibraryStep, LoopStep, Step, walk
from .driver import Device
from .libraries import on_device
from .record_layout import GRAPH_SLOT, GRAPH_SLOTS, GRAPHS

MOST_NODES = 5000  # of a graph, loops unrolled: capturing more takes milliseconds and memory


def can_capture(plan: LaunchPlan, least: int) -> Decision:
    """Whether executions of the plan are CUDA graphs, where one of `least` kernels and copies or more is (0: none)."""
    nodes = _nodes(plan.steps)
    if nodes is None:
        return no("graph-host", "the host reads or writes numbers between its kernels")
    if not least or nodes < least:
        return no("graph-size", f"it has {nodes} kernels and copies, graphs have at least {least or 'any number of'}")
    if nodes > MOST_NODES:
        return no("graph-size", f"it has {nodes} kernels and copies, graphs have at most {MOST_NODES}")
    return YES


def _nodes(steps: Sequence[Step]) -> int | None:
    """Kernels and copies with loops unrolled; None where the host takes part."""
    total = 0
    for step in steps:
        if isinstance(step, LoopStep) and step.trips >= 0:
            inside = _nodes(step.body)
            if inside is None:
                return None
            total += inside * step.trips
        elif isinstance(step, (KernelStep, CopyStep)) or _is_call(step):
            total += 1
        else:
            return None
    return total


def _is_call(step: Step) -> bool:
    """Of a library whose kernels are captured as ours are."""
    return isinstance(step, LibraryStep) and step.routine in on_device.ROUTINES


class Graphs:
    """The words of GRAPHS for the plan's executable on the device."""

    def __init__(self, plan: LaunchPlan, device: Device) -> None:
        key_words = 1 + len(plan.sizes) + len(plan.inputs) + len(plan.outputs)
        self._stride = len(GRAPH_SLOT) + key_words
        self.words = np.zeros(len(GRAPHS) + GRAPH_SLOTS * self._stride, np.int64)
        self.words[GRAPHS["key_words"]] = key_words
        self.words[GRAPHS["exact"]] = int(not any(_has_scratch(step) for step in walk(plan.steps)))
        weakref.finalize(self, _destroy, device, self.words, self._stride).atexit = False

    def counts(self) -> dict[str, int]:
        """How often executions were a graph that was there (replayed), one that took other addresses (updated), a new
        one (made), and why one was none (busy, failed)."""
        return {name: int(self.words[GRAPHS[name]]) for name in ("replayed", "updated", "made", "busy", "failed")}


def _has_scratch(step: Step) -> bool:
    """Its memory is asked for during the capture: without one nobody owns it."""
    return isinstance(step, KernelStep) and bool(dict(step.params).get("global_scratch_bytes", 0))


def _destroy(device: Device, words: np.ndarray, stride: int) -> None:
    for handle in words[len(GRAPHS) + GRAPH_SLOT["executable"] :: stride].tolist():
        if handle:
            device.release("cuGraphExecDestroy", handle)
