"""XLA as a backend: any HLO module compiled and run through jaxlib, without TensorFlow."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import TfxlaError, UnsupportedError, VersionError
from ..ir import proto
from ..ir.node import Computation, Instr, Module
from ..ir.rewrite import map_computations, rebuild
from ..passes import layout_normaliser

Array = np.ndarray[Any, Any]


def prepare(module: Module, options: Mapping[str, str] | None = None) -> Callable[[Sequence[Array]], list[Array]]:
    """XLA's executable for the CPU: arrays in, outputs out, a root tuple flattened one level.

    `options`: XLA flags without dashes. VersionError where jax or jaxlib is missing, UnsupportedError for what XLA
    does not compile."""
    return of_proto(proto.write(_unoptimised(module)), options)


def of_proto(data: bytes, options: Mapping[str, str] | None = None) -> Callable[[Sequence[Array]], list[Array]]:
    """As `prepare`, of the bytes of an HloModuleProto."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        import jax
        from jaxlib import xla_client
    except ImportError:
        raise VersionError("running XLA needs jax and jaxlib, which are not installed", "pip install jax") from None
    compile_options = xla_client.CompileOptions()
    compile_options.env_option_overrides = sorted((options or {}).items())
    try:
        executable = load(data, "cpu", compile_options)
    except Exception as error:  # noqa: BLE001 - jaxlib raises several kinds, all of which mean that XLA refuses
        raise UnsupportedError(f"XLA does not compile it: {_first_line(error)}") from None

    def run(arrays: Sequence[Array]) -> list[Array]:
        with jax.enable_x64(True):
            placed = [jax.device_put(np.asarray(a), jax.local_devices(backend="cpu")[0]) for a in arrays]
            try:
                return [np.array(result) for result in executable.execute(placed)]
            except jax.errors.JaxRuntimeError as error:
                raise TfxlaError(f"XLA fails while it runs: {_first_line(error)}") from None

    return run


def load(data: bytes, platform: str, options: Any) -> Any:
    """jaxlib's executable of an HloModuleProto for the first device of `platform` ('cpu', 'cuda')."""
    import jax
    from jax._src import xla_bridge
    from jaxlib import _jax

    with jax.enable_x64(True):
        backend = xla_bridge.get_backend(platform)
        devices = _jax.DeviceList(tuple(backend.local_devices()[:1]))
        return backend.compile_and_load(_jax.mlir.hlo_to_stablehlo(data), devices, options)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def _unoptimised(module: Module) -> Module:
    """The same values without what only XLA's own passes may write: layouts, and fusions, which become calls."""
    return map_computations(layout_normaliser.PASS.run(module), _called).replace(is_scheduled=False)


def _called(comp: Computation) -> Computation:
    calls: dict[Instr, Instr] = {
        i: Instr(i.name, "call", i.shape, i.operands, {"to_apply": i.attrs["calls"]}, i.sources, i.metadata, i.control)
        for i in comp.instrs
        if i.opcode == "fusion"
    }
    return rebuild(comp, calls)
