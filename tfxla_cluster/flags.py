"""The values of the flags (flag_table) in this process.

Values come, later over earlier, from: the defaults of the table, the environment variable TFXLA_FLAGS
(read once, at `enable` or first use), `enable(**flags)`, and `patch(**flags)` (scoped). TF_XLA_FLAGS and
XLA_FLAGS themselves stay stock XLA's.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from . import size_spec
from .errors import FlagError, UsageError
from .flag_table import FLAGS, INT32_MAX, Flag

ENV = "TFXLA_FLAGS"
_TRUE, _FALSE = ("true", "t", "1", "yes"), ("false", "f", "0", "no")


def parse(text: str, source: str = ENV) -> dict[str, Any]:
    """Flags of one string such as `--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit`.

    `--flag`, `--flag=value`, `--noflag` for booleans. Raises FlagError for an unknown flag (naming the
    nearest) or a bad value.
    """
    return _typed(_words(text, source), source)


def _words(text: str, source: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise FlagError(f"{source}: {error}", "Close the quotation") from None


def _typed(words: list[str], source: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for word in words:
        if not word.startswith("--"):
            raise FlagError(f"{source}: expected a flag that starts with '--', got '{word}'")
        name, equals, value = word[2:].partition("=")
        if name not in FLAGS and not equals and name.startswith("no") and name[2:] in FLAGS:
            name, equals, value = name[2:], "=", "false"
        found[name] = convert(name, value if equals else None, source)
    return found


def divide(text: str, source: str) -> tuple[str, str]:
    """(flags of one of XLA's variables that are ours, the others). FlagError for a bad value, and for a name so near
    one of ours that it must be misspelt."""
    ours: list[str] = []
    theirs: list[str] = []
    for word in _words(text, source):
        name = word.removeprefix("--").partition("=")[0]
        known = name in FLAGS or name.removeprefix("no") in FLAGS
        if known or difflib.get_close_matches(name, FLAGS, n=1, cutoff=0.95):
            _typed([word], source)
        (ours if known else theirs).append(word)
    return shlex.join(ours), shlex.join(theirs)


def convert(name: str, value: Any, source: str = "") -> Any:
    """`value` (text, or already typed; None: given with no value) as the flag's type; FlagError otherwise."""
    flag = FLAGS.get(name)
    prefix = f"{source}: " if source else ""
    if flag is None:
        raise FlagError(f"{prefix}unknown flag --{name}", _about_unknown(name))
    if value is None and flag.kind != "bool":
        raise FlagError(f"{prefix}--{name} needs a value", _about_missing(flag))
    try:
        return _CONVERT[flag.kind](flag, True if value is None else value)
    except ValueError:
        wanted = {"bool": "true or false", "int": _range(flag), "level": _LEVELS, "regex": "a regular expression"}
        raise FlagError(f"{prefix}--{name} wants {_choices(flag) or wanted[flag.kind]}, got '{value}'") from None


def _choices(flag: Flag) -> str:
    return " or ".join(choice or "''" for choice in flag.choices)


def _about_missing(flag: Flag) -> str:
    if flag.choices:
        return f"Give {_choices(flag)}"
    example = _EXAMPLES.get(flag.kind, flag.default)
    return f"Give it text, or '': {flag.help}" if example == "" else f"Write --{flag.name}={example}"


def _about_unknown(name: str) -> str:
    near = difflib.get_close_matches(name, FLAGS, n=1, cutoff=_NEAR)
    known = "`tfxla-run --help-flags` lists all"
    if near:
        return f"Did you mean --{near[0]}? {known}"
    variable = "TF_XLA_FLAGS" if name.startswith("tf_xla_") else "XLA_FLAGS"
    if name.startswith(("tf_xla_", "xla_")):
        return f"If it is one of XLA's, this package does not know it: give it in {variable} for stock XLA; {known}"
    return known


_NEAR = 0.85  # of difflib's ratio: from here on a name is a misspelling


def _to_bool(flag: Flag, value: Any) -> bool:
    word = str(value).lower()
    if word not in _TRUE + _FALSE:
        raise ValueError(value)
    return word in _TRUE


def _to_enum(flag: Flag, value: Any) -> str:
    if value not in flag.choices:
        raise ValueError(value)
    return str(value)


def _to_int(flag: Flag, value: Any) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+", str(value)):  # int() also takes 4_0 and digits of other scripts
        raise ValueError(value)
    if not flag.least <= int(value) <= flag.most:
        raise ValueError(value)
    return int(value)


def check_names(flag: str, exists: Callable[[str], bool], names: Iterable[str]) -> None:
    """FlagError where the flag's value, names by comma, has one that does not exist: the nearest of `names` is told."""
    for name in filter(None, (word.strip() for word in str(get(flag)).split(","))):
        if not exists(name):
            near = difflib.get_close_matches(name, list(names), n=1, cutoff=0.6)
            raise FlagError(f"--{flag}: there is no '{name}'", f"Did you mean {near[0]}?" if near else "")


def _range(flag: Flag) -> str:
    return f"an integer from {flag.least}" + (f" to {flag.most}" if flag.most < INT32_MAX else "")


_LEVELS = "-1, 0, 1, 2, fusible or single-gpu(N)"
_LEVEL = re.compile(r"-1|0|1|2|fusible|single-gpu\((-1|0|1|2)\)|")
_EXAMPLES = {"level": "2"}


def _to_level(flag: Flag, value: Any) -> str:
    if not _LEVEL.fullmatch(str(value)):
        raise ValueError(value)
    return str(value)


def _to_regex(flag: Flag, value: Any) -> str:
    try:
        re.compile(str(value))
    except re.error:
        raise ValueError(value) from None
    return str(value)


def _to_sizes(flag: Flag, value: Any) -> str:
    try:
        entries = size_spec.parse(str(value))
    except UsageError as error:
        raise FlagError(f"--{flag.name}: {error.message}", error.remedy) from None
    if flag.kind == "sources" and any(str(entry.size) for entry in entries):
        raise FlagError(f"--{flag.name}: '{value}' says what a size is", "Name inputs and dimensions alone")
    return str(value)


_CONVERT = {
    "sizes": _to_sizes,
    "sources": _to_sizes,
    "regex": _to_regex,
    "bool": _to_bool,
    "int": _to_int,
    "level": _to_level,
    "str": lambda flag, value: str(value),
    "enum": _to_enum,
}

_base: dict[str, Any] = {name: flag.default for name, flag in FLAGS.items()}
_told: set[str] = set()
_environment_read = False
_lock = threading.RLock()


def read_environment() -> None:
    """Take TFXLA_FLAGS into the process's values, once; FlagError if it is malformed."""
    global _environment_read
    with _lock:
        if not _environment_read:
            _environment_read = True
            set_values(parse(os.environ.get(ENV, "")))


def set_values(changes: Mapping[str, Any]) -> None:
    """Set flags process-wide; values are converted and checked first, so all are set or none."""
    typed = {name: convert(name, value) for name, value in changes.items()}
    with _lock:
        _base.update(typed)
    for name, value in typed.items():
        if FLAGS[name].no_effect and value != FLAGS[name].default and name not in _told:
            _told.add(name)
            print(f"tfxla_cluster: --{name} has no effect: {FLAGS[name].no_effect}", file=sys.stderr)  # noqa: T201


def reset_values() -> None:
    """Back to the defaults; TFXLA_FLAGS is read again at the next use."""
    global _environment_read
    with _lock:
        _base.update({name: flag.default for name, flag in FLAGS.items()})
        _environment_read = False


def get(name: str) -> Any:
    """The flag's value now; KeyError for a name that is not in the registry."""
    if not _environment_read:
        read_environment()
    return _base[name]


def values() -> dict[str, Any]:
    """All flags as they are now."""
    read_environment()
    return dict(_base)


def non_default() -> dict[str, Any]:
    """The flags whose value is not the default, for dumps."""
    return {name: value for name, value in values().items() if value != FLAGS[name].default}


@contextmanager
def patch(**changes: Any) -> Iterator[None]:
    """Change flags for the length of a `with` block or a decorated call; FlagError as `convert`.

    Process-wide, since compilation runs on TensorFlow's threads too: two overlapping patches of one
    flag in two threads see each other.
    """
    read_environment()
    before = {name: _base.get(name) for name in changes}
    set_values(changes)
    try:
        yield
    finally:
        set_values(before)


def help_text() -> str:
    """All flags, a paragraph each, for `tfxla-run --help-flags`."""
    lines = []
    for flag in FLAGS.values():
        kind = "|".join(choice or "''" for choice in flag.choices) or flag.kind
        note = f" No effect here: {flag.no_effect}." if flag.no_effect else ""
        lines.append(f"--{flag.name}=<{kind}>  (default: {flag.default!r})\n      {flag.help}{note}")
    return "\n".join(lines)
