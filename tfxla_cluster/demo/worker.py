"""One mode of the demo in a process of its own; reads commands on stdin, answers a JSON line each.

Commands: `losses` (losses of one epoch's batches, dropout off), `train EPOCHS`, `time STEPS` (ms a
step of fit), `quit`. The mode (stock or this package) is decided by the environment alone.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from typing import Any

import keras
import numpy as np

from . import digits

MODES: dict[str, bool | str] = {"auto": "auto", "True": True}  # jit_compile, as Keras takes it


class _BatchLosses(keras.callbacks.Callback):
    """The loss of every batch: Keras reports the running mean of the epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.losses: list[float] = []

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        mean = float((logs or {})["loss"])
        self.losses.append(mean * (batch + 1) - sum(self.losses))


class _BatchClock(keras.callbacks.Callback):
    """When each training batch ended."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[float] = []

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self.ends.append(time.perf_counter())


class Worker:
    """Holds the data and the trained model of one mode."""

    def __init__(self, image_size: int, jit_compile: bool | str) -> None:
        self.image_size, self.jit_compile = image_size, jit_compile
        self.train_data, self.test_data = digits.load(image_size)
        self.model = digits.build(image_size, jit_compile=jit_compile)

    def losses(self) -> dict[str, Any]:
        """Mean loss after each batch of the first epoch, unshuffled and without dropout."""
        model = digits.build(self.image_size, dropout=0.0, jit_compile=self.jit_compile)
        seen = _BatchLosses()
        model.fit(*self.train_data, batch_size=digits.BATCH, epochs=1, shuffle=False, verbose=0, callbacks=[seen])
        return {"losses": seen.losses}

    def train(self, epochs: int) -> dict[str, Any]:
        """Accuracy after `epochs` epochs, by evaluate and by predict; seconds of the first epoch."""
        start = time.perf_counter()
        self.model.fit(*self.train_data, batch_size=digits.BATCH, epochs=1, verbose=0)
        first = time.perf_counter() - start
        self.model.fit(*self.train_data, batch_size=digits.BATCH, epochs=epochs - 1, verbose=0)
        images, labels = self.test_data
        _, accuracy = self.model.evaluate(images, labels, verbose=0)
        predicted = self.model.predict(images, verbose=0).argmax(-1)
        return {
            "accuracy": float(accuracy),
            "predict_accuracy": float(np.mean(predicted == labels)),
            "first_epoch_s": first,
        }

    def time(self, steps: int) -> dict[str, Any]:
        """Median milliseconds from the end of one training batch of `fit` to the end of the next."""
        images, labels = self.train_data
        count = min(steps, len(images) // digits.BATCH)
        rows = count * digits.BATCH
        clock = _BatchClock()
        self.model.fit(images[:rows], labels[:rows], batch_size=digits.BATCH, epochs=1, verbose=0, callbacks=[clock])
        return {"step_ms": statistics.median(np.diff(clock.ends)) * 1e3}

    def stats(self) -> dict[str, Any]:
        """This package's counters and compile seconds; nothing under stock TensorFlow."""
        package = sys.modules.get("tfxla_cluster.api")
        return package.stats() if package else {}


def main() -> None:
    """Answers commands from standard input, a JSON line each."""
    worker = Worker(int(sys.argv[1]), MODES[sys.argv[2]])
    for line in sys.stdin:
        command, *arguments = line.split()
        if command == "quit":
            break
        answer = getattr(worker, command)(*map(int, arguments))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
