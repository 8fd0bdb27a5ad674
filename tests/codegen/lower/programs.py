"""Random fused computations as HLO text, for differential tests.

`loop_program(rng)` draws elementwise and move instructions, `row_program(rng)` reductions with
elementwise work before, between and after. Both give (module text, inputs); the entry computation is one
fusion of all parameters.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable

import numpy as np

Shape = tuple[int, ...]
NUMPY = {"f32": np.float32, "s32": np.int32, "pred": np.bool_, "f64": np.float64, "u8": np.uint8}
COMBINERS = """
add_f32 { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
max_f32 { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b) }
min_f32 { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] minimum(a, b) }
argmax { a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  g = pred[] compare(a, b), direction=GT
  e = pred[] compare(a, b), direction=EQ
  l = pred[] compare(i, j), direction=LT
  t = pred[] and(e, l)
  k = pred[] or(g, t)
  v = f32[] select(k, a, b)
  w = s32[] select(k, i, j)
  ROOT r = (f32[], s32[]) tuple(v, w) }
"""


class Draft:
    """Lines of a computation, and the (name, dtype, shape) of its values."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.lines: list[str] = []
        self.values: list[tuple[str, str, Shape]] = []
        self.inputs: list[np.ndarray] = []

    def add(self, dtype: str, shape: Shape, text: str) -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {form(dtype, shape)} {text}")
        self.values.append((name, dtype, shape))
        return name

    def parameter(self, dtype: str, shape: Shape) -> str:
        seed = np.random.RandomState(self.rng.randrange(1 << 16))
        array = seed.randint(-6, 7, shape).astype(NUMPY[dtype])
        self.inputs.append(array)
        return self.add(dtype, shape, f"parameter({len(self.inputs) - 1})")

    def pick(self, dtype: str | None = None, shape: Shape | None = None) -> tuple[str, str, Shape]:
        found = [v for v in self.values if dtype in (None, v[1]) and shape in (None, v[2])]
        return self.rng.choice(found[-6:] if self.rng.random() < 0.7 else found)

    def module(self, roots: list[str]) -> str:
        """The module text with a fusion of everything; `roots` are its outputs."""
        types = {name: form(dtype, shape) for name, dtype, shape in self.values}
        result = types[roots[0]]
        lines = list(self.lines)
        if len(roots) > 1:
            result = "(" + ", ".join(types[r] for r in roots) + ")"
            lines.append(f"ROOT out = {result} tuple({', '.join(roots)})")
        else:
            lines = ["ROOT " + x if x.startswith(roots[0] + " =") else x for x in lines]
        params = [x for x in self.lines if " parameter(" in x]
        names = ", ".join(x.split(" =")[0] for x in params)
        body, entry = "\n  ".join(lines), "\n  ".join(params)
        return (
            f"HloModule m\n{COMBINERS}\nfused {{\n  {body}\n}}\nENTRY main {{\n  {entry}\n"
            f"  ROOT r = {result} fusion({names}), kind=kLoop, calls=fused\n}}\n"
        )


def as_call(module: str) -> str:
    """The module with its fusion as a call: XLA's CPU backend takes no other fusion than its own."""
    return re.sub(r"fusion\((.*?)\), kind=\w+, calls=", r"call(\1), to_apply=", module)


def form(dtype: str, shape: Shape) -> str:
    return f"{dtype}[{','.join(map(str, shape))}]"


