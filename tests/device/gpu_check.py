"""Runs the programs without and with this package on a machine with an accelerator, and compares.

    python -m tests.device.gpu_check             # a GPU, with TensorFlow's GPU build
    python -m tests.device.gpu_check --stand-in  # a second CPU that counts as a GPU without a backend
    python -m tests.device.gpu_check --stand-in --backend  # and as one with a backend: the graphs of a GPU

For each program: the same values, on the same devices, native code run where there is a backend (else run or not as
the program says, and the reason said). The last lines are a table, before it what was left to TensorFlow and why. Exit
code 1 where a program differs, 3 without an accelerator.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from typing import Any

import numpy as np
import tensorflow as tf

import tfxla_cluster
from tests.close import assert_near
from tests.device.programs import PROGRAMS, Program, mixed, numbers
from tfxla_cluster import api, flags
from tfxla_cluster.decision import YES, no
from tfxla_cluster.tf import devices

AUTO = {"tf_xla_auto_jit": "2", "tf_xla_cpu_global_jit": True}
STAND_IN = "/CPU:1"


def stand_in(backend: bool) -> str:
    """Make CPU:1 a device of another type, as far as this package can tell, and say whether that has a backend."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    parse = devices.place_of

    def place_of(device: str) -> devices.Place:
        place = parse(device)
        return devices.Place(place.task, "GPU", 0) if place[1:] == ("CPU", 1) else place

    devices.place_of, devices.local_types = place_of, lambda: ["CPU", "GPU"]  # type: ignore[assignment]
    devices.offer("GPU", lambda: YES if backend else no("device", ""))
    return STAND_IN


def _device(value: Any) -> str:
    return str(value.device) if tf.is_tensor(value) else ""


def _native() -> int:
    return int(tfxla_cluster.stats()["executions"])


def check(program: Program, accelerator: str, is_stand_in: bool) -> tuple[str, str]:
    """(what went wrong or '', what ran natively)."""
    want = tf.nest.flatten(program.run(accelerator))
    before = _native()
    with tfxla_cluster.enable(**AUTO):
        got = tf.nest.flatten(program.run(accelerator))
    executions = _native() - before
    expected = program.expected(is_stand_in, devices.has_accelerator())
    if (expected == "none") != (executions == 0):
        return f"{executions} native executions, expected {expected}", str(executions)
    if [_device(v) for v in want] != [_device(v) for v in got]:
        return f"devices {[_device(v) for v in got]}, stock {[_device(v) for v in want]}", str(executions)
    for a, b in zip(want, got, strict=True):
        assert_near(np.array(b), np.array(a), 2e-5, program.run.__name__)
    return "", str(executions)


def refusals(accelerator: str) -> str:
    """With --tfxla_must_compile_fallback=raise such functions are errors that name the device; '' when they are."""
    inner = tf.function(mixed, jit_compile=True)
    x = tf.constant(numbers(4, 5))

    @tf.function
    def outer(a: Any) -> Any:
        return inner(a) + 1.0

    with tfxla_cluster.enable(tfxla_must_compile_fallback="raise"), tf.device(accelerator):
        try:
            for function in (inner, outer):
                try:
                    function(x)
                except tf.errors.InvalidArgumentError as error:
                    if "no backend for GPU devices" not in str(error):
                        return f"the error does not say why: {error}"
                else:
                    return "a must-compile function on the accelerator did not raise"
        finally:
            flags.set_values({"tfxla_must_compile_fallback": "xla"})
    return ""


def main(arguments: list[str] | None = None) -> int:
    """The check; its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stand-in", action="store_true", help="a second CPU counts as a GPU")
    parser.add_argument("programs", nargs="*", help="names of programs (default: all)")
    parser.add_argument("--backend", action="store_true", help="that GPU has a backend")
    options = parser.parse_args(arguments)
    if not options.stand_in and not tf.config.list_physical_devices("GPU"):
        print("TensorFlow sees no GPU here", file=sys.stderr)
        return 3
    tf.config.experimental.enable_tensor_float_32_execution(False)
    accelerator = "/GPU:0"
    if options.stand_in:
        api.connect()
        accelerator = stand_in(options.backend)
    rows = []
    for name in options.programs or PROGRAMS:
        try:
            wrong, executions = check(PROGRAMS[name], accelerator, options.stand_in)
        except Exception as error:  # noqa: BLE001 - the others are still to be seen
            traceback.print_exc()
            wrong, executions = f"{type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}", "-"
        rows.append((name, executions, wrong))
    if not options.programs and not devices.has_accelerator():
        rows.append(("refusals", "-", refusals(accelerator)))
        said = any("no backend for GPU devices" in reason for reason in tfxla_cluster.stats()["fallback_reasons"])
        rows.append(("reasons", "-", "" if said else "no fallback names the device"))
    for reason, times in tfxla_cluster.stats()["fallback_reasons"].items():
        print(f"{times} x left to TensorFlow: {reason[:200]}")
    print(f"{'program':36} {'native':>6}  result")
    for name, executions, wrong in rows:
        print(f"{name:36} {executions:>6}  {wrong or 'ok'}")
    return 1 if any(wrong for *_, wrong in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
