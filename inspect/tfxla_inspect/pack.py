"""One HTML file: the start page as it stands, every other page's data as gzip in base64, opened on demand."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import math
from dataclasses import dataclass, field
from html import escape
from importlib import resources
from typing import Any

# Above this a browser needs seconds before the page reacts (measured: 50 MB 0.12 s, 300 MB 2.8 s).
LIMIT = 50 * 1024 * 1024
_SCRIPTS = (
    "base.js",
    "table.js",
    "text.js",
    "layered.js",
    "scopes.js",
    "colours.js",
    "picture.js",
    "graph_panel.js",
    "graph.js",
    "beside.js",
    "kernels.js",
    "search.js",
    "app.js",
)
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{hash}'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)


@dataclass(slots=True)
class Packer:
    """Collects blocks in order of importance; one that would pass `limit` is left out and said so."""

    limit: int = LIMIT
    used: int = 0
    blocks: list[str] = field(default_factory=list)
    left_out: list[tuple[str, int]] = field(default_factory=list)

    def text(self, content: str, what: str) -> str:
        """Add a block; its key, or '' where it was left out (`what` names it then)."""
        data = base64.b64encode(gzip.compress(content.encode("utf-8", "replace"), 6, mtime=0)).decode()
        if self.used + len(data) > self.limit:
            self.left_out.append((what, len(data)))
            return ""
        self.used += len(data)
        key = f"b{len(self.blocks)}"
        self.blocks.append(f'<script type="text/plain" id="{key}">{data}</script>')
        return key

    def json(self, value: Any, what: str) -> str:
        """Add data for the scripts."""
        return self.text(dumps(value), what)


def dumps(value: Any) -> str:
    """JSON that browsers read: a number that is none (NaN, inf) is text."""
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, (list, tuple)) else value


def document(title: str, start: str, packer: Packer, site: str) -> str:
    """The whole file. `start` is HTML made by `markup`; `site` the key of the block that lists the pages."""
    script = "\n".join(asset(name) for name in _SCRIPTS)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return "\n".join(
        (
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY.format(hash=digest)}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="referrer" content="no-referrer">',
            f"<title>{escape(title)}</title>",
            f"<style>{asset('report.css')}</style></head>",
            f'<body data-site="{escape(site)}">',
            '<a class="skip" href="#start">Skip to content</a>',
            f'<nav id="nav" aria-label="Pages"><a class="home" href="#start">{escape(title)}</a>'
            '<input id="filter" type="search" placeholder="Search all pages" aria-label="Search all pages">'
            '<div id="found"></div><div id="pages"></div><p class="hint">Keys: <kbd>s</kbd> search all,'
            " <kbd>/</kbd> this page, <kbd>[</kbd> <kbd>]</kbd> tabs, <kbd>h</kbd> start</p></nav>",
            f'<main id="start" tabindex="-1">{start}</main>',
            '<main id="page" tabindex="-1" hidden></main>',
            *packer.blocks,
            f"<script>{script}</script>",
            "</body></html>",
            "",
        )
    )


def asset(name: str) -> str:
    """A file of tfxla_inspect/assets. The script block must hold no '</script', which a test checks."""
    return resources.files("tfxla_inspect").joinpath("assets", name).read_text("utf-8")
