"""Forms that take too much memory give way to smaller ones, by what the compiler of kernels says of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from tfxla_cluster import compiler
from tfxla_cluster.backends import gpu
from tfxla_cluster.backends.gpu import Generated
from tfxla_cluster.codegen.kernel.choice import DEFAULT, UNTUNED, Candidates, Choice, Choices, Chosen, Given
from tfxla_cluster.codegen.kernel.fitting import shrunk, varied
from tfxla_cluster.codegen.triton.triton_source import Artefacts, TritonSource
from tfxla_cluster.compiler import Compiled
from tfxla_cluster.errors import KernelError, UnsupportedError
from tfxla_cluster.ir import text
from tfxla_cluster.ir.node import Instr
from tfxla_cluster.options import CompileOptions
from tfxla_cluster.runtime.plan import KernelStep, walk
from tfxla_cluster.target import Target

PRODUCTS = """HloModule products
ENTRY e { x = bf16[512,4096] parameter(0)
  y = bf16[4096,512] parameter(1)
  z = f64[96,64] parameter(2)
  r = bf16[512,512] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f64[96,96] dot(z, z), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  t = f64[96,64] sort(z), dimensions={1}, to_apply=less
  ROOT out = (bf16[512,512], f64[96,96], f64[96,64]) tuple(r, s, t) }
""".replace(
    "ENTRY",
    "less { a = f64[] parameter(0)\n  b = f64[] parameter(1)\n  ROOT l = pred[] compare(a, b), direction=LT }\nENTRY",
)
KILOBYTE = 1000  # what a stage takes, says the stand-in


def stand_in(sources: Sequence[TritonSource], target: Target, options: CompileOptions) -> list[Artefacts]:
    """In place of Triton: shared memory by the stages of a kernel's loop alone."""
    stages = [max(map(int, re.findall(r"num_stages=(\d+)", source.text)), default=0) for source in sources]
    return [Artefacts({}, b"", s.function, s.warps, count * KILOBYTE) for s, count in zip(sources, stages)]


def compiled(patch: pytest.MonkeyPatch, room: int, choices: Choices = UNTUNED) -> Compiled[Generated]:
    """PRODUCTS, where a program has `room` bytes, which the model of blocks is not told."""
    patch.setattr(gpu, "compiled", stand_in)
    patch.setattr(gpu, "shared_bytes", lambda target: room)
    return compiler.compile_module(text.parse(PRODUCTS), gpu.described(), choices=choices)


def test_what_does_not_fit_gives_way_to_its_next_smaller_form(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = compiled(monkeypatch, 9 * KILOBYTE)
    assert {c.choice for c in whole.chosen.values()} == {DEFAULT}
    made = compiled(monkeypatch, 2 * KILOBYTE)
    taken = [dict(s.params)["shared_bytes"] for s in walk(made.plan.steps) if isinstance(s, KernelStep)]
    assert max(taken) == 2 * KILOBYTE
    chosen = {instr.name: chosen for instr, chosen in made.chosen.items()}
    assert (chosen["r"].choice["stages"], chosen["s"].choice["stages"], chosen["t"].choice) == (2, 2, DEFAULT)
    assert (chosen["r"].source, "bytes of shared memory" in chosen["r"].reason) == ("default", True)
    space = gpu.described().candidates(next(i for i in made.chosen if i.name == "r"))
    assert {k for k, v in chosen["r"].choice.items() if v != space[0][k]} == {"stages"}


def test_what_has_no_form_that_fits_is_refused_with_what_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnsupportedError, match=r"kernel_\d+_r.* takes 2000 .*and sm_90 has 1999 a program"):
        compiled(monkeypatch, 2 * KILOBYTE - 1)


