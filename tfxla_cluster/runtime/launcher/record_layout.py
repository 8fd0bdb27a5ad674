"""Word layouts that Python encodes and machine code reads: one table each, offsets in 8-byte words."""

from __future__ import annotations


def table(names: str) -> dict[str, int]:
    """Name -> position."""
    return {name: index for index, name in enumerate(names.split())}


# The record of an executable, what its entry gets. It is never freed (see records.py).
#   active: executions running now; closed: 1 once retired; program: step words
#   values: [symbols | constants | results of expressions], `value_count` words, `size_count` symbols
#   expressions: quadruples (operation, target, a, b) of value slots, run before the first step
#   front_words: per execution: a copy of values, then argument arrays, then the caller's scratch
#   arena_value: value slot of the arena's bytes; constants: table of addresses
#   timings: 0, or the address of the words of STEP_TIMES; parallel: any step may be
#   names: address of (address, bytes) of each step's name, where a profiler is told of them
#   writes_sizes: the sizes array takes back what instructions produced
RECORD = table("""
    active closed program values value_count size_count expressions expression_count
    front_words arguments_word scratch_word arena_value constants timings parallel writes_sizes hint names""")
RECORD_WORDS = 48  # of every record: room for what other launchers keep behind these

# Kinds of place; a place is two words: kind | index << 2, and the value slot of its byte offset.
PLACE_KINDS = {"temp": 0, "input": 1, "output": 2, "const": 3}

# Steps of the program; the words after the operation in the order of the comment.
#   end
#   kernel: code n_in n_out n_sizes(-n: inline numbers) tasks cost scratch_bytes ordinal places... sizes...
#   copy: source(2) target(2) bytes ordinal
#   branch: selector(2) is_pred n target_0 .. target_n-1        (targets are word indices)
#   jump: target
#   unless: flag(2) target                                     (jump where the pred is false)
#   set: slot number                                           (of a value)
#   countdown: slot target                                     (jump where the value is 0, else it is one less)
#   size: source(2) symbol first_expression last_expression bound   (read an s32, then evaluate)
STEPS = table("end kernel copy branch jump unless set countdown size")

# The times of a plan's steps. limit: executions that are timed; begun: those that were let in. Behind them a row for
# each step: calls; their nanoseconds; the least of them; then those of its last STEP_SAMPLES calls.
STEP_TIMES = table("limit begun")
STEP_TIME = table("calls total least")
STEP_SAMPLES = 32  # a power of two
STEP_ROW = len(STEP_TIME) + STEP_SAMPLES

# Status words of an entry: what kernels return is positive, the runtime's own are negative.
STATUS_OK, STATUS_CLOSED, STATUS_NO_MEMORY = 0, -1, -2
