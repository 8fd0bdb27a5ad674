"""Steps of GPT-2-small in plain TensorFlow ops, timed: training, and decoding one token of each sequence.

    python -m tests.device.gpt_step train|decode MODE... --batch 16 [--kernels 25]

Modes and what is printed: see tests.device.step_times.
"""

from __future__ import annotations

import sys

from tests.device import step_times
from tfxla_cluster.bench.steps import gpt

if __name__ == "__main__":
    step_times.command({"train": gpt.train, "decode": gpt.decode}[sys.argv.pop(1)](), __doc__)
