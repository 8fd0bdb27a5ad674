"""Kernels that Triton compiled are kept: by their text, in memory and in the store, whatever the entry looks like."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.codegen.triton.test_source import elementwise, softmax
from tfxla_cluster.backends import gpu, gpu_code
from tfxla_cluster.codegen.kernel.code import Source
from tfxla_cluster.codegen.kernel.lower.gpu.capability import starts_early
from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.codegen.triton.source import render
from tfxla_cluster.codegen.triton.triton_source import Artefacts, TritonSource
from tfxla_cluster.errors import UsageError
from tfxla_cluster.options import CompileOptions, StoreOptions
from tfxla_cluster.replay import edited
from tfxla_cluster.target import Target

SM90 = Target("gpu", "sm_90")


class Compiler:
    """Stands for Triton, which the first test asks, and notes what is asked of it."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, sources: Sequence[TritonSource], target: Target, count: int) -> list[Artefacts]:
        self.asked += [s.function for s in sources]
        return [Artefacts({"ptx": s.text}, target.arch.encode(), s.function, s.warps, 48) for s in sources]


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[Compiler]:
    made = Compiler()
    monkeypatch.setattr(gpu_code, "compile_sources", made)
    gpu_code._memory.clear()
    yield made
    gpu_code._memory.clear()


def named(name: str) -> TritonSource:
    found = render(elementwise())
    return replace(found, function=name, text=found.text.replace(found.function, name))


def test_equal_kernels_are_compiled_once_whatever_their_names(compiler: Compiler) -> None:
    options = CompileOptions()
    first = gpu_code.compiled([named("one"), named("two"), render(softmax())], SM90, options)
    assert compiler.asked == ["one", render(softmax()).function]
    assert first[0] is first[1]
    assert gpu_code.compiled([named("three")], SM90, options) == first[:1]
    assert len(compiler.asked) == 2


def test_a_text_that_is_given_is_compiled_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `replay --kernel` gives; how the kernel is launched stays as it is."""
    seen: list[TritonSource] = []

    def compiled(rendered: Sequence[TritonSource], target: Target, options: CompileOptions) -> list[Artefacts]:
        seen.extend(rendered)
        return [Artefacts({}, b"", s.function, s.warps, 48) for s in rendered]

    monkeypatch.setattr(gpu, "compiled", compiled)
    sources = [Source("one", elementwise()), Source("two", softmax())]
    file = Path("edited.triton.py")
    gpu_backend = edited.Edited(gpu.described("sm_90"), {"two": "# edited"}, file)
    gpu_backend.compile(sources, CompileOptions(), None)
    plain = render(softmax(), starts_early(SM90))
    assert seen == [render(elementwise(), starts_early(SM90)), replace(plain, text="# edited")]
    with pytest.raises(UsageError, match=r"edited\.triton\.py: the module has no kernel three\. Its kernels: one, two"):
        edited.Edited(gpu_backend, {"three": ""}, file).compile(sources, CompileOptions(), None)


@pytest.mark.parametrize("change", ["warps", "text", "multiples", "target"])
def test_what_changes_the_code_is_compiled(change: str, compiler: Compiler) -> None:
    source, target = named("one"), SM90
    gpu_code.compiled([source], target, CompileOptions())
    if change == "target":
        target = Target("gpu", "sm_80")
    else:
        values = {"warps": source.warps * 2, "text": f"{source.text}\n# more\n", "multiples": ((0, 16),)}
        source = replace(source, **{change: values[change]})
    gpu_code.compiled([source], target, CompileOptions())
    assert compiler.asked == ["one", "one"]


def test_the_store_keeps_them_between_processes(tmp_path: Path, compiler: Compiler) -> None:
    options = CompileOptions(store=StoreOptions(str(tmp_path)))
    first = gpu_code.compiled([named("one")], SM90, options)
    gpu_code._memory.clear()
    assert gpu_code.compiled([named("two")], SM90, options) == first
    assert compiler.asked == ["one"]


@pytest.mark.parametrize("damage", ["cut", "other"])
def test_a_damaged_entry_is_compiled_again(damage: str, tmp_path: Path, compiler: Compiler) -> None:
    store = StoreOptions(str(tmp_path))
    options = CompileOptions(store=store)
    first = gpu_code.compiled([named("one")], SM90, options)
    (path,) = tmp_path.glob("*.bin")
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-5])
    else:  # whole, but of another version
        opened = gpu_code.opened(store)
        assert opened is not None
        opened.put(gpu_code.key(named("one"), SM90), gpu_code.KIND, {"launch.json": b'{"other": 1}'})
    gpu_code._memory.clear()
    assert gpu_code.compiled([named("one")], SM90, options) == first
    assert compiler.asked == ["one", "one"]


@pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")
def test_sections_hold_all_of_what_triton_made() -> None:
    (made,) = workers.compile_sources([render(softmax())], SM90, 1)
    assert made.cubin[:4] == b"\x7fELF"
    assert gpu_code.from_sections(gpu_code.to_sections(made)) == made
