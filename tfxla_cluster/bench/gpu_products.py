"""The GPU's rows of products and attention, with the library kernels that they are measured against."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .gpu_rows import INNER, TOKENS, WIDTH, Draw, Function, GpuRow

BF16 = "bf16"


def _matmul(lib: Any, a: Any, b: Any) -> Any:
    return lib.matmul(a, b)


def _dense_tf(tf: Any, a: Any, w: Any, b: Any) -> Any:
    return tf.nn.gelu(a @ w + b, approximate=True)


def _dense_torch(torch: Any, a: Any, w: Any, b: Any) -> Any:
    return torch.nn.functional.gelu(a @ w + b, approximate="tanh")


def _fused(torch: Any, a: Any, w: Any, b: Any) -> Any:
    """cuBLASLt with bias and gelu in its epilogue."""
    return torch._addmm_activation(b, a, w, use_gelu=True)  # noqa: SLF001 - the one way to that epilogue


def product_rows() -> list[GpuRow]:
    """Plain products, those of a dense layer, and the weight gradients of a BERT-base step."""
    m, k, n = 8192, 4096, 16384
    a, w, b, w2 = Draw((m, k), BF16), Draw((k, n), BF16, scale=0.02), Draw((n,), BF16), Draw((n, k), BF16, scale=0.02)
    flops = 2.0 * m * k * n
    rows = [
        GpuRow("matmul bf16 8192x4096x16384", "product", (a, w), _matmul, _matmul, flops, tolerance=1e-2),
        GpuRow(
            "gelu(a@w+b) bf16",
            "product",
            (a, w, b),
            _dense_tf,
            _dense_torch,
            flops,
            {"cuBLASLt": _fused},
            tolerance=2e-2,
        ),
        GpuRow(
            "gelu(a@w+b)@w2 bf16",
            "product",
            (a, w, b, w2),
            lambda tf, a, w, b, v: _dense_tf(tf, a, w, b) @ v,
            lambda t, a, w, b, v: _dense_torch(t, a, w, b) @ v,
            2 * flops,
            {"cuBLASLt": lambda t, a, w, b, v: _fused(t, a, w, b) @ v},
            tolerance=2e-2,
        ),
    ]
    for inputs, outputs in ((WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, INNER), (INNER, WIDTH)):
        rows.append(
            GpuRow(
                f"weight gradient bf16 {inputs}x{outputs}",
                "product",
                (Draw((TOKENS, inputs), BF16), Draw((TOKENS, outputs), BF16)),
                lambda tf, x, g: tf.matmul(x, g, transpose_a=True),
                lambda t, x, g: x.t() @ g,
                2.0 * TOKENS * inputs * outputs,
                tolerance=1e-2,
            )
        )
    return [*rows, *_further_products()]


def _further_products() -> list[GpuRow]:
    """Other types, few rows, and weights that are kept in f32."""
    cube = (Draw((8192, 8192)),) * 2
    wide = (Draw((2048, 2048), "f64"),) * 2
    few = (Draw((16, 4096), BF16), Draw((4096, 4096), BF16))
    kept = (Draw((TOKENS, WIDTH), BF16), Draw((WIDTH, INNER)))
    return [
        GpuRow("matmul f32 8192", "product", cube, _matmul, _matmul, 2.0 * 8192**3, tolerance=1e-5, exact=True),
        GpuRow("matmul f64 2048", "product", wide, _matmul, _matmul, 2.0 * 2048**3, tolerance=1e-12),
        GpuRow("matmul bf16 16x4096x4096", "product", few, _matmul, _matmul, 2.0 * 16 * 4096**2, tolerance=1e-2),
        GpuRow(
            "x@cast(w) bf16 32768x768x3072",
            "product",
            kept,
            lambda tf, x, w: x @ tf.cast(w, tf.bfloat16),
            lambda t, x, w: x @ w.bfloat16(),
            2.0 * TOKENS * WIDTH * INNER,
            tolerance=1e-2,
        ),
    ]


def _attention_tf(mask: str) -> Function:
    """Plain ops, scores in f32."""

    def fn(tf: Any, q: Any, k: Any, v: Any, *bias: Any) -> Any:
        scores = tf.cast(tf.matmul(q, k, transpose_b=True), tf.float32) * q.shape[-1] ** -0.5
        if mask == "mask":
            scores = scores + tf.cast(bias[0], tf.float32)
        if mask == "causal":
            kept = tf.linalg.band_part(tf.ones(scores.shape[-2:], tf.bool), -1, 0)
            scores = tf.where(kept, scores, -1e9)
        return tf.matmul(tf.cast(tf.nn.softmax(scores), q.dtype), v)

    return fn


def _attention_torch(mask: str) -> Function:
    def fn(torch: Any, q: Any, k: Any, v: Any, *bias: Any) -> Any:
        scores = (q @ k.transpose(-1, -2)).float() * q.shape[-1] ** -0.5
        if mask == "mask":
            scores = scores + bias[0].float()
        if mask == "causal":
            kept = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
            scores = torch.where(kept, scores, -1e9)
        return torch.softmax(scores, -1).to(q.dtype) @ v

    return fn


def _library(mask: str, backend: str) -> Function:
    """scaled_dot_product_attention by one of its kernels."""

    def fn(torch: Any, q: Any, k: Any, v: Any, *bias: Any) -> Any:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        with sdpa_kernel(getattr(SDPBackend, backend)):
            given = bias[0].expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2]) if bias else None
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, given, is_causal=mask == "causal")

    return fn


def _flex_attention(mask: str) -> Function:
    made: list[Any] = []  # compiled attention, and its block mask

    def fn(torch: Any, q: Any, k: Any, v: Any, *bias: Any) -> Any:
        from torch.nn.attention import flex_attention as flex

        if not made:
            sizes = (None, None, q.shape[2], k.shape[2])
            block = flex.create_block_mask(lambda b, h, i, j: i >= j, *sizes, q.device) if mask == "causal" else None
            made.extend((torch.compile(flex.flex_attention, dynamic=False), block))
        biased = (lambda s, b, h, i, j: s + bias[0][b, 0, 0, j]) if bias else None
        return made[0](q, k, v, biased, block_mask=made[1])

    return fn


def _compiled(forward: Function) -> Function:
    """Compiled by PyTorch where it is first called."""
    found: list[Callable[..., Any]] = []

    def fn(torch: Any, *args: Any) -> Any:
        if not found:
            found.append(torch.compile(lambda *inputs: forward(torch, *inputs), dynamic=False))
        return found[0](*args)

    return fn


def _gradient_tf(forward: Function) -> Function:
    """The result, and the gradients by q, k and v, as a training step has both."""

    def fn(tf: Any, g: Any, q: Any, k: Any, v: Any, *bias: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch((q, k, v))
            out = forward(tf, q, k, v, *bias)
        return (out, *tape.gradient(out, (q, k, v), output_gradients=g))

    return fn


def _gradient_torch(forward: Function) -> Function:
    def fn(torch: Any, g: Any, q: Any, k: Any, v: Any, *bias: Any) -> Any:
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        out = forward(torch, *leaves, *bias)
        return (out.detach(), *torch.autograd.grad(out, leaves, g))

    return fn


def attention_rows() -> list[GpuRow]:
    """Attention in plain ops: sequences of 2048 and, as in BERT, of 512; masks none, additive, causal."""
    rows = []
    for batch, heads, length, width, mask in (
        (8, 16, 2048, 64, ""),
        (8, 16, 2048, 64, "mask"),
        (8, 16, 2048, 64, "causal"),
        (8, 8, 2048, 128, ""),
        (8, 8, 2048, 128, "causal"),
        (64, 12, 512, 64, "mask"),
    ):
        name = f"attention bf16 {batch}x{heads}x{length}x{width} {mask}".strip()
        flops = 4.0 * batch * heads * length * length * width / (2 if mask == "causal" else 1)
        tensor = Draw((batch, heads, length, width), BF16)
        inputs: tuple[Draw, ...] = (tensor,) * 3
        inputs += (Draw((batch, 1, 1, length), BF16),) if mask == "mask" else ()
        forms = {"cuDNN": _library(mask, "CUDNN_ATTENTION"), "FlexAttention": _flex_attention(mask)}
        if mask != "mask":
            forms["FlashAttention"] = _library(mask, "FLASH_ATTENTION")
        ours, plain = _attention_tf(mask), _attention_torch(mask)
        rows.append(GpuRow(name, "attention", inputs, ours, plain, flops, forms, tolerance=2e-2))
        backward = {peer: _gradient_torch(form) for peer, form in (("torch.compile", _compiled(plain)), *forms.items())}
        given = (tensor, *inputs)
        rows.append(
            GpuRow(
                f"{name}, gradient",
                "attention",
                given,
                _gradient_tf(ours),
                _gradient_torch(plain),
                3.5 * flops,
                backward,
                tolerance=4e-2,
            )
        )
    return rows
