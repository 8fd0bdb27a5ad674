"""An ordinary Keras program: a small CNN learns scikit-learn's handwritten digits.

Knows nothing of this package; `python -m tfxla_cluster.demo.digits` runs it alone.
"""

from __future__ import annotations

import keras
import numpy as np
from sklearn.datasets import load_digits

BATCH = 64


def load(image_size: int = 8) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """((train images, labels), (test images, labels)); images f32[n, size, size, 1] in [0, 1].

    Sizes above 8 are upsampled bilinearly. Every fifth image is a test image.
    """
    digits = load_digits()
    images = (digits.images / 16.0).astype(np.float32)[..., None]
    if image_size != 8:
        resize = keras.layers.Resizing(image_size, image_size)
        images = np.asarray(resize(images))
    labels = digits.target.astype(np.int32)
    test = np.arange(len(labels)) % 5 == 4
    return (images[~test], labels[~test]), (images[test], labels[test])


def build(image_size: int = 8, dropout: float = 0.3, jit_compile: bool | str = "auto", seed: int = 7) -> keras.Model:
    """The compiled model; the same seed gives the same weights."""
    keras.utils.set_random_seed(seed)
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Input((image_size, image_size, 1)),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.BatchNormalization(momentum=0.9),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.BatchNormalization(momentum=0.9),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dropout(dropout),
            layers.Dense(128, activation="relu"),
            layers.Dense(10),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=jit_compile,
    )
    return model


def main() -> None:
    """Trains and tests the model, and prints its loss and accuracy."""
    (x, y), (x_test, y_test) = load()
    model = build()
    model.fit(x, y, batch_size=BATCH, epochs=12, verbose=2)
    loss, accuracy = model.evaluate(x_test, y_test, verbose=0)
    predicted = model.predict(x_test, verbose=0).argmax(-1)
    print(f"test loss {loss:.4f}, accuracy {accuracy:.4f}, of predict {np.mean(predicted == y_test):.4f}")


if __name__ == "__main__":
    main()
