"""The steps that are benchmarked, by name."""

from __future__ import annotations

from .task import Task

BATCHES = {"BERT-base": 16, "ResNet50": 256, "GPT-2-small": 16, "GPT-2-small, one token": 16}
"""On a GPU: name -> examples of a step, unless another number is asked for."""

CPU_BATCHES = {
    "MLP": 64,
    "CNN 8x8": 64,
    "CNN 64x64": 64,
    "LSTM": 32,
    "transformer": 16,
    "ResNet50 f32": 8,
    "MobileNetV2": 8,
}
"""On a CPU."""

CALL = "tanh(x)*y+1"


def task(name: str) -> Task:
    """Imports TensorFlow; KeyError where there is none of the name."""
    from . import bert, call, gpt, keras_models, resnet

    makers = {
        "BERT-base": bert.task,
        "ResNet50": resnet.task,
        "GPT-2-small": gpt.train,
        "GPT-2-small, one token": gpt.decode,
        "MLP": keras_models.mlp,
        "CNN 8x8": lambda: keras_models.cnn(8),
        "CNN 64x64": lambda: keras_models.cnn(64),
        "LSTM": keras_models.lstm,
        "transformer": keras_models.transformer,
        "ResNet50 f32": lambda: keras_models.images("ResNet50"),
        "MobileNetV2": lambda: keras_models.images("MobileNetV2"),
        CALL: call.task,
    }
    return makers[name]()
