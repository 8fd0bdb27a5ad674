"""`tfxla-inspect cache`."""

from __future__ import annotations

import argparse

from tfxla_cluster.errors import UsageError

from .command import Command
from .numbers import megabytes


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE", help="a directory, fsspec URL or pack (.zip)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--verify", action="store_true", help="exit 1 where an entry is damaged")
    what.add_argument("--prune", action="store_true", help="remove what is damaged, left over, or stale by version")
    what.add_argument("--pack", metavar="OUT.zip", help="write all that is whole and not stale into one file")
    what.add_argument("--unpack", metavar="FILE.zip", help="take the entries of a pack into STORE")
    parser.add_argument("--older-than", metavar="DAYS", type=float, help="with --prune: also what is older")
    parser.add_argument("--max-mb", metavar="N", type=megabytes, help="with --prune: the oldest, until no more is left")
    parser.add_argument("--json", action="store_true", help="the list as JSON")


def _run(arguments: argparse.Namespace) -> int:
    from .. import stores  # needs fsspec, which reports do without

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


COMMAND = Command(
    "cache",
    "list, check, prune, pack and unpack a store of executables",
    "Lists, prunes and packs what a store of executables holds (--tf_xla_persistent_cache_directory).",
    """0 done; 1 --verify found damaged entries; 2 wrong command line; 3 STORE is missing, unreadable or no store;
6 a file cannot be written or removed.""",
    _configure,
    _run,
)
