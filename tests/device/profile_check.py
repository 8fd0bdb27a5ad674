"""Whether TensorFlow's profiler names every kernel of this package, also with CUDA graphs on.

    python -m tests.device.profile_check

Exit code 1 where a kernel of a program's dump is in no profile of it, or a program has none.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf

import tfxla_cluster
from tests.device import kernel_times
from tests.device.graph_calls import Program, means, training
from tests.device.kernel_times import Profile

CALLS = 6  # of them the last ones are launched as graphs, where there are any
PROGRAMS = {"means": means, "training": training}


def profiled(program: Program, least_graph: int, folder: Path) -> tuple[Profile, Mapping[str, object]]:
    """The profile of calls of a program that is compiled with such graphs; what it should have, by kernel."""
    call = tf.function(program.body, jit_compile=True, autograph=False)

    def step() -> None:
        np.asarray(tf.nest.flatten(call(*program.args))[0])

    with tfxla_cluster.config.patch(xla_dump_to=str(folder), xla_gpu_graph_min_graph_size=least_graph):
        for _ in range(CALLS):
            step()
    return kernel_times.of_steps(step, CALLS), kernel_times.known_kernels(folder)


def missing(profile: Profile, known: Mapping[str, object]) -> list[str]:
    """Kernels that no span has the name of."""
    return sorted(set(known) - {kernel.name for kernel in profile.kernels})


def main() -> int:
    if not tf.config.list_physical_devices("GPU"):
        print("there is no GPU")
        return 3
    wrong = 0
    with tfxla_cluster.enable(tf_xla_auto_jit="0"):
        for name, make in PROGRAMS.items():
            for least in (0, 2):
                with tempfile.TemporaryDirectory() as folder:
                    profile, known = profiled(make(), least, Path(folder))
                lost = missing(profile, known)
                said = f"{len(known) - len(lost)} of {len(known)} kernels by name, {len(profile.kernels)} names seen"
                print(f"{name}, {'graphs' if least else 'no graphs'}: {said}; missing {lost}", flush=True)
                print(*(f"  {k.name} x {k.runs:g}" for k in profile.kernels[:12]), sep="\n", flush=True)
                wrong += bool(lost) or not known
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
