"""Steps of executions in the profile of whoever profiles this process, as LLVM IR: TensorFlow's profiler, where its
addresses were handed over (`WORDS`), is told each step by name while it records.

The layout is that of tsl::profiler::TraceMeRecorder::Event (traceme_recorder.h of TensorFlow's headers): a
std::string of libstdc++ and two times, in nanoseconds since the epoch.
"""

from __future__ import annotations

from llvmlite import ir

from ..launcher.record_layout import table
from ..launcher.words import Function, Local, Value, Word, global_words
from .pool import now_ns

# level: address of the level that is recorded (an int, less than 0 where nothing is); record: void(Event*);
# allocate: operator new. All 0: nobody profiles.
WORDS = table("level record allocate")
_LEVEL = 2  # TraceMeLevel::kInfo, that of TensorFlow's own ops
_EVENT = table("name bytes capacity unused start end")
_CLOCK_REALTIME = 0


class Profiler:
    """Emits the test whether steps are recorded, and the routine that records one."""

    def __init__(self, module: ir.Module) -> None:
        self._words = global_words(module, "tfxla_profiler", len(WORDS))
        self._record = self._emit_record(module)
        address = Function(module, "profiler_address", 0)
        address.return_(Word(address, self._words))

    def is_recording(self, f: Function) -> Word:
        """1 while steps are recorded, else 0."""
        level = self._word(f, "level")
        found = f.local(0)
        with f.if_(level.compare("!=", 0)):
            found.set(f.select(f.load_narrow(level, 32).compare(">=", _LEVEL), 1, 0))
        return found.get()

    def record(self, f: Function, names: Word, ordinal: Word, started: Local) -> None:
        """Record the step that began at `started` (now_ns) and ends now; `names`: (address, bytes) of each ordinal."""
        at = names + ordinal * 16
        f.call(self._record, f.load(at), f.load(at, 1), now_ns(f) - started.get())

    def _word(self, f: Function, name: str) -> Word:
        return f.load(Word(f, self._words), WORDS[name])

    def _emit_record(self, module: ir.Module) -> Function:
        """profile_step(name, bytes, nanoseconds): an event that ends now. The recorder takes the string's memory."""
        f = Function(module, "profile_step", 3)
        name, size, spent = f.args
        text = f.call(self._word(f, "allocate"), size + 1)
        f.call("memcpy", text, name, size + 1)  # with the null that ends it
        time, event = f.stack(2), f.stack(len(_EVENT))
        f.call("clock_gettime", _CLOCK_REALTIME, time)
        end = f.load(time) * 1_000_000_000 + f.load(time, 1)
        fields: dict[str, Value] = {
            "name": text,
            "bytes": size,
            "capacity": size,
            "unused": 0,
            "start": end - spent,
            "end": end,
        }
        for field, value in fields.items():
            f.store(event, _EVENT[field], value)
        f.call(self._word(f, "record"), event)
        f.return_()
        return f
