"""The kernels of a module: a table, facts, and every text there is of each."""

from __future__ import annotations

from typing import Any

from .graphs import short_shape
from .model import Module, amount, frames, place, word, words
from .parsers import kernels
from .parsers.hlo import Hlo, Row, named
from .reading import Reader, rows
from .site import Page, cut_lines, route, table_data

# Kind of file, title of its button, language of assets/text.js.
_TEXTS = (
    ("llvm", "LLVM IR", "llvm"),
    ("llvm_before", "LLVM IR as emitted", "llvm"),
    ("assembly", "Assembly", "asm"),
    ("kernel_ir", "Kernel IR", "kernel"),
    ("triton", "Triton", "none"),
    ("ttir", "Triton IR", "none"),
    ("ttgir", "Triton GPU IR", "none"),
    ("ptx", "PTX", "asm"),
)
_COLUMNS = [
    ("Symbol", "", 5),
    ("Instruction", "", 4),
    ("Opcode", "", 2),
    ("Bytes", "b", 1),
    ("Operations", "n", 1),
    ("Tasks", "", 1),
    ("Shape", "", 4),
    ("Steps", "n", 1),
]


def kernel_tab(page: Page, module: Module, reader: Reader, after: Hlo, launches: dict[str, list[str]]) -> None:
    """Add the tab 'kernels' to a module's page; `launches`: symbol -> instructions whose step runs it."""
    found = rows(reader.json(module.files.one("kernels"), list))
    listed = {word(r, "symbol"): r for r in found if word(r, "symbol")}
    texts, symbols = [], dict.fromkeys(listed)
    for kind, title, language in _TEXTS:
        whole, where = kernels.join(_parts(module, kind, reader))
        if where:
            key = page.packer.text(cut_lines(whole), f"{page.title}: {title}")
            texts.append({"t": title, "key": key, "language": language, "at": where})
            symbols.update(dict.fromkeys(where))
    if not symbols:
        page.missing("kernels", "Kernels", "The dump holds no kernel of this module.")
        return
    by_name = {row.name: row for block in after.stepped() for row in block.rows}
    table: list[tuple[Any, ...]] = []
    facts: dict[str, list[list[Any]]] = {}
    for symbol in symbols:
        record = listed.get(symbol, {})
        instr = word(record, "instr") or kernels.stock_symbol(symbol)
        row = by_name.get(instr)
        table.append(
            (
                symbol,
                instr,
                row.opcode if row else word(record, "opcode"),
                amount(record, "bytes"),
                amount(record, "flops"),
                word(record, "tasks"),
                short_shape(row.shape) if row else "",
            )
        )
        runs = launches.get(symbol, [])
        table[-1] += (len(runs) or None,)
        facts[symbol] = _facts(page.page, module, record, instr, row)
        if len(runs) > 1:
            links = [route(page.page, "graph", name) for name in runs[:12]]
            facts[symbol].insert(1, ["Runs for", [*links, *([f"and {len(runs) - 12} more"] if len(runs) > 12 else [])]])
    page.data(
        "kernels",
        "Kernels",
        "kernels",
        {
            "table": table_data(_COLUMNS, table),
            "texts": texts,
            "facts": facts,
            "of": {i: symbol for symbol, names in launches.items() for i in names},
        },
        n=len(table),
    )


def _parts(module: Module, kind: str, reader: Reader) -> list[tuple[str, str]]:
    """(symbol, text) of every kernel in the files of one kind."""
    found = []
    for file in module.files.all(kind):
        for symbol, body in kernels.split(reader.text(file)):
            found.append((symbol or file.groups.get("kernel", "") or "module", body))
    return found


def _facts(page: str, module: Module, record: dict[str, Any], instr: str, row: Row | None) -> list[list[Any]]:
    """[title, value] pairs: what the kernel computes and the user's lines it came from."""
    facts: list[list[Any]] = []
    if row is not None:
        facts.append(["Instruction", route(page, "graph", instr, f"{instr} = {row.opcode}, in the graph")])
    fused = words(record, "instrs")
    if len(fused) > 1:
        facts.append(["Fused", f"{len(fused)}: " + ", ".join(fused[:40]) + (", …" if len(fused) > 40 else "")])
    origins = words(record, "sources") or ([row.origin] if row and row.origin else [])
    facts.append(["User lines", _lines(page, module, origins) or "unknown"])
    nodes = [name for name in named(origins) if name]
    if nodes:
        more = f", and {len(nodes) - 20} more" if len(nodes) > 20 else ""
        facts.append(["TensorFlow nodes", ", ".join(nodes[:20]) + more])
    known = {"symbol", "instr", "opcode", "instrs", "sources", "bytes", "flops", "tasks"}
    facts += [[key, str(value)] for key, value in record.items() if key not in known and value not in (None, "")]
    return facts


def _lines(page: str, module: Module, nodes: list[str]) -> list[dict[str, str]]:
    """The user's lines of some nodes, each once, as links into the tab 'lines'."""
    found: dict[str, dict[str, str]] = {}
    for node in nodes:
        for frame in frames(module.sources, node)[:1]:
            text = f"{place(frame)}  {word(frame, 'text')}"
            found[text] = route(page, "lines", place(frame), text)
    return list(found.values())
