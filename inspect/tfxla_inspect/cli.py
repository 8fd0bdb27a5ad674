"""The command `tfxla-inspect`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfxla_cluster import output_file
from tfxla_cluster.errors import TfxlaError, UsageError

from . import __version__, diff, pack, report

_EPILOG = """\
exit codes: 0 written; 2 wrong command line; 3 DIR is missing, empty, unreadable or no dump;
6 the report cannot be written. Files of the dump that cannot be read are listed in the report."""


_AUTOTUNE_EPILOG = """\
exit codes: 0 done; 1 a kernel of the program has no result; 2 wrong command line; 3 a FILE is missing or holds
no results, or DIR no kernels; 6 OUT cannot be written."""


_PROFILES_EPILOG = """\
exit codes: 0 done; 1 --diff found differences; 2 wrong command line; 3 a FILE is missing or no profile;
6 a file cannot be written."""


_DIFF_EPILOG = """\
exit codes: 0 they hold for the same; 1 they differ; 2 wrong command line; 3 DIR is missing or no dump, or has no such
compilation."""


_STORES_EPILOG = """\
exit codes: 0 done; 1 --verify found damaged entries; 2 wrong command line; 3 STORE is missing, unreadable or no store;
6 a file cannot be written or removed."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; its exit code. Errors are one line on stderr."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except TfxlaError as error:
        print(f"tfxla-inspect: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130


def entry() -> None:
    """The console script."""
    sys.exit(main())


def _megabytes(text: str) -> float:
    value = float(text)
    if not 0 < value <= 100_000:
        raise argparse.ArgumentTypeError(f"{text} is not more than 0 and at most 100000")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("tfxla-inspect", description="Reads dump directories of tfxla_cluster and of XLA.")
    parser.add_argument("--version", action="version", version=f"tfxla-inspect {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    one = commands.add_parser(
        "report",
        help="make one HTML file of a dump directory",
        epilog=_EPILOG,
        description="Makes one self-contained HTML file of a dump directory.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    one.add_argument("directory", metavar="DIR", type=Path, help="what --xla_dump_to named")
    one.add_argument("-o", "--output", metavar="OUT.html", type=Path, required=True, help="the file to write")
    one.add_argument(
        "--max-mb",
        metavar="N",
        type=_megabytes,
        default=pack.LIMIT / 2**20,
        help="most megabytes of embedded pages (default %(default)g); larger ones are left out, and listed",
    )
    one.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")
    one.set_defaults(run=_report)
    _add_autotune(commands)
    _add_profiles(commands)
    _add_diff(commands)
    _add_stores(commands)
    return parser


def _add_autotune(commands: Any) -> None:
    two = commands.add_parser(
        "autotune",
        help="show and merge files of autotuning results",
        epilog=_AUTOTUNE_EPILOG,
        description="Shows files of autotuning results (XLA's too), merges them, and holds them against a program.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    two.add_argument("files", metavar="FILE", nargs="+", help="a path or URL; text by suffix (.txt, .textproto, ...)")
    two.add_argument("--merge", metavar="OUT", help="write all of them into one file; of a kernel the last file's wins")
    two.add_argument("--program", metavar="DIR", type=Path, help="a program's dump: what it uses, misses, has no more")
    two.add_argument("--candidates", action="store_true", help="also each form that was measured, or why it fell out")
    two.set_defaults(run=_autotune)


def _add_profiles(commands: Any) -> None:
    three = commands.add_parser(
        "pgo",
        help="show, merge, compare and clear profiles of sizes",
        epilog=_PROFILES_EPILOG,
        description="Shows profiles of sizes (--tfxla_pgo), merges, compares and clears them.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    three.add_argument("files", metavar="FILE", nargs="+", help="a .profile.json, or a directory or store of them")
    what = three.add_mutually_exclusive_group()
    what.add_argument("--merge", metavar="OUT", help="join all of them into OUT, with what it holds")
    what.add_argument("--diff", action="store_true", help="what differs between two of them")
    what.add_argument("--sources", action="store_true", help="print the --tfxla_dynamic_sources that says the same")
    what.add_argument(
        "--clear", metavar="START", nargs="?", const="", help="forget functions whose names start so (default: all)"
    )
    three.set_defaults(run=_profiles)


def _add_diff(commands: Any) -> None:
    four = commands.add_parser(
        "diff",
        help="compare what two executables hold for",
        epilog=_DIFF_EPILOG,
        description="Compares the guard sets of two compilations: inputs (None: a size that may be any), Python "
        "values, flags.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    four.add_argument("one", metavar="DIR:ID", help="a dump and the number of a module in it: dump:3")
    four.add_argument("other", metavar="[DIR:]ID", help="another; without DIR one of the same dump")
    four.set_defaults(run=lambda arguments: diff.run(arguments.one, arguments.other, print))


def _profiles(arguments: argparse.Namespace) -> int:
    from . import profiles  # needs fsspec, which reports do without

    wanted = profiles.Wanted(arguments.merge, arguments.diff, arguments.sources, arguments.clear)
    return profiles.run(arguments.files, wanted, print)


def _add_stores(commands: Any) -> None:
    four = commands.add_parser(
        "cache",
        help="list, check, prune, pack and unpack a store of executables",
        epilog=_STORES_EPILOG,
        description="Lists, prunes and packs what a store of executables holds (--tf_xla_persistent_cache_directory).",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    four.add_argument("store", metavar="STORE", help="a directory, fsspec URL or pack (.zip)")
    what = four.add_mutually_exclusive_group()
    what.add_argument("--verify", action="store_true", help="exit 1 where an entry is damaged")
    what.add_argument("--prune", action="store_true", help="remove what is damaged, left over, or stale by version")
    what.add_argument("--pack", metavar="OUT.zip", help="write all that is whole and not stale into one file")
    what.add_argument("--unpack", metavar="FILE.zip", help="take the entries of a pack into STORE")
    four.add_argument("--older-than", metavar="DAYS", type=float, help="with --prune: also what is older")
    four.add_argument("--max-mb", metavar="N", type=_megabytes, help="with --prune: the oldest, until no more is left")
    four.add_argument("--json", action="store_true", help="the list as JSON")
    four.set_defaults(run=_stores)


def _stores(arguments: argparse.Namespace) -> int:
    from . import stores  # needs fsspec, which reports do without

    if not arguments.prune and (arguments.older_than is not None or arguments.max_mb is not None):
        raise UsageError("--older-than and --max-mb go with --prune")
    wanted = stores.Wanted(
        arguments.verify,
        arguments.prune,
        arguments.older_than,
        arguments.max_mb,
        arguments.pack,
        arguments.unpack,
        arguments.json,
    )
    return stores.run(arguments.store, wanted, print)


def _autotune(arguments: argparse.Namespace) -> int:
    from . import autotuning  # needs protobuf, which reports do without

    return autotuning.run(arguments.files, arguments.candidates, arguments.program, arguments.merge, print)


def _report(arguments: argparse.Namespace) -> int:
    started = time.monotonic()
    show = sys.stderr.isatty() and not arguments.quiet
    written = report.write(
        arguments.directory, arguments.output, int(arguments.max_mb * 2**20), _progress if show else lambda what: None
    )
    if show:
        _progress("")
    if not arguments.quiet:
        said = sys.stderr if output_file.is_stdout(arguments.output) else sys.stdout
        print(f"{arguments.output}: {written / 1e6:.1f} MB in {time.monotonic() - started:.1f} s", file=said)
    return 0


def _progress(what: str) -> None:
    print(f"\r\033[K{what}", end="", file=sys.stderr, flush=True)
