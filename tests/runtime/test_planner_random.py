"""Random programs of loops, branches, in-place updates and views: the plan against the evaluator.

What can go wrong in buffer assignment shows only in odd combinations, so many small ones are tried.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.close import assert_near
from tfxla_cluster.backends import cpu
from tfxla_cluster.codegen.kernel.ir import Kernel
from tfxla_cluster.codegen.llvm.loader import Library
from tfxla_cluster.codegen.llvm.object_code import KernelCode, compile_kernels, object_files
from tfxla_cluster.fusion.planner import fuse
from tfxla_cluster.ir import evaluator, text
from tfxla_cluster.ir.builder import Builder
from tfxla_cluster.ir.dtype import F32, PRED, S32
from tfxla_cluster.ir.node import Computation, Instr, Module
from tfxla_cluster.ir.shape import array, tuple_of
from tfxla_cluster.runtime.cpu import host
from tfxla_cluster.runtime.cpu.executable import Executable

from .compile_text import plan_of

LENGTH = 6
ROW, STATE = array(F32, (LENGTH,)), 3  # every value is a row; loops and branches take STATE of them


class Program:
    """Grows one computation of rows; `depth` bounds nesting."""

    def __init__(self, rng: random.Random, names: list[int]) -> None:
        self.rng, self.names = rng, names

    def name(self, what: str) -> str:
        self.names[0] += 1
        return f"{what}{self.names[0]}"

    def grow(self, b: Builder, rows: list[Instr], counter: Instr, depth: int, steps: int) -> list[Instr]:
        """`steps` more rows, made of `rows`."""
        for _ in range(steps):
            rows = [*rows, self.rng.choice(self.CHOICES)(self, b, rows, counter, depth)]
        return rows

    def binary(self, b: Builder, rows: list[Instr], counter: Instr, depth: int) -> Instr:
        x, y = self.rng.choice(rows), self.rng.choice(rows)
        return b.tanh(b.add(x, y)) if self.rng.random() < 0.5 else b.subtract(x, y)

    def unary(self, b: Builder, rows: list[Instr], counter: Instr, depth: int) -> Instr:
        return b.negate(self.rng.choice(rows))

    def view(self, b: Builder, rows: list[Instr], counter: Instr, depth: int) -> Instr:
        return b.reshape(b.reshape(self.rng.choice(rows), (2, LENGTH // 2)), (LENGTH,))

    def update(self, b: Builder, rows: list[Instr], counter: Instr, depth: int) -> Instr:
        """One element, at the loop counter, taken from another row's slice."""
        start = b.dynamic_slice(self.rng.choice(rows), [counter], (2,))
        return b.dynamic_update_slice(self.rng.choice(rows), start, [b.add(counter, counter)])

    def reverse(self, b: Builder, rows: list[Instr], counter: Instr, depth: int) -> Instr:
        return b.reverse(self.rng.choice(rows), [0])

    def loop(self, b: Builder, rows: list[Instr], counter: Instr, depth: int) -> Instr:
        if depth == 0:
            return self.binary(b, rows, counter, depth)
        shape = tuple_of(array(S32), *(ROW,) * STATE)
        test, body = Builder(self.name("test")), Builder(self.name("body"))
        p = test.parameter(shape)
        limit = test.constant(np.int32(self.rng.randrange(4)))
        condition = test.build(test.compare(test.get_tuple_element(p, 0), limit, "LT"))
        p = body.parameter(shape)
        i, state = body.get_tuple_element(p, 0), [body.get_tuple_element(p, n + 1) for n in range(STATE)]
        grown = self.grow(body, list(state), i, depth - 1, self.rng.randint(1, 5))
        new = [self.rng.choice(grown) if self.rng.random() < 0.7 else row for row in state]
        step = body.build(body.tuple(body.add(i, body.constant(np.int32(1))), *new))
        start = b.tuple(b.constant(np.int32(0)), *self.rng.choices(rows, k=STATE))
        result = b.add_op("while", start, condition=condition, body=step)
        chosen = [b.get_tuple_element(result, n + 1) for n in range(STATE)]
        return b.add(self.rng.choice(chosen), self.rng.choice(chosen))

    def branch(self, b: Builder, rows: list[Instr], counter: Instr, depth: int) -> Instr:
        if depth == 0:
            return self.unary(b, rows, counter, depth)
        shape, results = tuple_of(*(ROW,) * STATE), tuple_of(ROW, ROW)
        branches: list[Computation] = []
        for _ in range(2):
            inner = Builder(self.name("branch"))
            p = inner.parameter(shape)
            state = [inner.get_tuple_element(p, n) for n in range(STATE)]
            zero = inner.constant(np.int32(1))
            grown = self.grow(inner, state, zero, depth - 1, self.rng.randint(0, 3))
            branches.append(inner.build(inner.tuple(self.rng.choice(grown), self.rng.choice(grown))))
        given = b.tuple(*self.rng.choices(rows, k=STATE))
        taken = b.compare(counter, b.constant(np.int32(self.rng.randrange(3))), "LT")
        assert taken.shape.dtype is PRED
        result = b.add_op(
            "conditional",
            taken,
            given,
            given,
            shape=results,
            true_computation=branches[0],
            false_computation=branches[1],
        )
        return b.get_tuple_element(result, self.rng.randrange(2))

    CHOICES = (binary, unary, view, update, reverse, loop, loop, branch)


def program(seed: int) -> Module:
    rng = random.Random(seed)
    b, grower = Builder("main"), Program(rng, [0])
    rows = [b.parameter(ROW) for _ in range(3)]
    counter = b.constant(np.int32(1))
    grown = grower.grow(b, rows, counter, 2, rng.randint(3, 8))
    return b.module(*rng.choices(grown, k=3), grown[-1])


_codes: dict[str, KernelCode] = {}  # by symbol, the same for all programs


def compiled(module: Module) -> Executable:
    planned, kernels = plan_of(module)
    missing: list[tuple[Kernel, str]] = [(k, s) for s, k in kernels.items() if s not in _codes]
    _codes.update({c.symbol: c for c in compile_kernels(missing, host.target())})
    return Executable(planned.plan, Library(object_files(_codes[s] for s in kernels), host.target()))


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("first", [0, 10, 190, 1260, 1480, 2830, 3080])
def test_random_programs(first: int, fused: bool) -> None:
    for seed in range(first, first + 10):
        module = program(seed)
        given = [np.random.default_rng(n).normal(size=LENGTH).astype(np.float32) for n in range(3)]
        run = compiled(fuse(module, cpu.this_machine().machine, lambda record: None) if fused else module)
        for _ in range(2):
            for mine, want in zip(run.run(given), evaluator.evaluate(module, given), strict=True):
                assert_near(mine, want, 1e-5, f"seed {seed}\n{text.render(module)}")
