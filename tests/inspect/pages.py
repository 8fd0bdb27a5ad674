"""What a report embeds, read back."""

from __future__ import annotations

import base64
import gzip
import json
import re
from typing import Any

BLOCK = re.compile(r'<script type="text/plain" id="(b\d+)">([A-Za-z0-9+/=]*)</script>')


def blocks(page: str) -> dict[str, str]:
    return {key: gzip.decompress(base64.b64decode(data)).decode() for key, data in BLOCK.findall(page)}


def site(page: str) -> dict[str, dict[str, Any]]:
    key = re.search(r'data-site="(b\d+)"', page)[1]
    return {entry["id"]: entry for entry in json.loads(blocks(page)[key])}


def tab(page: str, where: str, name: str) -> str:
    return blocks(page)[next(t["b"] for t in site(page)[where]["tabs"] if t["id"] == name)]


def start(page: str) -> str:
    return page[page.index('<main id="start"') : page.index('<main id="page"')]
