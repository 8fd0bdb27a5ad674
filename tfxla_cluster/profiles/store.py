"""Where profiles are kept: a directory, any fsspec URL or a pack, one file a job; what is wrong there costs no
program."""

from __future__ import annotations

import os
import re

import platformdirs

from .. import shared_file, trace
from ..errors import InputFileError, OutputError
from ..stored import place, rest
from .profile import Profile, from_json, to_json

SUFFIX = ".profile.json"
WHAT = "profiles"
_ODD = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST = 150  # characters of a job's name in that of its file


def local_directory() -> str:
    """Where --tfxla_pgo=local keeps them."""
    return os.path.join(platformdirs.user_cache_dir("tfxla_cluster"), "profiles")


def path(url: str, job: str) -> str:
    """The file of a job in the directory `url`, which may be one in a pack."""
    return f"{shared_file.resolve(url).rstrip('/')}/{_ODD.sub('_', job)[:_LONGEST]}{SUFFIX}"


def files(url: str) -> list[str] | None:
    """The files of profiles in a directory, a store (--tfxla_store) or a pack of one; None where `url` is a file or is
    not there. Raises what file systems raise."""
    where = place.opened(url)
    if isinstance(where, place.Folder) and not where.is_directory:
        return None
    inside = [name for name in where.names() if name.endswith(SUFFIX) and name.count("/") <= 1]
    return [f"{url.rstrip('/')}/{name}" for name in inside]


def read(file: str) -> Profile:
    """The profile in a file; InputFileError where there is none."""
    return _parsed(shared_file.read(file, WHAT, place.fetch), file)


def merge_into(file: str, profile: Profile) -> None:
    """Join the file's profile (made where it is not there) with this one; OutputError where that cannot be done."""

    def merged(held: bytes | None) -> bytes:
        before = Profile() if held is None else _parsed(held, file)
        return to_json(before | profile)

    shared_file.merge_into(file, WHAT, merged)


def _parsed(data: bytes, file: str) -> Profile:
    try:
        return from_json(data)
    except ValueError as error:
        raise InputFileError(f"{file}: not a profile: {error}") from None


class ProfileStore:
    """The profile of one job. read_only: never written."""

    def __init__(self, url: str, job: str, read_only: bool = False) -> None:
        self.file, self._read_only = path(url, job), read_only
        if not self.file.endswith(f"/{job}{SUFFIX}"):
            trace.once(
                f"job:{job}",
                f"the profile of '{job}' (TFXLA_JOB_ID) is {self.file}: its name has letters, digits, '.', '_' and '-' "
                f"alone, {_LONGEST} at most",
            )

    def load(self) -> Profile:
        """Empty, and said once, where the file cannot be read; empty where there is none."""
        try:
            if rest.rests(self.file):
                raise InputFileError(f"{self.file}: not read, as its server could not be reached")
            return read(self.file)
        except InputFileError as error:
            if not isinstance(error.__context__, FileNotFoundError):
                self._failed(error)
            return Profile()

    def join(self, profile: Profile) -> bool:
        """Merge it into the file; False, and said once, where that cannot be done."""
        if self._read_only or rest.rests(self.file, writing=True):
            return False
        try:
            merge_into(self.file, profile)
        except OutputError as error:
            self._failed(error)
            return False
        return True

    def _failed(self, error: InputFileError | OutputError) -> None:
        rest.failed(self.file, writing=isinstance(error, OutputError))
        if trace.once(f"profile:{self.file}", f"{error}; going on without it"):
            trace.record("store", event="failed", reason=str(error))
