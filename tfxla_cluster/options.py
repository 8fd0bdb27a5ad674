"""What a compilation and a dump are asked to do: frozen values, made from the flags once, at the edge
(`flag_options`). Nothing that works by them reads a flag."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

# Folders of a store (--tfxla_store) beside its executables.
PROFILES_FOLDER, TUNING_FOLDER = "profiles", "tuning"
PACK = ".zip"
"""How the name of a store ends that is one file, which is only read."""
ALL_EXECUTIONS = 1 << 62
"""Of an executable, to be timed."""
_NO_CODE = {"code": False}  # of a field that cannot change what a compilation gives


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """An executable store: `url` a directory or fsspec URL, `prefix` begins its file names, `read_only`: never
    write."""

    url: str
    prefix: str = "tfxla"
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """How a module is compiled.

    passes: whether HLO passes run at all; passes_off: names of those that do not. fusion: whether instructions share
    kernels. threads: of the kernel pool (0: as many as this process may use); the first compilation of a process
    sets it. compile_threads: that generate code (0: as `host.compile_threads` says). timed_executions: the first of an
    executable, whose steps are timed. least_graph: steps from which a plan is launched as a CUDA graph, 0 none. store:
    where machine code is kept between processes, None nowhere. any_order: as Target has it.
    """

    passes: bool = True
    passes_off: frozenset[str] = frozenset()
    fusion: bool = True
    threads: int = 0
    compile_threads: int = field(default=0, metadata=_NO_CODE)
    timed_executions: int = field(default=0, metadata=_NO_CODE)
    least_graph: int = 2
    store: StoreOptions | None = field(default=None, metadata=_NO_CODE)
    any_order: bool = True

    def key(self) -> tuple[tuple[str, Any], ...]:
        """(name, value) of the fields that can change what a compilation gives, the same text in every process."""
        values = ((f.name, getattr(self, f.name)) for f in fields(self) if f.metadata.get("code", True))
        return tuple((name, tuple(sorted(v)) if isinstance(v, frozenset) else v) for name, v in values)


@dataclass(frozen=True, slots=True)
class TuningOptions:
    """How kernels are tuned and where results are kept.

    use: whether results are used at all; tune: whether a kernel without one is tuned while it is compiled. load, dump:
    files of results ('' none); directory: with a file a fusion, only read where `directory_read_only`. require: a
    kernel without a result is an error. budget_s: seconds that a process may spend on tuning (0: any). workers:
    candidates compiled at once (0: as `host.compile_threads` says). progress: a line on a terminal.
    """

    use: bool = False
    tune: bool = False
    load: str = ""
    dump: str = ""
    directory: str = ""
    directory_read_only: bool = False
    require: bool = False
    budget_s: float = 0.0
    workers: int = 0
    progress: bool = True


@dataclass(frozen=True, slots=True)
class ProfileOptions:
    """The profile of sizes of one `job`, in the directory or at the fsspec URL `url`; '' the user's own directory."""

    job: str
    url: str = ""
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class RankOptions:
    """Workers of a distribution strategy compile together; each waits so many seconds for the others."""

    timeout_s: int


# A module as it is compiled where no flag says otherwise.
DEFAULT = CompileOptions()


@dataclass(frozen=True, slots=True)
class DumpOptions:
    """What is dumped, and where.

    directory: '' nowhere, '-' to standard output. module_re, pass_re, pipeline_re: what names must match somewhere
    (pass_re '': no pass). max_modules: of this process, -1 all. large_constants: literals of more than 10 elements
    in full. gpu_target: kernels for this GPU too, '' for none. graph_rewrite_re: the graph after the rewrites whose
    name matches ('' none).
    """

    directory: str = ""
    text: bool = True
    proto: bool = True
    compress_protos: bool = False
    module_re: str = ".*"
    pass_re: str = ""
    pipeline_re: str = ".*"
    max_modules: int = -1
    timestamp: bool = False
    metadata: bool = True
    large_constants: bool = True
    gpu_target: str = ""
    graph_rewrite_re: str = ""


# Nothing is dumped.
NO_DUMP = DumpOptions()
