"""The TensorFlow side as one object, made with the compiler that it asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import devices
from .clustering.cluster_program import ClusterPrograms
from .compiler_port import Compiler
from .functions import marks
from .graph_pass import GraphPass
from .must_compile.fast_path import FastPath
from .must_compile.hook import Hook
from .must_compile.jit import Dynamic, Jitted, jit
from .must_compile.nested import NestedCalls
from .native_op import op as native_op


class Frontend:
    """The hooks of must-compile functions (H and F) and the graph pass (G); thread safe. TensorFlow's methods are
    replaced for the whole process, so only one may be enabled at a time."""

    def __init__(self, compiler: Compiler) -> None:
        devices.offer("GPU", lambda: compiler.usable("GPU") and native_op.run_on_gpus())
        self.hook = Hook(compiler, self._forget)
        self.fast_path = FastPath(self.hook)
        self.nested = NestedCalls(compiler)
        self.clusters = ClusterPrograms(compiler)
        self.graph_pass = GraphPass(self.hook, self.nested, self.clusters.make)

    def enable(self) -> None:
        """Route must-compile functions to native code, and cluster what TensorFlow instantiates, from now on;
        functions that were traced or ran earlier are covered."""
        self.install_hooks()
        self.graph_pass.enable()

    def disable(self) -> None:
        """Graphs and traces are TensorFlow's again."""
        self.graph_pass.disable()
        self.remove_hooks()

    def install_hooks(self) -> None:
        """Route must-compile functions that are called directly."""
        self.hook.install()
        self.nested.forget_removed()
        self.fast_path.install()

    def remove_hooks(self) -> None:
        """Put TensorFlow's methods back and free what was compiled for direct calls; calls under way finish.

        What graphs name stays until TensorFlow removes its function: a graph may be on its way to execution.
        """
        self.fast_path.remove()
        self.hook.remove()

    def jit(
        self, fn: Callable[..., Any], input_signature: Sequence[Any] | None = None, dynamic: Dynamic = None
    ) -> Jitted:
        """must_compile.jit.jit with this compiler."""
        return jit(self.fast_path, fn, input_signature, dynamic)

    def _forget(self, names: list[str]) -> None:
        """TensorFlow removed these functions."""
        self.nested.forget(names)
        self.clusters.forget(names)
        marks.forget(names)
