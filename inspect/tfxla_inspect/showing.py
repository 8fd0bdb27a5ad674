"""`tfxla-inspect show`: a dump in a terminal: its tree, the HLO of a module, the code of a kernel."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tfxla_cluster.errors import InputFileError, UsageError

from . import module_choice
from .model import Dump, Module, load, word
from .parsers import kernels
from .passes import timeline
from .reading import Reader, rows
from .scan import File, scan

AUTO, ALWAYS, NEVER = "auto", "always", "never"
# What a kernel is shown as, the nearest to the machine last.
LANGUAGES = {
    "ir": ("kernel_ir",),
    "triton": ("triton",),
    "llvm": ("llvm_before", "llvm"),
    "ttir": ("ttir", "ttgir"),
    "ptx": ("ptx",),
    "assembly": ("assembly",),
}
_DEFAULT = ("triton", "llvm_before", "llvm", "kernel_ir", "ptx", "assembly")
_RESET, _NAME, _SHAPE, _OPCODE, _SOFT = "\033[0m", "\033[36m", "\033[32m", "\033[33m", "\033[90m"
_HLO = re.compile(
    r"(?P<comment>/\*.*?\*/|metadata=\{[^}]*\}|^[;#/].*$)|(?P<name>%[\w.-]+)|(?P<shape>\b[a-z]+\d*\[[^\]]*\])"
    r"|(?P<opcode>(?<= )[a-z][a-z-]+(?=\())",
    re.MULTILINE,
)
_COLOURS = {"comment": _SOFT, "name": _NAME, "shape": _SHAPE, "opcode": _OPCODE}


@dataclass(frozen=True, slots=True)
class Wanted:
    """`what`: 'tree', 'before', 'after', 'passes', or a pass's number in its files' names. `kernel`: a symbol, then
    `language` is one of LANGUAGES or ''. `colour`: AUTO, ALWAYS or NEVER."""

    what: str = "tree"
    kernel: str = ""
    language: str = ""
    colour: str = AUTO


def run(path: Path, which: str, wanted: Wanted) -> int:
    """0; errors as those of `module_choice.chosen`, and UsageError for what the module does not have."""
    reader = Reader()
    if wanted.kernel:
        text = _kernel(path, which, wanted, reader)
    elif wanted.what == "tree":
        text = "\n".join(_tree(load(scan(path), reader), which))
    else:
        text = hlo_text(module_choice.chosen(path, which), wanted.what, reader)
    page(coloured(text) if _is_coloured(wanted.colour) else text)
    return 0


def _is_coloured(colour: str) -> bool:
    return colour == ALWAYS or (colour == AUTO and sys.stdout.isatty())


def coloured(text: str) -> str:
    """HLO, and what looks like it, with colours of a terminal."""
    return _HLO.sub(lambda m: f"{_COLOURS[m.lastgroup or 'name']}{m[0]}{_RESET}", text)


def page(text: str) -> None:
    """Through `less` where standard output is a terminal and the text is longer than it."""
    height = shutil.get_terminal_size().lines
    pager = shutil.which("less") if sys.stdout.isatty() and text.count("\n") >= height else None
    if pager is None:
        sys.stdout.write(f"{text}\n")
        return
    subprocess.run([pager, "-RS"], input=text, text=True, errors="replace", check=False)


def _tree(dump: Dump, which: str) -> Iterator[str]:
    """Modules with what was made of them; clusters and left-out ops in numbers."""
    yield f"{dump.directory.path}: {len(dump.modules)} modules, {len(dump.directory.everything)} files"
    clusters, left = len(dump.of("cluster")), dump.of("unclustered")
    if clusters or left:
        yield f"  {clusters} clusters; {len(left)} ops in none (explain --op says why)"
    for module in dump.modules:
        if not which or which in (str(module.files.id), module.files.name):
            yield from _branch(module)
    if dump.directory.problems:
        yield f"  {len(dump.directory.problems)} files are not read"


def _branch(module: Module) -> Iterator[str]:
    files, reader = module.files, Reader()
    took = f", compiled in {module.milliseconds:.1f} ms" if module.milliseconds else ""
    yield f"+ {files.id}  {module.title} ({files.name}){took}, {len(files.files)} files"
    if module.phases:
        longest = sorted(module.phases.items(), key=lambda pair: -pair[1])[:4]
        yield "|   " + ", ".join(f"{name} {ms:.1f} ms" for name, ms in longest)
    steps = [f for f in files.files if f.kind in ("pass", "pass_proto")]
    if steps:
        yield f"|   {len(steps)} texts between passes (show passes)"
    listed = rows(reader.json(files.one("kernels"), list))
    for number, record in enumerate(listed):
        corner = "`" if number == len(listed) - 1 else "|"
        yield f"|   {corner}-- {word(record, 'symbol')}  {word(record, 'opcode')} %{word(record, 'instr')}"


def hlo_text(chosen: module_choice.Chosen, what: str, reader: Reader) -> str:
    """What `Wanted.what` names, of a module. InputFileError, UsageError where it has no such text."""
    module = chosen.module
    if what == "passes":
        return "\n".join(_passes(chosen, reader))
    if what in ("before", "after"):
        return _text(module.one(what), f"module {module.id} has no HLO {what} optimisation", reader)
    found = [f for f in module_choice.passes(module) if f.groups.get("step", "").lstrip("0") == what.lstrip("0")]
    if not found:
        known = ", ".join(f.groups.get("step", "") for f in module_choice.passes(module)) or "none"
        raise UsageError(f"module {module.id} has no text of a pass {what}", f"It has: before, after, {known}")
    return _text(found[0], "", reader)


def _passes(chosen: module_choice.Chosen, reader: Reader) -> Iterator[str]:
    steps = list(timeline(Module(chosen.module, ""), reader))
    for step in steps:
        changed = f"-{step.gone} +{step.new}" if step is not steps[0] else "first"
        yield f"{step.step:04}  after {step.after}  {step.instructions} instructions  {changed}"
        yield from (f"        {line}" for line in step.delta[:12])
    if not steps:
        yield f"module {chosen.module.id} has no texts between passes (--xla_dump_hlo_pass_re=.*)"


def _text(file: File | None, missing: str, reader: Reader) -> str:
    text = reader.text(file)
    if not text:
        raise InputFileError(missing if file is None else f"{file.name}: {reader.problems[-1][1]}")
    return text


def _kernel(path: Path, which: str, wanted: Wanted, reader: Reader) -> str:
    """The code of the kernel of that symbol in the first language that has it."""
    directory = scan(path)
    modules = [m for m in directory.modules if not which or which in (str(m.id), m.name)]
    kinds = LANGUAGES[wanted.language] if wanted.language else _DEFAULT
    seen: dict[str, None] = {}
    for kind in kinds:
        for module in modules:
            for file in module.all(kind):
                for symbol, text in kernels.split(reader.text(file)):
                    name = symbol or kernels.stock_symbol(file.groups.get("kernel", ""))
                    seen[name] = None
                    if wanted.kernel in (name, symbol):
                        return text
    known = ", ".join(list(seen)[:20]) or "none"
    raise InputFileError(f"{path}: no kernel {wanted.kernel} in {' or '.join(kinds)}", f"There is: {known}")
