"""The pass runner: runs, verifies, times and shows each pass, and catches one that lies."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .. import gc_pause, trace
from ..errors import InternalError, VerifierError
from ..ir import text
from ..ir.node import Module
from ..ir.verifier import Verifier
from .base import Pass

# (module, pipeline, the pass it comes after, the pass it comes before)
Observer = Callable[[Module, str, str, str], None]


def run(
    module: Module, name: str, passes: Sequence[Pass], observer: Observer | None = None, *, strict: bool = False
) -> Module:
    """The module after `passes` in order; verified after each change.

    `observer` sees the module at the start and after each pass that changed it. `strict` (tests) also
    compares texts, so that a pass that returns a new but equal module, or mutates, is caught.
    InternalError names the pass whose output is invalid.
    """
    with gc_pause.paused():
        return _run(module, name, passes, observer, strict)


def _run(module: Module, name: str, passes: Sequence[Pass], observer: Observer | None, strict: bool) -> Module:
    words = ["pipeline-start", *(p.name for p in passes), "pipeline-end"]
    verifier = Verifier()
    if observer is not None:
        observer(module, name, words[0], words[1])
    for index, step in enumerate(passes, start=1):
        before = text.render(module) if strict else ""
        with trace.phase(step.name):
            new = step.run(module)
        if strict:
            _check_word(step, module, new, before)
        if new is module:
            continue
        module = new
        try:
            verifier.verify(module)
        except VerifierError as error:
            raise InternalError(
                f"pass {step.name} of {name} made an invalid module: {error}", "Report it with the dump directory"
            ) from error
        if observer is not None:
            observer(module, name, words[index], words[index + 1])
    return module


def _check_word(step: Pass, old: Module, new: Module, before: str) -> None:
    """InternalError where the pass says unchanged and is not, or changed and is not."""
    if text.render(old) != before:
        raise InternalError(f"pass {step.name} changed its input in place")
    if (new is not old) != (text.render(new) != before):
        raise InternalError(f"pass {step.name} says {'changed' if new is not old else 'unchanged'}, which is not so")
