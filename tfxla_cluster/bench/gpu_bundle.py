"""A directory of HLO modules with our code for a GPU, made where there is none and run where TensorFlow and Triton are
not.

    NAME.pb              the module, an HloModuleProto; those of others may be HLO text too (.hlo, .txt)
    NAME.sm_90.code      the plan and the cubins, as the executable store writes them
    NAME.sm_90.refused   in its place: why there is no code

Modules with neither are compiled when they are run, which needs Triton.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import compiler, output_file
from ..backends import gpu
from ..codegen.kernel.code import Code
from ..errors import InputFileError, UnsupportedError
from ..ir import dtype as dtypes
from ..ir import proto
from ..ir.guard import facts
from ..ir.node import Module
from ..options import CompileOptions
from ..replay.module_file import read_module
from ..runtime import persist
from ..runtime.cache import Key
from ..runtime.plan import LaunchPlan
from ..stored import entry
from .gpu_rows import GpuRow, switched

MODULES = (".pb", ".hlo", ".txt")
CODE, REFUSED = ".code", ".refused"


def make(row: GpuRow, directory: Path, arch: str, options: CompileOptions) -> str:
    """Writes a row's files; '' or why it has no code."""
    module = lowered(row)
    output_file.write(str(directory / f"{row.file}.pb"), module)
    stem = directory / f"{row.file}.{arch}"
    try:
        made = compiler.compile_module(proto.read(module), gpu.described(arch, options.any_order), options)
    except UnsupportedError as error:
        output_file.write(f"{stem}{REFUSED}", str(error).encode())
        return str(error)
    output_file.write(
        f"{stem}{CODE}", entry.pack(_key(module, arch), persist.to_sections(made.plan, made.code.objects))
    )
    return ""


def lowered(row: GpuRow) -> bytes:
    """The row's HloModuleProto by TensorFlow's bridge."""
    import tensorflow as tf

    fn = tf.function(lambda *args: row.tf_fn(tf, *args), jit_compile=True, autograph=False)
    specs = [tf.TensorSpec(draw.shape, tf_dtype(draw.dtype)) for draw in row.inputs]
    with switched(tf, row):
        return bytes(fn.experimental_get_compiler_ir(*specs)(stage="hlo_serialized"))


def tf_dtype(name: str) -> Any:
    """TensorFlow's dtype of HLO's name."""
    return dtypes.DTYPES[name].numpy


def _key(module: bytes, arch: str) -> Key:
    return facts({"module": hashlib.sha256(module).hexdigest(), "target": arch})


@dataclass(frozen=True, slots=True)
class Case:
    """A module of a bundle: `name` of its file; `code` of it for the GPU asked for, or None, and why `refused`."""

    name: str
    module: Module
    code: tuple[LaunchPlan, Code] | None = None
    refused: str = ""


def cases(directory: Path, arch: str, wanted: Callable[[str], bool] = lambda name: True) -> Iterator[Case]:
    """The modules of `directory` whose name is wanted, read one by one; InputFileError where it holds none, or code
    is damaged."""
    found = sorted(path for path in directory.glob("*") if path.suffix in MODULES)
    if not found:
        raise InputFileError(f"{directory} holds no HLO module ({', '.join(MODULES)})")
    for path in found:
        if wanted(path.stem):
            yield _case(path, arch)


def _case(path: Path, arch: str) -> Case:
    module = read_module(str(path))
    stem = f"{path.with_suffix('')}.{arch}"
    refused, code = Path(stem + REFUSED), Path(stem + CODE)
    if refused.exists():
        return Case(path.stem, module, None, refused.read_text())
    if not code.exists():
        return Case(path.stem, module)
    try:
        plan, objects = persist.from_sections(entry.unpack(code.read_bytes(), _key(path.read_bytes(), arch)).sections)
    except (ValueError, KeyError, TypeError) as error:
        raise InputFileError(f"{code}: {error}", "Make the bundle anew") from None
    return Case(path.stem, module, (plan, Code(tuple(objects))))
