"""`tfxla-inspect bisect`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from .. import module_choice
from . import running
from .command import Command, step

if TYPE_CHECKING:
    from tfxla_cluster.replay.faults import Wanted


def _run(arguments: argparse.Namespace) -> int:
    from tfxla_cluster.replay import faults  # compiles, which reports do without

    path, which = module_choice.divided(arguments.module)
    if not module_choice.is_dump(path):
        return faults.bisect(wanted(arguments, arguments.module, "cpu"), print, step)
    chosen = module_choice.chosen(path, which)
    first = module_choice.first(chosen.module, module_choice.BEFORE)
    if chosen.is_ours:
        with module_choice.written([first]) as (name,):
            return faults.bisect(wanted(arguments, name, "cpu"), print, step)
    after = [f for f in chosen.module.files if f.kind in ("after_proto", "after")][:1]
    files = [first, *module_choice.passes(chosen.module), *after]
    with module_choice.written(files) as names:
        forms = [faults.Form(file.name.rpartition("/")[2], name) for file, name in zip(files, names)]
        return faults.bisect_forms(wanted(arguments, names[0], "xla"), forms, print, step)


def wanted(arguments: argparse.Namespace, module: str, backend: str) -> Wanted:
    """What the command line asks for, of the file `module`."""
    from tfxla_cluster.replay import faults

    return faults.Wanted(
        module,
        arguments.backend or backend,
        arguments.reference,
        arguments.inputs,
        arguments.seed,
        arguments.rtol,
        arguments.timeout,
        arguments.flags,
    )


COMMAND = Command(
    "bisect",
    "find the pass or kernel that breaks a module",
    """Finds the first pass, else the kernel, after which a module's numbers differ from the reference's, or at
which the process that runs it dies. Passes and fusion are judged by the evaluator, kernels each by itself on
the values that it has inside. Of a dump of XLA with HLO between passes (--xla_dump_hlo_pass_re=.*): the first
pass of XLA that changes what the module means. Flags of TFXLA_FLAGS may follow.""",
    """0 nothing fails; 1 something does; 2 wrong command line; 3 a file is missing or damaged; 4 the module is
invalid; 5 something is not supported; 7 jax is missing (xla).""",
    running.configure_search,
    _run,
    takes_flags=True,
)
