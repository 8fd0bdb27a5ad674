"""XLA itself as the oracle: run any HLO module (text or proto bytes) on NumPy arrays.

    outputs = oracle.run("HloModule m ...", [x, y])      # list of arrays, the root tuple flattened
    oracle.parse(text)                                    # raises when XLA's own parser refuses it

Needs jaxlib only (no TensorFlow). Values of type s64/u64/f64/c128 pass unharmed.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfxla_cluster.replay import xla

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def parse(text: str) -> Any:
    """The `jaxlib._hlo.HloModule` of an HLO text; JaxRuntimeError when it does not parse or verify."""
    from jaxlib import _hlo

    return _hlo.hlo_module_from_text(text)


def proto(text: str) -> bytes:
    """HloModuleProto bytes of an HLO text, as XLA writes them."""
    return bytes(parse(text).as_serialized_hlo_module_proto())


def normal_text(module: str | bytes) -> str:
    """The text XLA prints for a module after its own parse: equal modules give equal text."""
    from jaxlib import _hlo

    options = _hlo.HloPrintOptions()
    options.print_large_constants = True
    options.print_metadata = False
    parsed = parse(module) if isinstance(module, str) else _from_proto(module)
    return str(parsed.to_string(options))


def _from_proto(data: bytes) -> Any:
    from jaxlib import _hlo

    return _hlo.HloModule.from_serialized_hlo_module_proto(data)


@functools.lru_cache(maxsize=64)
def _compile(data: bytes, options: tuple[tuple[str, str], ...]) -> Any:
    from jaxlib import xla_client

    compile_options = xla_client.CompileOptions()
    compile_options.env_option_overrides = list(options)
    return xla.load(data, "cpu", compile_options)


def run(module: str | bytes, args: Sequence[np.ndarray] = (), **options: str) -> list[np.ndarray]:
    """Compile `module` (HLO text or HloModuleProto bytes) with XLA for the CPU, run it on `args`.

    `options` are XLA flags without dashes, e.g. xla_cpu_enable_fast_min_max="false".
    Returns the outputs as NumPy arrays, a root tuple flattened one level.
    """
    import jax

    data = proto(module) if isinstance(module, str) else bytes(module)
    with jax.enable_x64(True):
        executable = _compile(data, tuple(sorted(options.items())))
        placed = [jax.device_put(np.asarray(a)) for a in args]
        return [np.array(result) for result in executable.execute(placed)]


def optimized_text(module: str | bytes) -> str:
    """The HLO text XLA's CPU pipeline makes of `module`."""
    data = proto(module) if isinstance(module, str) else bytes(module)
    return str(_compile(data, ()).hlo_modules()[0].to_string())
