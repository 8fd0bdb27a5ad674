"""A training step of BERT-base in plain TensorFlow ops, timed: bf16 compute, f32 variables, AdamW by hand.

    python -m tests.device.bert_step MODE... --batch 16,64 [--kernels 25]

Modes and what is printed: see tests.device.step_times.
"""

from __future__ import annotations

from tests.device import step_times
from tfxla_cluster.bench.steps import bert

if __name__ == "__main__":
    step_times.command(bert.task(), __doc__)
