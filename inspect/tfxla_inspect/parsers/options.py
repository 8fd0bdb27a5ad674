"""Options that differ from their defaults, as XLA dumps them (`debug_options`): `field: value` a line."""

from __future__ import annotations

import re

_LINE = re.compile(r"([a-z]\w*): (.*)$")
# That only say where the dump lies.
_OF_THE_DUMP = re.compile(r"xla_dump_|xla_enable_dumping")


def parse(text: str) -> dict[str, str]:
    """Option -> value, as a flag would have it, several values of one with commas; without those of the dump itself."""
    found: dict[str, str] = {}
    for line in text.split("\n"):
        match = _LINE.match(line)
        if match is None or _OF_THE_DUMP.match(match[1]):
            continue
        value = match[2].strip().strip('"')
        found[match[1]] = f"{found[match[1]]},{value}" if match[1] in found else value
    return found


def shown(options: dict[str, str]) -> str:
    """As a person would write them: `--xla_cpu_use_onednn=false ...`."""
    return " ".join(f"--{name}={value}" for name, value in options.items())
