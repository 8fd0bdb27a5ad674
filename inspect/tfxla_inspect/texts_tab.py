"""What a module's dump has besides what other tabs show: options, MLIR, reports of memory, devices, profiles."""

from __future__ import annotations

from .file_kinds import TITLES
from .model import Module
from .reading import Reader
from .scan import File
from .site import Page

# Kinds, in the order in which they are shown.
KINDS = (
    *("options", "config", "compile_options", "metadata", "frontend_mlir", "thunks", "memory", "live", "values"),
    *("autotune", "gpu_target", "topology", "gpu_executable", "fdo", "mlir", "mlir_log", "snapshot_text"),
)
# Of one text, and of all of a module.
_MOST_CHARACTERS = 200_000
_MOST_IN_ALL = 4_000_000


def texts_tab(page: Page, module: Module, reader: Reader) -> None:
    """Add the tab 'texts': the files one after another, each after a line with its name, long ones cut. None where the
    dump has no such file of the module."""
    parts: list[str] = []
    left = _MOST_IN_ALL
    for file in files(module):
        if left <= 0:
            parts.append(f"==== {file.name} ==== left out: the files before it fill this page\n")
            continue
        text = reader.text(file)
        shown = text[: min(_MOST_CHARACTERS, left)]
        more = f"\n... {len(text) - len(shown):,} more characters in the file" if len(text) > len(shown) else ""
        parts.append(f"==== {TITLES[file.kind]}: {file.name} ====\n{shown.rstrip()}{more}\n")
        left -= len(shown)
    if parts:
        page.text("texts", "Other texts", "\n".join(parts), "none")


def files(module: Module) -> list[File]:
    """Those that are shown, texts and what can be printed as one."""
    return [file for kind in KINDS for file in module.files.all(kind)]
