"""`tfxla-inspect trace`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tfxla_cluster import output_file

from .. import chrome_trace
from ..markup import plural
from .command import Command


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", type=Path, help="what --xla_dump_to named")
    parser.add_argument("-o", "--output", metavar="OUT.json", type=Path, required=True, help="the file to write")


def _run(arguments: argparse.Namespace) -> int:
    count = chrome_trace.write(arguments.directory, arguments.output)
    said = sys.stderr if output_file.is_stdout(arguments.output) else sys.stdout
    print(f"{arguments.output}: {plural(count, 'event')}, for https://ui.perfetto.dev", file=said)
    return 0


COMMAND = Command(
    "trace",
    "what a dump's processes did over time, for Perfetto",
    "Writes the traces of a dump in Chrome's trace format: phases as spans, decisions as instants, the steps of one "
    "execution of each module that was timed.",
    "0 written; 2 wrong command line; 3 DIR is missing, empty or unreadable; 6 the file cannot be written.",
    _configure,
    _run,
)
