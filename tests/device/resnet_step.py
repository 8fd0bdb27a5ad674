"""A training step of Keras' ResNet50 under the policy mixed_bfloat16, timed: images 224x224, SGD by hand.

    python -m tests.device.resnet_step MODE... --batch 256 [--kernels 25]

Modes and what is printed: see tests.device.step_times.
"""

from __future__ import annotations

from tests.device import step_times
from tfxla_cluster.bench.steps import resnet

if __name__ == "__main__":
    step_times.command(resnet.task(), __doc__)
