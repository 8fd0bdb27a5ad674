"""Edited kernels: the text of a file from a dump in place of what would be generated."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic

from ..backends.backend import Backend, LauncherT
from ..codegen.kernel.choice import DEFAULT, Candidates, Choice
from ..codegen.kernel.code import Code, Listing, Source
from ..codegen.kernel.unit import Unit
from ..errors import InputFileError, UsageError
from ..fusion.machine import Machine
from ..ir.node import Instr
from ..options import CompileOptions
from ..runtime.floor import Floor
from ..runtime.plan import LaunchPlan
from ..target import Target

# The line that the dump puts before each kernel (dump.schema.MARKER), after a comment sign.
_HEADING = re.compile(r"^(?:;|#|//) ==== kernel (\S+) ====$", re.MULTILINE)
_OTHER_HEADING = re.compile(r"^(?:;|#|//) ==== .* ====$", re.MULTILINE)
# What defines a kernel in LLVM IR.
_DEFINED = re.compile(r"^define (?!internal|private)[^@\n]*@\"?([\w.$-]+)\"?\(", re.MULTILINE)


def read(path: Path) -> dict[str, str]:
    """Symbol -> text of each kernel in a file of a dump (ir-no-opt.ll, triton.py), or the one that LLVM IR without
    headings defines; InputFileError where there is none."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InputFileError(f"cannot read {path}: {getattr(error, 'strerror', None) or 'it is no text'}") from None
    headings = list(_HEADING.finditer(text))
    if headings:
        if len(headings) != len(_OTHER_HEADING.findall(text)):
            raise InputFileError(f"{path}: its kernels are no modules by themselves", "Edit ir-no-opt.ll or triton.py")
        ends = [*(h.start() for h in headings[1:]), len(text)]
        return {h[1]: text[h.end() : end].strip() + "\n" for h, end in zip(headings, ends)}
    defined = _DEFINED.findall(text)
    if len(defined) != 1:
        what = f"defines {', '.join(defined)}" if defined else "defines no function"
        raise InputFileError(f"{path} {what}", "Give a file of a dump, or LLVM IR that defines one kernel")
    return {defined[0]: text}


@dataclass(frozen=True)
class Edited(Generic[LauncherT]):
    """A backends.backend.Backend that compiles `texts` (symbol -> text) in place of what `inner` would write."""

    inner: Backend[LauncherT]
    texts: Mapping[str, str]
    file: Path

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def target(self) -> Target:
        return self.inner.target

    @property
    def machine(self) -> Machine:
        return self.inner.machine

    @property
    def origin(self) -> str:
        return self.inner.origin

    def floor(self) -> Floor | None:
        return self.inner.floor()

    def lower(self, instr: Instr, choice: Choice = DEFAULT) -> Unit:
        return self.inner.lower(instr, choice)

    def candidates(self, instr: Instr) -> Candidates:
        return self.inner.candidates(instr)

    def compile(self, sources: Sequence[Source], options: CompileOptions, listing: Listing | None) -> Code:
        """UsageError where a text is of a kernel that the module does not have; InputFileError where a compiler
        rejects one."""
        known = [source.symbol for source in sources]
        unknown = [symbol for symbol in self.texts if symbol not in known]
        if unknown:
            raise UsageError(
                f"{self.file}: the module has no kernel {unknown[0]}", f"Its kernels: {', '.join(known) or 'none'}"
            )
        given = [replace(source, text=self.texts.get(source.symbol, "")) for source in sources]
        try:
            return self.inner.compile(given, options, listing)
        except RuntimeError as error:  # of LLVM's parser and assembler
            raise InputFileError(f"{self.file}: LLVM rejects it: {' '.join(str(error).split())[:300]}") from None

    def load(self, plan: LaunchPlan, code: Code, options: CompileOptions) -> LauncherT:
        return self.inner.load(plan, code, options)
