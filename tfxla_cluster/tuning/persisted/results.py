"""Results of tuning: device, fusion and version -> what is fastest, and what else was measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...codegen.kernel import library_convolution, library_product
from ...codegen.kernel.choice import Choice
from .messages import CHOICE_URL, message, to_text

FILE_VERSION = 3  # of XLA's message, which XLA insists on
VERSION = 3  # of our lowerings and what their knobs mean: results of another version are not used
NAME = "tfxla"  # in BackendConfigKey.name
_NANO = 10**9
_FOREIGN = ("conv", "gemm", "triton", "cuda_conv_plan", "custom_kernel_fusion", "algorithm", "other", "failure")


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """`device`: as `devices.device_text`. `hlo`: what is computed, canonical (`fingerprint.canonical`). `version`: of
    who lowered it, VERSION for us."""

    device: str
    hlo: str
    version: int = VERSION


@dataclass(frozen=True, slots=True)
class Measured:
    """One configuration: seconds of the whole fusion, or the kind of failure (one of XLA's FailureKind) and why."""

    choice: Choice
    seconds: float | None = None
    failure: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """A result. `choice`: None where another program made it (XLA). `measured`: every configuration once, sorted.
    `raw`: the Entry message it was read from, with what this version does not know; b'' for none."""

    key: Key
    choice: Choice | None = None
    seconds: float | None = None
    measured: tuple[Measured, ...] = ()
    made_by: str = ""
    raw: bytes = b""

    def __post_init__(self) -> None:
        ordered = tuple(sorted(self.measured, key=lambda m: tuple(m.choice.items())))
        object.__setattr__(self, "measured", ordered)

    def merged(self, other: Entry) -> Entry:
        """`other`, with the configurations that only this one has measured."""
        both = {m.choice: m for m in (*self.measured, *other.measured)}
        return replace(other, measured=tuple(both.values()))


@dataclass(frozen=True, slots=True)
class Results(Mapping[Key, Entry]):
    """Entries by key. `problems`: what in the file could not be used, a sentence each. `rest`: the AutotuneResults
    message without entries, for what of it this version does not know."""

    entries: Mapping[Key, Entry] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    rest: bytes = b""

    def __getitem__(self, key: Key) -> Entry:
        return self.entries[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __or__(self, other: Results) -> Results:
        """Both; of a key that both have `other` wins, keeping all timings."""
        merged = dict(self.entries)
        for key, entry in other.entries.items():
            merged[key] = merged[key].merged(entry) if key in merged else entry
        return Results(merged, (*self.problems, *other.problems), other.rest or self.rest)


def of(entries: Iterable[Entry]) -> Results:
    """Results of entries; a later one of the same key wins."""
    results = Results()
    for entry in entries:
        results |= Results({entry.key: entry})
    return results


# --- messages ---
def to_message(results: Results) -> Any:
    """xla.AutotuneResults, sorted by key."""
    proto = message("xla.AutotuneResults").FromString(results.rest)
    proto.version = FILE_VERSION
    for key in sorted(results.entries):
        proto.results.append(entry_message(results.entries[key]))
    return proto


def from_message(proto: Any) -> Results:
    """ValueError for a version of the file that is not FILE_VERSION."""
    if proto.version != FILE_VERSION:
        raise ValueError(f"its version is {proto.version}, this package reads {FILE_VERSION}")
    entries: dict[Key, Entry] = {}
    problems: list[str] = []
    for number, item in enumerate(proto.results):
        key = Key(item.device, item.hlo, item.version)
        if not item.device or not item.hlo:
            problems.append(f"entry {number} has no device or no hlo")
        elif key in entries:
            problems.append(f"entry {number} has the key of an earlier one: {short(key)}")
        else:
            try:
                entries[key] = from_entry(item)
            except ValueError as error:
                problems.append(f"entry {number} ({short(key)}): {error}")
    rest = type(proto).FromString(proto.SerializeToString())
    rest.ClearField("results")
    return Results(entries, tuple(problems), rest.SerializeToString(deterministic=True))


def entry_message(entry: Entry) -> Any:
    """xla.AutotuneResults.Entry; one of another program's goes back as it came."""
    proto = message("xla.AutotuneResults.Entry").FromString(entry.raw)
    proto.device, proto.hlo, proto.version = entry.key.device, entry.key.hlo, entry.key.version
    if entry.choice is not None:
        fill_result(proto.result, entry)
    return proto


def fill_result(proto: Any, entry: Entry) -> None:
    """Writes choice and times of `entry` into an xla.AutotuneResult."""
    assert entry.choice is not None
    ours = message("tfxla_cluster.Choice")(made_by=entry.made_by, knobs=_knobs(entry.choice))
    for measured in entry.measured:
        row = ours.candidates.add(knobs=_knobs(measured.choice))
        if measured.seconds is not None:
            _set_duration(row.run_time, measured.seconds)
        if measured.failure:
            row.failure.kind, row.failure.message = measured.failure, measured.message
    if entry.seconds is not None:
        _set_duration(proto.run_time, entry.seconds)
    proto.other.name = NAME
    proto.other.config.type_url = CHOICE_URL
    proto.other.config.value = ours.SerializeToString(deterministic=True)


def from_entry(item: Any) -> Entry:
    """ValueError where our part of it does not parse."""
    key = Key(item.device, item.hlo, item.version)
    return from_result(key, item.result, item.SerializeToString(deterministic=True))


def from_result(key: Key, result: Any, raw: bytes = b"") -> Entry:
    """The entry of an xla.AutotuneResult; ValueError where our part of it does not parse."""
    seconds = _duration(result.run_time) if result.HasField("run_time") else None
    if not result.HasField("other") or result.other.name != NAME:
        return Entry(key, None, seconds, raw=raw)
    if result.other.config.type_url != CHOICE_URL:
        raise ValueError(f"its configuration is a '{result.other.config.type_url}'")
    try:
        ours = message("tfxla_cluster.Choice").FromString(result.other.config.value)
    except Exception as error:  # noqa: BLE001 - protobuf's DecodeError is another class in each of its forms
        raise ValueError(f"its configuration does not parse ({error})") from None
    measured = tuple(_measured(row) for row in ours.candidates)
    return Entry(key, _choice(ours.knobs), seconds, measured, ours.made_by, raw)


def _measured(row: Any) -> Measured:
    seconds = _duration(row.run_time) if row.HasField("run_time") else None
    return Measured(_choice(row.knobs), seconds, row.failure.kind, row.failure.message)


def _knobs(choice: Choice) -> list[Any]:
    knob = message("tfxla_cluster.Knob")
    return [knob(name=name, value=value) for name, value in choice.items()]


def _choice(knobs: Iterable[Any]) -> Choice:
    return Choice({knob.name: knob.value for knob in knobs})


def _set_duration(proto: Any, seconds: float) -> None:
    proto.seconds, proto.nanos = divmod(round(seconds * _NANO), _NANO)


def _duration(proto: Any) -> float:
    return float(proto.seconds + proto.nanos / _NANO)


def short(key: Key) -> str:
    """A line that names the fusion: its last instruction and its device."""
    lines = [line.strip() for line in key.hlo.splitlines() if line.strip() not in ("{", "}", "")]
    root = next((line for line in lines if line.startswith("ROOT ")), lines[-1] if lines else "")
    return f"{root.removeprefix('ROOT ')[:120]} on {key.device[:60]}"


def spelled(choice: Choice) -> str:
    """A choice in words: an algorithm's name in place of its numbers."""
    return str(library_product.chosen(choice) or library_convolution.chosen(choice) or repr(choice))


def foreign(entry: Entry) -> str:
    """What another program (XLA) chose, in a line: the kind of its key and the key's fields; '' where it says none."""
    result = message("xla.AutotuneResults.Entry").FromString(entry.raw).result
    found = ((field.name, value) for field, value in result.ListFields() if field.name in _FOREIGN)
    return "; ".join(" ".join([name, *to_text(value).split()]) for name, value in found)
