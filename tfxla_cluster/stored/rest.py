"""Places behind a network that could not be used are left alone for a while: each attempt may wait for seconds, and
executables, profiles and autotuning results of one store lie on one server."""

from __future__ import annotations

import time

REST_S = 60.0  # after a failure
_until: dict[tuple[str, bool], float] = {}  # by server and whether it is about writing alone


def rests(url: str, *, writing: bool = False) -> bool:
    """It is not asked again yet."""
    kinds = (False, True) if writing else (False,)
    return any(time.monotonic() < _until.get((_server(url), kind), 0.0) for kind in kinds)


def failed(url: str, *, writing: bool = False) -> None:
    """It could not be read or, `writing`, written: what may not be written can still be read. No other place than one
    behind a network rests."""
    if "://" in url:
        _until[_server(url), writing] = time.monotonic() + REST_S


def clear() -> None:
    """All are asked again."""
    _until.clear()


def _server(url: str) -> str:
    """'s3://bucket' of 's3://bucket/a/b', of whatever it is chained to."""
    before, separator, rest = url.rpartition("://")
    return f"{before.rpartition(':')[2]}{separator}{rest.partition('/')[0]}"
