"""The kernels of a module: a table, facts, and every text there is of each, its lines linked to instructions and the
user's lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import kernel_facts
from .graphs import short_shape
from .measures import Kernel
from .model import Module, word, words
from .parsers import kernels
from .parsers.hlo import Hlo
from .reading import Reader
from .site import Page, cut_lines, table_data

# Kind of file, title of its button, language of assets/text.js.
_TEXTS = (
    ("triton", "Triton", "python"),
    ("llvm_before", "LLVM IR as emitted", "llvm"),
    ("llvm", "LLVM IR", "llvm"),
    ("kernel_ir", "Kernel IR", "kernel"),
    ("assembly", "Assembly", "asm"),
    ("ttir", "Triton IR", "mlir"),
    ("ttgir", "Triton GPU IR", "mlir"),
    ("ptx", "PTX", "asm"),
)
_COLUMNS = (
    ("Symbol", "", 5),
    ("Instruction", "", 4),
    ("Opcode", "", 2),
    ("Time ms", "n", 1),
    ("One run us", "n", 1),
    ("Floor us", "n", 1),
    ("x floor", "n", 1),
    ("Bytes", "b", 1),
    ("Operations", "n", 1),
    ("GB/s", "n", 1),
    ("Steps", "n", 1),
    ("Tasks", "n", 1),
    ("Shape", "", 4),
)


@dataclass(frozen=True, slots=True)
class Made:
    """A module with its kernels: those of kernels.json, `plan`: the launch plan's steps by symbol, `launches`:
    symbol -> instructions whose step runs it, `places`: instruction -> the user's line, where it is known."""

    module: Module
    after: Hlo
    kernels: Sequence[Kernel]
    launches: dict[str, list[str]]
    plan: dict[str, dict[str, Any]]
    places: Mapping[str, str]


def kernel_tab(page: Page, made: Made, reader: Reader) -> None:
    """Add the tab 'kernels' to a module's page."""
    texts, symbols = _texts(page, made, reader)
    if not symbols:
        page.missing("kernels", "Kernels", "The dump holds no kernel of this module.")
        return
    known = {k.symbol: k for k in made.kernels}
    shown = [known.get(symbol) or _unlisted(symbol, made) for symbol in symbols]
    shown.sort(key=lambda k: -(k.ms or 0))
    rows = {row.name: row for block in made.after.blocks for row in block.rows}
    facts = kernel_facts.Facts(page.page, made.module, rows, made.plan, reader)
    cells = [_cells(k, rows.get(k.instr)) for k in shown]
    filled = [n for n in range(len(_COLUMNS)) if any(row[n] not in ("", None) for row in cells)]
    page.data(
        "kernels",
        "Kernels",
        "kernels",
        {
            "table": table_data([_COLUMNS[n] for n in filled], ([row[n] for n in filled] for row in cells)),
            "texts": texts,
            "facts": {k.symbol: facts.of(k) for k in shown},
            "of": dict(_homes(made, shown)),
            "lines": dict(made.places),
            "page": page.page,
        },
        n=len(cells),
    )


def _texts(page: Page, made: Made, reader: Reader) -> tuple[list[dict[str, Any]], list[str]]:
    """The texts for assets/kernels.js, and all symbols: of kernels.json and of texts."""
    texts, symbols = [], dict.fromkeys(k.symbol for k in made.kernels)
    for kind, title, language in _TEXTS:
        whole, at = kernels.join(_parts(made.module, kind, reader))
        if at:
            key = page.packer.text(cut_lines(whole), f"{page.title}: {title}")
            texts.append({"t": title, "key": key, "language": language, "at": at})
            symbols.update(dict.fromkeys(at))
    return texts, list(symbols)


def _unlisted(symbol: str, made: Made) -> Kernel:
    """A kernel of which there is a text alone."""
    instr = kernels.stock_symbol(symbol)
    return Kernel(symbol, {}, instr, made.launches.get(symbol, []))


def _cells(kernel: Kernel, row: Any) -> list[Any]:
    def rounded(value: float | None, digits: int) -> float | None:
        return None if value is None else round(value, digits)

    each, floor = (None if v is None else v * 1000 for v in (kernel.each, kernel.floor))
    return [
        kernel.symbol,
        kernel.instr,
        row.opcode if row else word(kernel.record, "opcode"),
        rounded(kernel.ms, 3),
        rounded(each, 2),
        rounded(floor, 2),
        rounded(kernel.excess, 1),
        kernel.bytes,
        kernel.operations,
        rounded(kernel.rate and kernel.rate / 1e6, 1),
        len(kernel.steps) or None,
        kernel.record.get("tasks") if isinstance(kernel.record.get("tasks"), int) else None,
        short_shape(row.shape) if row else "",
    ]


def _homes(made: Made, shown: Sequence[Kernel]) -> Iterator[tuple[str, str]]:
    """(instruction, symbol): those that a kernel computes, then those whose step runs it."""
    for kernel in shown:
        yield from ((name, kernel.symbol) for name in words(kernel.record, "instrs"))
    for symbol, names in made.launches.items():
        yield from ((name, symbol) for name in names)


def _parts(module: Module, kind: str, reader: Reader) -> list[tuple[str, str]]:
    """(symbol, text) of every kernel in the files of one kind."""
    found = []
    for file in module.files.all(kind):
        for symbol, body in kernels.split(reader.text(file)):
            found.append((symbol or file.groups.get("kernel", "") or "module", body))
    return found