def braces(numbers: Iterable[object]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"


def _elementwise(d: Draft) -> None:
    name, dtype, shape = d.pick()
    other = d.pick(dtype, shape)[0]
    if dtype == "pred":
        d.add("pred", shape, f"{d.rng.choice(['and', 'or', 'xor'])}({name}, {other})")
        return
    kind = d.rng.randrange(5)
    if kind == 0:
        d.add("pred", shape, f"compare({name}, {other}), direction={d.rng.choice(['LT', 'GE', 'EQ'])}")
    elif kind == 1 and any(v[1] == "pred" and v[2] == shape for v in d.values):
        d.add(dtype, shape, f"select({d.pick('pred', shape)[0]}, {name}, {other})")
    elif kind == 2:
        d.add("s32" if dtype == "f32" else "f32", shape, f"convert({name})")
    else:
        d.add(dtype, shape, f"{d.rng.choice(['add', 'subtract', 'maximum', 'minimum'])}({name}, {other})")


def _broadcast(d: Draft) -> None:
    name, dtype, shape = d.pick()
    if len(shape) > 3:
        return
    at = d.rng.randrange(len(shape) + 1)
    new = (*shape[:at], d.rng.choice([1, 2, 3, 9]), *shape[at:])
    d.add(dtype, new, f"broadcast({name}), dimensions={braces(a for a in range(len(new)) if a != at)}")


def _reshape(d: Draft) -> None:
    name, dtype, shape = d.pick()
    rest, new = int(np.prod(shape)), []
    while rest > 1 and len(new) < 3:
        new.append(d.rng.choice([f for f in range(1, rest + 1) if rest % f == 0]))
        rest //= new[-1]
    new.append(rest)
    d.rng.shuffle(new)
    d.add(dtype, tuple(new), f"reshape({name})")


def _transpose(d: Draft) -> None:
    name, dtype, shape = d.pick()
    order = list(range(len(shape)))
    d.rng.shuffle(order)
    d.add(dtype, tuple(shape[a] for a in order), f"transpose({name}), dimensions={braces(order)}")


def _reverse(d: Draft) -> None:
    name, dtype, shape = d.pick()
    axes = [a for a in range(len(shape)) if d.rng.random() < 0.5]
    d.add(dtype, shape, f"reverse({name}), dimensions={braces(axes)}")


def _slice(d: Draft) -> None:
    name, dtype, shape = d.pick()
    parts, new = [], []
    for dim in shape:
        start = d.rng.randrange(dim)
        limit, stride = d.rng.randint(start + 1, dim), d.rng.choice([1, 1, 2, 3])
        parts.append(f"[{start}:{limit}:{stride}]")
        new.append(-(-(limit - start) // stride))
    d.add(dtype, tuple(new), f"slice({name}), slice={braces(parts)}")


def _pad(d: Draft) -> None:
    name, dtype, shape = d.pick()
    if not shape:
        return
    value = d.add(dtype, (), f"constant({ {'pred': 'true'}.get(dtype, '3') })")
    parts, new = [], []
    for dim in shape:
        low, high, interior = d.rng.choice([-1, 0, 1, 2]), d.rng.choice([-1, 0, 2]), d.rng.choice([0, 0, 1])
        size = low + dim + (dim - 1) * interior + high
        if size < 1:
            low, high, interior, size = 0, 0, 0, dim
        parts.append(f"{low}_{high}_{interior}")
        new.append(size)
    d.add(dtype, tuple(new), f"pad({name}, {value}), padding={'x'.join(parts)}")


def _concatenate(d: Draft) -> None:
    _, dtype, shape = d.pick()
    if not shape:
        return
    axis = d.rng.randrange(len(shape))
    fits = [
        v
        for v in d.values
        if v[1] == dtype
        and len(v[2]) == len(shape)
        and all(a == b for n, (a, b) in enumerate(zip(v[2], shape)) if n != axis)
    ]
    parts = [d.rng.choice(fits) for _ in range(d.rng.randint(1, 3))]
    total = sum(p[2][axis] for p in parts)
    new = (*shape[:axis], total, *shape[axis + 1 :])
    d.add(dtype, new, f"concatenate({', '.join(p[0] for p in parts)}), dimensions={{{axis}}}")


def _iota(d: Draft) -> None:
    shape = d.pick()[2]
    if shape:
        d.add(d.rng.choice(["s32", "f32"]), shape, f"iota(), iota_dimension={d.rng.randrange(len(shape))}")


def _start(d: Draft) -> str:
    return d.add("s32", (), f"constant({d.rng.randint(-2, 6)})")


def _dynamic_slice(d: Draft) -> None:
    name, dtype, shape = d.pick()
    if not shape:
        return
    sizes = tuple(d.rng.randint(1, dim) for dim in shape)
    starts = ", ".join(_start(d) for _ in shape)
    d.add(dtype, sizes, f"dynamic-slice({name}, {starts}), dynamic_slice_sizes={braces(sizes)}")


def _dynamic_update(d: Draft) -> None:
    name, dtype, shape = d.pick()
    fits = [
        v for v in d.values if v[1] == dtype and len(v[2]) == len(shape) and all(a <= b for a, b in zip(v[2], shape))
    ]
    if shape:
        starts = ", ".join(_start(d) for _ in shape)
        d.add(dtype, shape, f"dynamic-update-slice({name}, {d.rng.choice(fits)[0]}, {starts})")


def _gather(d: Draft) -> None:
    """Rows along one axis by a vector of ids, which may be out of range."""
    name, dtype, shape = d.pick()
    ids = [v for v in d.values if v[1] == "s32" and len(v[2]) == 1]
    if not shape or not ids:
        return
    axis, (index, _, (count,)) = d.rng.randrange(len(shape)), d.rng.choice(ids)
    sizes = tuple(1 if a == axis else dim for a, dim in enumerate(shape))
    new = (count, *(dim for a, dim in enumerate(shape) if a != axis))
    d.add(
        dtype,
        new,
        f"gather({name}, {index}), offset_dims={braces(range(1, len(shape)))}, "
        f"collapsed_slice_dims={{{axis}}}, start_index_map={{{axis}}}, index_vector_dim=1, "
        f"slice_sizes={braces(sizes)}",
    )


LOOP_STEPS = (
    _elementwise,
    _elementwise,
    _elementwise,
    _broadcast,
    _reshape,
    _reshape,
    _transpose,
    _reverse,
    _slice,
    _pad,
    _concatenate,
    _iota,
    _dynamic_slice,
    _dynamic_update,
    _gather,
)


def loop_program(rng: random.Random) -> tuple[str, list[np.ndarray]]:
    d = Draft(rng)
    for _ in range(rng.randint(1, 3)):
        shape = tuple(rng.choice([1, 2, 3, 5, 8, 17, 40]) for _ in range(rng.randint(0, 3)))
        d.parameter(rng.choice(["f32", "f32", "s32"]), shape)
    d.parameter("s32", (rng.choice([1, 4, 11]),))
    first = len(d.values)
    while len(d.values) < first + rng.randint(1, 8):
        rng.choice(LOOP_STEPS)(d)
        if len(d.values) > first and np.prod(d.values[-1][2]) > 20_000:
            d.lines.pop()
            d.values.pop()
    last = d.values[-1]
    roots = [last[0]]
    more = [v[0] for v in d.values[first:-1] if v[2] == last[2] and v[1] == last[1]]
    if more and rng.random() < 0.4:
        roots.append(more[-1])
    return d.module(roots), d.inputs


def row_program(rng: random.Random) -> tuple[str, list[np.ndarray]]:
    """Reductions over the same dims of arrays of one shape, a level at a time."""
    d = Draft(rng)
    rank = rng.randint(1, 4)
    shape = tuple(rng.choice([1, 2, 3, 7, 16, 33, 70]) for _ in range(rank))
    while np.prod(shape) > 60_000:
        shape = shape[1:]
    axes = [a for a in range(len(shape)) if rng.random() < 0.5] or [len(shape) - 1]
    kept = [a for a in range(len(shape)) if a not in axes]
    row = tuple(shape[a] for a in kept)
    for _ in range(rng.randint(1, 2)):
        d.parameter("f32", shape)
    if rng.random() < 0.5:
        d.parameter("f32", row)
    zero, low = d.add("f32", (), "constant(0)"), d.add("f32", (), "constant(-inf)")
    none = d.add("s32", (), "constant(0)")
    rows: list[str] = []
    for _ in range(rng.randint(1, 3)):
        for _ in range(rng.randint(0, 2)):
            d.add(
                "f32", shape, f"{rng.choice(['add', 'maximum'])}({d.pick('f32', shape)[0]}, {d.pick('f32', shape)[0]})"
            )
        source = d.pick("f32", shape)[0]
        kind = rng.randrange(4)
        if kind == 0:
            number = d.add("s32", shape, f"iota(), iota_dimension={axes[-1]}")
            both = f"({form('f32', row)}, {form('s32', row)})"
            d.lines.append(
                f"p{len(d.lines)} = {both} reduce({source}, {number}, {low}, {none}), "
                f"dimensions={braces(axes)}, to_apply=argmax"
            )
            pair = d.lines[-1].split(" =")[0]
            rows.append(d.add("f32", row, f"get-tuple-element({pair}), index=0"))
            rows.append(d.add("s32", row, f"get-tuple-element({pair}), index=1"))
            result = rows[-2]
        else:
            name, init = rng.choice([("add_f32", zero), ("max_f32", low)])
            result = d.add("f32", row, f"reduce({source}, {init}), dimensions={braces(axes)}, to_apply={name}")
            rows.append(result)
        back = d.add("f32", shape, f"broadcast({result}), dimensions={braces(kept)}")
        d.add("f32", shape, f"subtract({source}, {back})")
    roots = {rng.choice(rows)}
    if rng.random() < 0.6:
        roots.add(d.values[-1][0])
    if rng.random() < 0.3:
        roots.add(rows[-1])
    return d.module(sorted(roots)), d.inputs
