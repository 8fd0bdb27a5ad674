"""What is private is taken out of files: home directories, user names, secrets of the environment and command lines,
the user's source lines, large constants.

Names are replaced by as many letters as they have, so that protos stay whole.
"""

from __future__ import annotations

import getpass
import json
import os
import re
from collections.abc import Iterable
from typing import Any

# Directories of users, on Linux, macOS and Windows (and its paths in JSON).
_HOMES = re.compile(
    rb"(?:/home/|/Users/|(?<=[A-Za-z]:)(?:\\\\|\\|/)Users(?:\\\\|\\|/))([^/\\\s\"'<>:,;()\[\]{}\x00-\x1f]+)"
)
_ROOT = re.compile(rb"(?<![\w.-])/root(?=[/\"'\s:,;)\]}]|$)")
# Accounts that are no person's, and directories of everybody.
_NOBODYS = frozenset((b"root", b"user", b"runner", b"ubuntu", b"admin", b"nobody", b"shared", b"public", b"x"))
_LEAST = 3  # letters of a name that is looked for elsewhere
# Variables of the environment that say how something was compiled.
_KEPT = re.compile(r"(?:TF_|TFXLA_|XLA_|JAX_|CUDA_|NVIDIA_|OMP_|KMP_|MKL_|ONEDNN_|TRITON_|PJRT_|NCCL_|TPU_)\w*|LANG")
_SECRET = re.compile(r"(?i)(token|secret|passw|passphrase|credential|api_?key|access_?key|private)")
_ASSIGNED = re.compile(r"(--?[\w.-]+|[\w.-]+)=(.*)", re.DOTALL)
_CONSTANT = re.compile(r"(\bconstant\()\{.*\}(\)(?:,|\s*$))", re.MULTILINE)
_ELEMENTS = 10
GONE = "<removed>"


def users(chunks: Iterable[bytes]) -> frozenset[bytes]:
    """The names of users that directories in the texts tell, and this process's."""
    found = {getpass.getuser().encode(), os.path.basename(os.path.expanduser("~")).encode()}
    for data in chunks:
        found.update(_HOMES.findall(data))
    return frozenset(name for name in found if len(name) >= _LEAST and name.lower() not in _NOBODYS)


def anonymous(data: bytes, names: frozenset[bytes]) -> tuple[bytes, int]:
    """The bytes with home directories and names of users replaced, and how many were: as parts of paths, of addresses
    and of NAME@HOST."""
    count = 0

    def hide(match: re.Match[bytes]) -> bytes:
        nonlocal count
        count += 1
        whole, name = match[0], match[1]
        return whole[: len(whole) - len(name)] + b"x" * len(name)

    data = _HOMES.sub(hide, data)
    data, roots = _ROOT.subn(b"/xxxx", data)
    if names:
        either = b"|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
        beside = re.compile(rb"(?<=[/\\~@])(?:" + either + rb")(?=[/\\\"'\s:,;)\]}]|$)|\b(?:" + either + rb")(?=@)")
        data, more = beside.subn(lambda m: b"x" * len(m[0]), data)
        count += more
    return data, count + roots


def record(value: Any, with_sources: bool) -> Any:
    """A record of a trace, or what lies in it, without variables of the environment that say nothing of compiling, the
    values of secrets, and (unless `with_sources`) the text of the user's lines."""
    if isinstance(value, list):
        return [record(v, with_sources) for v in value]
    if not isinstance(value, dict):
        return value
    found: dict[str, Any] = {}
    for key, inner in value.items():
        if key in ("env", "environment") and isinstance(inner, dict):
            found[key] = environment(inner)
        elif key == "argv" and isinstance(inner, list):
            found[key] = command(inner)
        elif not (key == "text" and "file" in value and not with_sources):
            found[key] = record(inner, with_sources)
    return found


def environment(variables: dict[str, Any]) -> dict[str, Any]:
    """Those that say how something was compiled, no secret."""
    return {k: v for k, v in variables.items() if _KEPT.fullmatch(k) and not _SECRET.search(k)}


def command(words: list[Any]) -> list[Any]:
    """A command line without the values of what is called a secret."""
    found: list[Any] = []
    hide_next = False
    for word in words:
        text = str(word)
        assigned = _ASSIGNED.fullmatch(text)
        if hide_next and not text.startswith("-"):
            found.append(GONE)
        elif assigned and _SECRET.search(assigned[1]):
            found.append(f"{assigned[1]}={GONE}")
        else:
            found.append(word)
        hide_next = text.startswith("-") and not assigned and bool(_SECRET.search(text))
    return found


def json_lines(data: bytes, with_sources: bool) -> bytes:
    """A trace, record by record; lines that are no JSON are left out."""
    kept = []
    for line in data.splitlines():
        try:
            kept.append(json.dumps(record(json.loads(line), with_sources)).encode())
        except (ValueError, RecursionError):
            continue
    return b"".join(line + b"\n" for line in kept)


def without_constants(hlo: str) -> str:
    """HLO text with `{...}` for literals of more than ten elements."""
    return _CONSTANT.sub(lambda m: m[1] + "{...}" + m[2] if m[0].count(",") >= _ELEMENTS else m[0], hlo)
