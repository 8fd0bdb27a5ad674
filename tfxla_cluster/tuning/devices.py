"""What a result was measured on, as text: results of one device are not used on another."""

from __future__ import annotations

import hashlib

from ..target import Target


def device_text(target: Target) -> str:
    """As XLA's for GPUs: 'CUDA: 9.0, Cores: 132, ...'; for CPUs what of them code is generated for."""
    if target.backend == "gpu":
        digits = target.arch.removeprefix("sm_")
        return f"CUDA: {digits[:-1]}.{digits[-1:]}, Cores: {target.cores}, L2 cache: {target.l2_bytes >> 20} MB"
    features = hashlib.sha256(target.features.encode()).hexdigest()[:8]
    return (
        f"CPU: {target.arch}, Cores: {target.cores}, Vectors: {target.vector_bits} bits, "
        f"L2 cache: {target.l2_bytes >> 10} KB, Features: {features}"
    )
