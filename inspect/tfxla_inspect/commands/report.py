"""`tfxla-inspect report`."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tfxla_cluster import output_file

from .. import pack, report
from .command import Command, progress
from .numbers import megabytes


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "directory",
        metavar="DIR",
        type=Path,
        help="what --xla_dump_to named, ours or XLA's; an archive of it (zip, tar), or a log with dumped files in it",
    )
    parser.add_argument("-o", "--output", metavar="OUT.html", type=Path, required=True, help="the file to write")
    parser.add_argument(
        "--max-mb",
        metavar="N",
        type=megabytes,
        default=pack.LIMIT / 2**20,
        help="most megabytes of embedded pages (default %(default)g); larger ones are left out, and listed",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")


def _run(arguments: argparse.Namespace) -> int:
    started = time.monotonic()
    show = sys.stderr.isatty() and not arguments.quiet
    written = report.write(
        arguments.directory, arguments.output, int(arguments.max_mb * 2**20), progress if show else lambda what: None
    )
    if show:
        progress("")
    if not arguments.quiet:
        said = sys.stderr if output_file.is_stdout(arguments.output) else sys.stdout
        print(f"{arguments.output}: {written / 1e6:.1f} MB in {time.monotonic() - started:.1f} s", file=said)
    return 0


COMMAND = Command(
    "report",
    "make one HTML file of a dump directory",
    "Makes one self-contained HTML file of a dump directory of tfxla_cluster or of XLA.",
    """0 written; 2 wrong command line; 3 DIR is missing, empty, unreadable or no dump;
6 the report cannot be written. Files of the dump that cannot be read are listed in the report.""",
    _configure,
    _run,
)