def test_a_choice_that_is_given_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that tuning takes it out of its candidates."""
    given = Given("r", Choice({"stages": 4}))
    with pytest.raises(UnsupportedError, match=r"^r: .* takes 4000 bytes"):
        compiled(monkeypatch, 3 * KILOBYTE, given)


def test_smaller_choices_end_with_the_least_of_each_knob() -> None:
    space = Candidates({"cols": (64, 32, 128), "warps": (4, 8), "stages": (3, 4, 2)})
    found = [(c["stages"], c["cols"], c["warps"]) for c in shrunk(space, space[0])]
    assert found == [(2, 64, 4), (2, 32, 4)]


def test_where_nothing_smaller_is_left_another_form_of_the_smallest_is_tried() -> None:
    space = Candidates({"cols": (64, 32), "descriptors": (2, 1, 0), "warps": (4, 8)})
    found = [tuple(c.values()) for c in varied(space, space[0])]
    assert found == [(32, 1, 4), (32, 0, 4), (32, 2, 8)]


def _plain(sources: Sequence[TritonSource], target: Target, options: CompileOptions) -> list[Artefacts]:
    """In place of Triton: without descriptors kernels take little, with them more than there is."""
    taken = [200 * KILOBYTE if "make_tensor_descriptor" in s.text else KILOBYTE for s in sources]
    return [Artefacts({}, b"", s.function, s.warps, count) for s, count in zip(sources, taken)]


def test_a_module_is_not_refused_for_one_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """No block is small enough for descriptors here."""
    monkeypatch.setattr(gpu, "compiled", _plain)
    monkeypatch.setattr(gpu, "shared_bytes", lambda target: 100 * KILOBYTE)
    made = compiler.compile_module(text.parse(PRODUCTS), gpu.described())
    (taken,) = (chosen for instr, chosen in made.chosen.items() if instr.name == "r")
    assert taken.choice["descriptors"] == 0
    assert "bytes of shared memory" in taken.reason


class _File:
    """Choices of a file: for r `choice`, instead of that `instead`."""

    def __init__(self, choice: Choice, instead: Choice) -> None:
        self._choice, self._instead = choice, instead
        self.said: list[str] = []

    def begin(self, instrs: Sequence[Instr]) -> None:
        pass

    def choose(self, instr: Instr) -> Chosen:
        return Chosen(self._choice, "file") if instr.name == "r" else Chosen()

    def refused(self, instr: Instr, chosen: Chosen, reason: str) -> Chosen:
        self.said.append(f"{instr.name}: {reason}")
        return Chosen(self._instead, "tuned")


def _four_stages_fail(sources: Sequence[TritonSource], target: Target, options: CompileOptions) -> list[Artefacts]:
    for source in sources:
        if "num_stages=4" in source.text or "num_stages=2" in source.text:
            raise KernelError(f"no {source.function}", frozenset({source.function}))
    return [Artefacts({}, b"", s.function, s.warps, 0) for s in sources]


@pytest.mark.parametrize("instead", [DEFAULT, Choice({"stages": 2})])
def test_a_stored_form_that_does_not_compile_is_refused_by_name(
    instead: Choice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what stands in for it, if that does not either."""
    monkeypatch.setattr(gpu, "compiled", _four_stages_fail)
    choices = _File(Choice({"stages": 4}), instead)
    module = text.parse(PRODUCTS.replace(", s, t)", ", t)").replace("f64[96,96], ", ""))
    made = compiler.compile_module(module, gpu.described(), choices=choices)
    assert choices.said == ["r: no tfxla_r_parts"]
    assert {instr.name: c.choice for instr, c in made.chosen.items()}["r"] == DEFAULT


def test_a_default_that_does_not_compile_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(sources: Sequence[TritonSource], target: Target, options: CompileOptions) -> list[Artefacts]:
        raise KernelError("nothing", frozenset({sources[0].function}))

    monkeypatch.setattr(gpu, "compiled", none)
    with pytest.raises(KernelError, match="nothing"):
        compiler.compile_module(text.parse(PRODUCTS), gpu.described())
