"""Modules for replay's tests."""

from __future__ import annotations

from tfxla_cluster.ir import text
from tfxla_cluster.ir.node import Module

SMALL = """HloModule small
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
ENTRY e { x = f32[6,10] parameter(0)
  y = f32[6,10] parameter(1)
  d = f32[6,10] subtract(x, y)
  t = f32[6,10] tanh(d)
  c = f32[] constant(0)
  r = f32[6] reduce(t, c), dimensions={1}, to_apply=add
  ROOT o = (f32[6], f32[6,10]) tuple(r, t) }
"""
# What a chain of steps looks like; `{step}` is one, with `{n}` its number and `{p}` the one before.
STEPS = ("exponential(a{p})", "add(a{p}, y)", "multiply(a{p}, y)", "negate(a{p})", "cosine(a{p})", "maximum(a{p}, x)")


def chain(length: int, fault: str, at: int, dims: str = "12,18") -> Module:
    """A module of `length` elementwise steps in rows whose sums are results too, with `fault` (of a{p}, x, y) as step
    `at`."""
    lines = [f"x = f32[{dims}] parameter(0)", f"y = f32[{dims}] parameter(1)", f"a0 = f32[{dims}] tanh(x)"]
    for number in range(1, length):
        step = fault if number == at else STEPS[number % len(STEPS)]
        lines.append(f"a{number} = f32[{dims}] {step.format(p=number - 1)}")
        if number % 4 == 0:  # values stay small
            lines[-1] = f"a{number} = f32[{dims}] tanh(a{number - 1})" if number != at else lines[-1]
    rows = dims.split(",")[0]
    lines += [
        "zero = f32[] constant(0)",
        f"sum = f32[{rows}] reduce(a{length - 1}, zero), dimensions={{1}}, to_apply=plus",
        f"turned = f32[{','.join(reversed(dims.split(',')))}] transpose(a{length - 1}), dimensions={{1,0}}",
        f"ROOT out = (f32[{rows}], f32[{','.join(reversed(dims.split(',')))}]) tuple(sum, turned)",
    ]
    return text.parse(
        "HloModule chain\nplus { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b) }\n"
        "ENTRY e {\n" + "\n".join(lines) + "\n}\n"
    )
