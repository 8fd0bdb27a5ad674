"""The steps that are benchmarked, by name."""

from __future__ import annotations

from .task import Task

BATCHES = {"BERT-base": 16, "ResNet50": 256, "GPT-2-small": 16, "GPT-2-small, one token": 16}
"""Name -> examples of a step, unless another number is asked for."""


def task(name: str) -> Task:
    """Imports TensorFlow; KeyError where there is none of the name."""
    from . import bert, gpt, resnet

    makers = {"BERT-base": bert.task, "ResNet50": resnet.task, "GPT-2-small": gpt.train}
    return {**makers, "GPT-2-small, one token": gpt.decode}[name]()
