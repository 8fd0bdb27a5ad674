"""What Triton makes of kernels, kept: in memory, and in the store between processes.

A kernel is known by its text, whatever it is called: equal fusions of two modules are compiled once. Its cubin's
function has the name of the one that came first.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from .. import trace
from ..codegen.triton import artefacts
from ..codegen.triton.triton_source import Artefacts, TritonSource
from ..codegen.triton.workers import compile_sources
from ..ir.guard import fact_text, facts
from ..options import CompileOptions
from ..runtime.cache import Cache, Key
from ..runtime.cpu import host
from ..runtime.store import Store, opened
from ..target import Target

KIND = "cubin"
CAPACITY = 512  # kernels in memory, some 200 KB each with their texts
_memory: Cache[Artefacts] = Cache(CAPACITY)
_SCALARS = tuple(f.name for f in fields(Artefacts) if f.name not in ("texts", "cubin"))


def compiled(sources: Sequence[TritonSource], target: Target, options: CompileOptions) -> list[Artefacts]:
    """What Triton makes of each source; errors as those of `workers.compile_sources`."""
    store = opened(options.store)
    keys = [key(source, target) for source in sources]
    found: dict[Key, Artefacts] = {}
    missing: dict[Key, TritonSource] = {}
    for one, source in zip(keys, sources):
        if one not in found and one not in missing:
            kept = _memory.get(one) or _from_store(store, one)
            if kept is None:
                missing[one] = source
            else:
                found[one] = _memory.put(one, kept)
    made = compile_sources(list(missing.values()), target, host.compile_threads(options.compile_threads))
    for one, new in zip(missing, made):
        found[one] = _memory.put(one, new)
        if store is not None:
            store.put(one, KIND, to_sections(new))
    return [found[one] for one in keys]


def key(source: TritonSource, target: Target) -> Key:
    """All that can change the cubin but for its function's name."""
    plain = replace(source, function="kernel", text=re.sub(rf"\b{source.function}\b", "kernel", source.text))
    return facts(
        {
            "kernel": hashlib.sha256(repr(plain).encode()).hexdigest(),
            "target": target.arch,
            "compiler": hashlib.sha256(Path(artefacts.__file__).read_bytes()).hexdigest()[:16],
            "triton": _triton(),
        }
    )


def _triton() -> str:
    try:
        return version("triton")
    except PackageNotFoundError:
        return ""  # what the store has was made by one; nothing in it has this key


def _from_store(store: Store | None, one: Key) -> Artefacts | None:
    if store is None:
        return None
    lookup = store.get(one, KIND)
    reason = lookup.reason
    if lookup.sections is not None:
        try:
            kept = from_sections(lookup.sections)
        except (KeyError, ValueError, TypeError) as error:
            reason = f"the entry does not hold a kernel of this version ({error})"
        else:
            _record(True, one, "")
            return kept
    _record(False, one, reason)
    return None


def _record(hit: bool, one: Key, reason: str) -> None:
    if trace.wants("cache"):
        trace.record("cache", cache=KIND, hit=hit, key="; ".join(map(fact_text, one)), reason=reason)


def to_sections(made: Artefacts) -> dict[str, bytes]:
    """As sections of a store's entry."""
    launch = {name: getattr(made, name) for name in _SCALARS}
    return {
        "launch.json": json.dumps(launch).encode(),
        "texts.json": json.dumps(dict(made.texts)).encode(),
        KIND: made.cubin,
    }


def from_sections(sections: Mapping[str, bytes]) -> Artefacts:
    """What `to_sections` was given; KeyError, ValueError, TypeError for other contents."""
    launch, texts = json.loads(sections["launch.json"]), json.loads(sections["texts.json"])
    return Artefacts(texts=texts, cubin=sections[KIND], **launch)
