"""A directory with one file for each fusion (--xla_gpu_per_fusion_autotune_cache_dir), named and filled as XLA's; also
one in a pack, which is only read."""

from __future__ import annotations

import base64
import hashlib
import uuid

import fsspec
from fsspec.implementations.local import LocalFileSystem

from ...errors import OutputError
from ...shared_file import resolve, write
from ...stored import place, rest
from .messages import from_text, message, to_text
from .results import Entry, Key, fill_result, from_result


def file_name(key: Key) -> str:
    """URL-safe base64, without padding, of the SHA-256 of XLA's text of the key."""
    text = f"<key model='{key.device}', hlo='{key.hlo}', version={key.version}>"
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=") + ".textproto"


NOT_THERE = "not in the directory"


class Directory:
    """`url`: a directory or fsspec URL. `read_only`: never write."""

    def __init__(self, url: str, read_only: bool = False) -> None:
        self.url, self._read_only = url, read_only
        self._fs, self._root = fsspec.core.url_to_fs(resolve(url))

    def get(self, key: Key) -> tuple[Entry | None, str]:
        """The entry, or None and why; what is wrong with a file makes it a miss."""
        path = f"{resolve(self.url).rstrip('/')}/{file_name(key)}"
        if rest.rests(path):
            return None, f"{self.url} is not asked again yet"
        try:
            data = place.fetch(path)
        except FileNotFoundError:
            return None, NOT_THERE
        except Exception as error:  # noqa: BLE001 - fsspec backends differ
            rest.failed(path)
            return None, f"{path} cannot be read ({error})"
        result = message("xla.AutotuneResult")()
        try:
            from_text(data.decode("utf-8"), result)
            return from_result(key, result), ""
        except ValueError as error:
            return None, f"{path} is unusable: {error}"

    def holds_nothing(self) -> bool:
        """It is a folder that a pack does not have; of what cannot be read that is not known, and `get` says why."""
        try:
            return place.holds_nothing(resolve(self.url))
        except Exception:  # noqa: BLE001 - fsspec backends differ
            return False

    def put(self, entry: Entry) -> None:
        """Write it, whole; nothing where the directory is only read. OutputError where that cannot be done."""
        if self._read_only or rest.rests(self.url, writing=True):
            return
        result = message("xla.AutotuneResult")()
        fill_result(result, entry)
        name = file_name(entry.key)
        data = to_text(result).encode()
        if not isinstance(self._fs, LocalFileSystem):
            self._put_remote(name, data)
            return
        temporary = f"{self._root}/tmp/tmp_per_fusion_cache_{name.partition('.')[0]}_{uuid.uuid4().hex}.textproto"
        try:
            self._fs.makedirs(f"{self._root}/tmp", exist_ok=True)
            self._fs.pipe_file(temporary, data)
            self._fs.mv(temporary, f"{self._root}/{name}")
        except Exception as error:  # noqa: BLE001 - fsspec backends differ
            raise OutputError(f"{self.url}: the autotuning result cannot be written ({error})") from None

    def _put_remote(self, name: str, data: bytes) -> None:
        try:
            write(f"{resolve(self.url).rstrip('/')}/{name}", "the autotuning result", data)
        except OutputError:
            rest.failed(self.url, writing=True)
            raise
