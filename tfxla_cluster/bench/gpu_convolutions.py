"""The GPU's rows of convolutions, measured against cuDNN: forward, both gradients, depthwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .gpu_rows import Draw, Function, GpuRow

IMAGE = (256, 56, 56, 64)  # of ResNet-50's second stage


def _nchw(image: Any) -> Any:
    """PyTorch's view of an image that lies as TensorFlow's: its channels_last."""
    return image.permute(0, 3, 1, 2)


def _nhwc(image: Any) -> Any:
    return image.permute(0, 2, 3, 1)


def _oihw(window: Any) -> Any:
    return window.permute(3, 2, 0, 1)


def _forward(stride: int, size: int) -> tuple[Function, Function]:
    """Padded as TensorFlow's SAME: PyTorch pads first, where that is not alike on both sides."""

    def tf_fn(tf: Any, x: Any, w: Any) -> Any:
        return tf.nn.conv2d(x, w, stride, "SAME")

    def torch_fn(torch: Any, x: Any, w: Any) -> Any:
        x, functional = _nchw(x), torch.nn.functional
        if stride == 1 or size == 1:
            return _nhwc(functional.conv2d(x, _oihw(w), stride=stride, padding=size // 2))
        return _nhwc(functional.conv2d(functional.pad(x, (0, 1, 0, 1)), _oihw(w), stride=stride))

    return tf_fn, torch_fn


def _row(case: str, inputs: tuple[Draw, ...], fns: tuple[Function, Function], flops: float, tolerance: float) -> GpuRow:
    return GpuRow(case, "convolution", inputs, *fns, flops, tolerance=tolerance)


def _depthwise(tf: Any, x: Any, w: Any) -> Any:
    return tf.nn.depthwise_conv2d(x, w, (1, 1, 1, 1), "SAME")


def _depthwise_torch(torch: Any, x: Any, w: Any) -> Any:
    window = w.permute(2, 3, 0, 1)
    return _nhwc(torch.nn.functional.conv2d(_nchw(x), window, padding=1, groups=window.shape[0]))


def _by_image(tf: Any, g: Any, w: Any) -> Any:
    return tf.raw_ops.Conv2DBackpropInput(
        input_sizes=IMAGE, filter=w, out_backprop=g, strides=(1, 1, 1, 1), padding="SAME"
    )


def _by_image_torch(torch: Any, g: Any, w: Any) -> Any:
    n, h, width, c = IMAGE
    return _nhwc(torch.nn.grad.conv2d_input((n, c, h, width), _oihw(w), _nchw(g), padding=1))


def _by_window(tf: Any, x: Any, g: Any) -> Any:
    return tf.raw_ops.Conv2DBackpropFilter(
        input=x, filter_sizes=(3, 3, 64, 64), out_backprop=g, strides=(1, 1, 1, 1), padding="SAME"
    )


def _by_window_torch(torch: Any, x: Any, g: Any) -> Any:
    return torch.nn.grad.conv2d_weight(_nchw(x), (64, 64, 3, 3), _nchw(g), padding=1).permute(2, 3, 1, 0)


def _work(image: tuple[int, ...], window: Mapping[str, int], stride: int = 1) -> float:
    n, h, w, c = image
    return 2.0 * n * (h // stride) * (w // stride) * c * window["size"] ** 2 * window["out"]


def convolution_rows() -> list[GpuRow]:
    """A ResNet's convolutions and their gradients, and a depthwise one."""
    rows = []
    for dtype, tolerance in (("bf16", 2e-2), ("f32", 1e-3)):
        x = Draw(IMAGE, dtype)
        for size, out, stride in ((3, 64, 1), (1, 256, 1), (3, 128, 2)):
            w = Draw((size, size, 64, out), dtype, scale=0.05)
            flops = _work(IMAGE, {"size": size, "out": out}, stride)
            case = f"conv {size}x{size} {dtype} 64->{out}" + (f" stride {stride}" if stride > 1 else "")
            rows.append(_row(case, (x, w), _forward(stride, size), flops, tolerance))
        w, flops = Draw((3, 3, 64, 64), dtype, scale=0.05), _work(IMAGE, {"size": 3, "out": 64})
        rows.append(_row(f"conv 3x3 {dtype} by image", (x, w), (_by_image, _by_image_torch), flops, tolerance))
        rows.append(_row(f"conv 3x3 {dtype} by window", (x, x), (_by_window, _by_window_torch), flops, tolerance))
    first = Draw((256, 224, 224, 3), "bf16"), Draw((7, 7, 3, 64), "bf16", scale=0.05)
    flops = _work(first[0].shape, {"size": 7, "out": 64}, 2)

    def stem(torch: Any, x: Any, w: Any) -> Any:
        padded = torch.nn.functional.pad(_nchw(x), (2, 3, 2, 3))
        return _nhwc(torch.nn.functional.conv2d(padded, _oihw(w), stride=2))

    rows.append(_row("conv 7x7 bf16 3->64 stride 2", first, (_forward(2, 7)[0], stem), flops, 2e-2))
    channels = Draw((256, 56, 56, 128), "bf16"), Draw((3, 3, 128, 1), "bf16", scale=0.3)
    rows.append(_row("depthwise 3x3 bf16 128", channels, (_depthwise, _depthwise_torch), 0.0, 2e-2))
    return rows
