"""Where dump files go: a directory, stdout, or nowhere, as the options say.

A `Sink` holds no state that a fork or a second thread could spoil: files are written whole and
renamed, module numbers come from a locked counter in the directory.
"""

from __future__ import annotations

import gzip
import itertools
import os
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Union

from ..errors import FlagError
from ..options import NO_DUMP, DumpOptions
from . import files

Text = Union[str, Callable[[], str]]
Data = Union[bytes, Callable[[], bytes]]
STDOUT = "-"
_GRAPHS_ENV = "TF_DUMP_GRAPH_PREFIX"
_written_modules: dict[str, itertools.count[int]] = {}


@dataclass(frozen=True, slots=True)
class Sink:
    """Drops everything where the options name no directory."""

    options: DumpOptions = NO_DUMP

    @property
    def directory(self) -> str:
        """The dump directory, `STDOUT`, or '' for none."""
        return self.options.directory

    def __bool__(self) -> bool:
        return bool(self.directory)

    @property
    def path(self) -> Path | None:
        """The directory, where there is one."""
        return Path(self.directory) if self.directory not in ("", STDOUT) else None

    def module(self, name: str) -> ModuleDump:
        """A numbered family of files for the module called `name`; a silent one where it is not wanted."""
        wanted = bool(self) and _matches("xla_dump_hlo_module_re", self.options.module_re, name) and self._below_limit()
        if not wanted:
            return ModuleDump(Sink(), -1, name)
        number = files.next_module_id(self.path) if self.path else next(_counter(self.directory))
        return ModuleDump(self, number, name)

    def _below_limit(self) -> bool:
        limit = self.options.max_modules
        return limit < 0 or next(_counter(f"limit:{os.getpid()}:{self.directory}")) < limit

    def text(self, name: str, content: Text) -> None:
        """Write one file that belongs to no module (`manifest.json`, ...)."""
        if self:
            data = (content() if callable(content) else content).encode("utf-8", "replace")
            self.write(files.cut("", files.sanitise(name), ""), data)

    def graph(self, stem: str, content: Text) -> Path | None:
        """Write a clustering graph `stem.pbtxt` (`stem_1.pbtxt`, ...) to TF_DUMP_GRAPH_PREFIX, or else to
        the dump directory; the path, or None where neither is set or writing failed."""
        prefix = os.environ.get(_GRAPHS_ENV, "")
        directory = prefix if prefix not in ("", STDOUT) else self.directory
        if not directory:
            return None
        data = (content() if callable(content) else content).encode("utf-8", "replace")
        if directory == STDOUT:
            _print(stem + ".pbtxt", data)
            return None
        return files.write_numbered(Path(directory), stem, ".pbtxt", data)

    def rewritten(self, after: str, before: str, content: Text) -> None:
        """Write the graph between two rewrites, `graph_rewrites.after_A.before_B.pbtxt`, where `after` matches
        graph_rewrite_re of the options ('' none). Sentinels as ModuleDump.pass_dump has them."""
        pattern = self.options.graph_rewrite_re
        if pattern and _matches("tfxla_dump_graph_rewrite_re", pattern, after):
            self.graph(f"graph_rewrites.after_{after}.before_{before}", content)

    def write(self, name: str, data: bytes) -> bool:
        """Write a file, or print text between XLA's markers; False when nothing was written."""
        if self.directory == STDOUT:
            return _print(name, data)
        return bool(self.directory) and files.write(Path(self.directory) / name, data)


@dataclass(slots=True)
class ModuleDump:
    """The files `[usec.]module_NNNN.NAME.SUFFIX` of one module. `id` is NNNN (-1: dumped nowhere)."""

    sink: Sink
    id: int
    name: str
    _steps: itertools.count[int] = field(default_factory=itertools.count)

    def __bool__(self) -> bool:
        return bool(self.sink)

    @property
    def number(self) -> int | None:
        """`id` for a record; None where there are no files."""
        return self.id if self else None

    @property
    def options(self) -> DumpOptions:
        return self.sink.options

    def text(self, suffix: str, content: Text) -> None:
        """Write text; a callable is only called when the file is wanted."""
        if self.sink:
            data = (content() if callable(content) else content).encode("utf-8", "replace")
            self.sink.write(self.file_name(suffix), data)

    def bytes(self, suffix: str, data: Data) -> None:
        """Write binary data (to a directory only: stdout takes text)."""
        if self.sink.path is None:
            return
        content = data() if callable(data) else data
        if suffix.endswith(".pb") and self.options.compress_protos:
            suffix, content = suffix + ".gz", gzip.compress(content, mtime=0)
        self.sink.write(self.file_name(suffix), content)

    def hlo(self, suffix: str, text: Text, proto: Data | None = None) -> None:
        """`SUFFIX.txt` and `SUFFIX.hlo.pb`, each where the options ask for it."""
        if self.options.text:
            self.text(suffix + ".txt", text)
        if proto is not None and self.options.proto:
            self.bytes(suffix + ".hlo.pb", proto)

    def pass_dump(self, pipeline: str, after: str, before: str, text: Text) -> None:
        """The module between two passes: `NNNN.PIPELINE.after_A.before_B.txt`.

        Sentinels 'pipeline-start' and 'pipeline-end' stand for no pass. Written where `after` matches
        pass_re of the options and `pipeline` pipeline_re; NNNN counts what is written.
        """
        if self.wants_passes(pipeline, after):
            self.text(f"{next(self._steps):04d}.{pipeline}.after_{after}.before_{before}.txt", text)

    def wants_passes(self, pipeline: str = "", after: str = "") -> bool:
        """Whether `pass_dump` would write."""
        options = self.options
        if not self.sink or not options.pass_re:
            return False
        return _matches("xla_dump_hlo_pass_re", options.pass_re, after) and _matches(
            "xla_dump_hlo_pipeline_re", options.pipeline_re, pipeline
        )

    def file_name(self, suffix: str) -> str:
        """The name in the directory, at most 255 bytes (NAME is cut, the suffix never)."""
        stamp = f"{time.time_ns() // 1000}." if self.options.timestamp else ""
        name = files.sanitise(self.name)
        tail = "." + files.sanitise(suffix)
        return files.cut(f"{stamp}module_{self.id:04d}" + ("." if name else ""), name, tail)


# Where nothing is to be dumped.
NOWHERE = ModuleDump(Sink(), -1, "")


def _matches(flag: str, pattern: str, text: str) -> bool:
    """RE2 partial match, as XLA's; a pattern that does not compile is a FlagError when first used."""
    try:
        return re.search(pattern, text) is not None
    except re.error as error:
        raise FlagError(f"--{flag}: '{pattern}' is not a regular expression: {error}") from None


def _counter(key: str) -> itertools.count[int]:
    return _written_modules.setdefault(key, itertools.count())


def _print(name: str, data: bytes) -> bool:
    text = data.decode("utf-8", "replace")
    end = "" if text.endswith("\n") else "\n"
    sys.stdout.write(f"*** Begin {name} ***\n{text}{end}*** End {name} ***\n")
    sys.stdout.flush()
    return True
