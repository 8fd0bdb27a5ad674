"""What all command-line tools share: one-line errors, exit codes, quiet end of a closed pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from ..errors import TfxlaError

EXIT_CODES = """exit codes:
  0 done; 1 failed; 2 wrong usage or flag; 3 missing, unreadable or corrupt input; 4 invalid module;
  5 not supported; 6 output could not be written; 7 wrong version of a library; 70 a bug of this package"""


def run(program: str, main: Callable[[Sequence[str]], int], argv: Sequence[str] | None = None) -> int:
    """Call `main(argv)`; a TfxlaError becomes one line on stderr and its exit code."""
    try:
        return main(sys.argv[1:] if argv is None else argv)
    except TfxlaError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
