"""What a dump directory tells, tied together: traces, modules and the clusters and functions they are of."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .parsers import options
from .parsers.hlo import ORIGIN
from .reading import Reader
from .scan import Directory, File, ModuleFiles

Record = dict[str, Any]
# Stock XLA names a module after the cluster, or the function, that it compiled.
_STOCK_CLUSTER = re.compile(r"(cluster_\d+(?:_\d+)*?)__Xla")
# Before a cluster's name in the name of the function that it became.
FUNCTION_PREFIX = "tfxla_"
_NOTHING_MS = 1e-3
_STOCK_FUNCTION = re.compile(r"a?_+inference_(.+?)_?\d*__XlaMustCompile")


_MOST = 2**63


def word(record: Record, *keys: str) -> str:
    """The first of the fields that is there, as text."""
    for key in keys:
        value = record.get(key)
        if value is not None and value != "":
            return value if isinstance(value, str) else str(value)
    return ""


def amount(record: Record, *keys: str) -> float | int | None:
    """The first of the fields that is a number that something can be measured with: finite, and of 64 bits."""
    for key in keys:
        value = record.get(key)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < _MOST:
            return value
    return None


def mapping(record: Record, key: str) -> dict[str, Any]:
    value = record.get(key)
    return value if isinstance(value, dict) else {}


def words(record: Record, key: str) -> list[str]:
    value = record.get(key)
    return [str(v) for v in value] if isinstance(value, list) else []


def _numbers(value: dict[str, Any]) -> dict[str, float]:
    """The entries of a mapping that are numbers."""
    return {k: v for k, v in value.items() if isinstance(v, (int, float)) and not isinstance(v, bool)}


@dataclass(slots=True)
class Module:
    """A module of the dump with its records. `page`: its route in the report. `clustering`: milliseconds that finding
    it in its function's graph took, that is its share of all clusters there; None of no cluster. `options`: XLA's that
    it was compiled with, where they are not the default."""

    files: ModuleFiles
    page: str
    compiles: list[Record] = field(default_factory=list)
    executions: list[Record] = field(default_factory=list)  # the last holds all earlier ones
    timings: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, Any] = field(default_factory=dict)
    crossed: Record = field(default_factory=dict)
    clustering: float | None = None
    options: dict[str, str] = field(default_factory=dict)

    @property
    def elsewhere(self) -> str:
        """The machine ('sm_90') that it was only compiled for, and never run here; '' for one that was to run."""
        return word(self.crossed, "arch")

    @property
    def compiled(self) -> Record:
        """The record of the compilation itself (not of a cache hit), or {}."""
        return next((r for r in self.compiles if not r.get("hit")), self.compiles[0] if self.compiles else {})

    @property
    def cluster(self) -> str:
        """The cluster compiled, or ''."""
        if self.compiled.get("what") == "must":
            return ""
        named = word(self.compiled, "cluster").removeprefix(FUNCTION_PREFIX)
        match = _STOCK_CLUSTER.match(self.files.name)
        return named or (match[1] if match else "")

    @property
    def function(self) -> str:
        """The function compiled, or that the cluster lies in; '' where unknown."""
        if self.compiled.get("what") == "must":
            return word(self.compiled, "function", "cluster", "module")
        named = word(self.compiled, "function")
        match = _STOCK_FUNCTION.match(self.files.name)
        return named or (match[1] if match else "")

    @property
    def title(self) -> str:
        if self.elsewhere:
            return f"{word(self.crossed, 'module')} for {self.elsewhere}"
        return self.cluster or self.function or self.files.name or f"module {self.files.id}"

    @property
    def phases(self) -> dict[str, float]:
        """Phase -> milliseconds of all that it took to have the executable, empty where unknown: from the record of
        the compilation, of one that was killed before that from the times of what was done."""
        known = _numbers(mapping(self.compiled, "phases"))
        done = _numbers(mapping(self.timings, "phases"))
        rest = (amount(self.timings, "total_ms") or 0) - sum(done.values())
        if sum(known.values()) < sum(done.values()) + max(rest, 0):  # earlier versions had no record of all phases
            known = {**done, "other": done.get("other", 0) + rest} if rest > _NOTHING_MS else done
        clustering = {} if self.clustering is None else {"cluster": self.clustering}
        return {**clustering, **known} if known else {}

    @property
    def passes(self) -> dict[str, float]:
        """Pass -> milliseconds of the phase 'passes', empty where unknown."""
        return _numbers(mapping(self.compiled, "passes") or mapping(self.timings, "passes"))

    @property
    def milliseconds(self) -> float | None:
        """What the program waited for it in all, None where unknown."""
        return sum(self.phases.values()) or amount(self.timings or self.compiled or self.crossed, "total_ms", "ms")


@dataclass(frozen=True, slots=True)
class PassStep:
    """A module's text between two passes, or within one (`before` is '' then), and what changed since the text before
    it (passes.timeline). `step`: the number in the file's name; `after`, `before`: names of passes; `instructions`: in
    the whole text; `gone`, `new`: how many lines only the earlier, only this text has (0 of the first); `delta`: lines
    that begin with '- ', '+ ', '  ' or '@ ' (a computation's name), bounded in number."""

    step: int
    pipeline: str
    after: str
    before: str
    file: File
    instructions: int
    gone: int
    new: int
    delta: tuple[str, ...]

    @property
    def is_inner(self) -> bool:
        """Whether it was written within a pass."""
        return not self.before


@dataclass(slots=True)
class Dump:
    """Everything known before the large texts are read. `records`: all trace records by kind;
    `cluster_routes`: cluster -> where the report shows it in its TensorFlow graph."""

    directory: Directory
    modules: list[Module]
    records: dict[str, list[Record]]
    graphs: list[File]
    cluster_routes: dict[str, str] = field(default_factory=dict)

    def of(self, kind: str) -> list[Record]:
        return self.records.get(kind, [])

    def everything(self) -> Iterator[Record]:
        """All records, by time."""
        found = [r for records in self.records.values() for r in records]
        return iter(sorted(found, key=lambda r: amount(r, "time") or 0))

    def sources(self) -> dict[str, Any]:
        """TF node -> frames, of all modules."""
        merged: dict[str, Any] = {}
        for module in self.modules:
            merged.update(module.sources)
        return merged

    def function_of(self, module: Module) -> str:
        """The function that a module was compiled for; of a cluster, the one that it lies in; '' where unknown."""
        clusters = (r for r in self.of("cluster") if word(r, "name") == module.cluster)
        return module.function or next((word(r, "function") for r in clusters), "")

    def module_of(self, cluster: str) -> Module | None:
        """Of a cluster, or of a function that is compiled whole."""
        return next((m for m in self.modules if cluster in (m.cluster, m.function)), None)


def load(directory: Directory, reader: Reader) -> Dump:
    """Read the traces and small JSON files of `directory`."""
    records: dict[str, list[Record]] = {}
    for file in directory.all("trace"):
        where = {"pid": file.groups.get("pid", "")} | ({"folder": file.folder} if file.folder else {})
        for record in reader.json_lines(file):
            kind = word(record, "kind") or "?"
            records.setdefault(kind, []).append({**where, **record})
    modules = _modules(directory, records, reader)
    _share_clustering(modules, records)
    graphs = directory.all("graph") or directory.all("graph_before")
    return Dump(directory, modules, records, graphs)


def _modules(directory: Directory, records: dict[str, list[Record]], reader: Reader) -> list[Module]:
    compiles, executions, crossed = (
        _by_id(records.get(kind, [])) for kind in ("compile", "execution", "cross_compile")
    )
    modules, numbered = [], Counter[int]()
    for files in directory.modules:
        page = f"m{files.id}" + (f"x{numbered[files.id]}" if numbered[files.id] else "")
        numbered[files.id] += 1
        modules.append(
            Module(
                files,
                page,
                compiles.get((files.folder, files.id), []),
                executions.get((files.folder, files.id), [])[-1:],
                reader.json(files.one("timings"), dict),
                reader.json(files.one("sources"), dict),
                next(iter(crossed.get((files.folder, files.id), [])), {}),
                options=options.parse(reader.text(files.one("options"))),
            )
        )
    return sorted(modules, key=lambda m: (-(m.milliseconds or 0), -m.files.bytes, m.files.id))


def _share_clustering(modules: list[Module], records: dict[str, list[Record]]) -> None:
    """Give each cluster its part of the time that its function's graph took."""
    spent: dict[str, float] = {}
    for record in records.get("phase", []):
        if word(record, "name") == "graph":
            spent[word(record, "function")] = spent.get(word(record, "function"), 0.0) + (amount(record, "ms") or 0.0)
    functions = {word(r, "name"): word(r, "function") for r in records.get("cluster", [])}
    counts = Counter(functions.values())
    for module in modules:
        function = functions.get(module.cluster, "")
        if module.cluster and function in spent:
            module.clustering = spent[function] / counts[function]


def _by_id(records: list[Record]) -> dict[tuple[str, int], list[Record]]:
    """Records by the folder of their trace and the number of their module."""
    found: dict[tuple[str, int], list[Record]] = {}
    for record in records:
        number = record.get("id", record.get("module_id"))
        if isinstance(number, int):
            found.setdefault((word(record, "folder"), number), []).append(record)
    return found


def frames(sources: dict[str, Any], node: str) -> list[dict[str, Any]]:
    """The user's frames of a TF node, or of a Row.origin, innermost first."""
    value = sources.get(node) or sources.get(node.partition(ORIGIN)[0])
    return [f for f in value if isinstance(f, dict)] if isinstance(value, list) else []


def place(frame: dict[str, Any]) -> str:
    """'train.py:12' of a frame."""
    file = word(frame, "file").replace("\\", "/").rpartition("/")[2]
    return f"{file}:{word(frame, 'line')}"


def where(sources: dict[str, Any], node: str) -> str:
    """The innermost user line of a node: 'train.py:12  the line's text', '' where unknown."""
    found = frames(sources, node)
    return f"{place(found[0])}  {word(found[0], 'text')}".strip() if found else ""
