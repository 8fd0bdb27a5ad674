"""Entry point G: a graph optimizer plugin inside TensorFlow's grappler, registered from Python, no compiler.

TensorFlow's own `InitGraphPlugin` takes a function that fills three structs of
`tensorflow/c/experimental/grappler/grappler.h`; ctypes writes them. From then on grappler hands every graph that
the runtime instantiates (functions after inlining, tf.data maps, v1 Sessions) to `_optimize`. There is no
unregistering: while nobody is subscribed the callback says "no change".

While enabled, `FunctionCallOptions.as_attrs` gives function calls a config of their own: TensorFlow then instantiates
them anew (functions that ran before are covered, no retracing) with those grappler passes off that
would fuse or fold ops into forms the bridge has no kernel for; where the call may lie on a device without a backend
they stay on. It works for running threads too, whose options TensorFlow caches.

Grappler asks the plugins of those device types that a graph is placed on, so one is registered for each type.
"""

from __future__ import annotations

import _thread
import ctypes
import functools
import os
import threading
import zlib
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import config_pb2, rewriter_config_pb2
from tensorflow.python.eager import context

from .. import bugs, flags, trace
from ..errors import VersionError
from . import devices

Transform = Callable[[graph_pb2.GraphDef, frozenset[str], frozenset[str]], "graph_pb2.GraphDef | None"]
"""(graph with its library, names to keep, those of them that are only fetched) -> new graph, None for no change."""

_SYMBOL = "_ZN10tensorflow8grappler15InitGraphPluginEPFvP30TP_OptimizerRegistrationParamsP10TSL_StatusE"
_VTABLE = "_ZTVN10tensorflow8grappler15CGraphOptimizerE"
_USES_LIBRARY = "_ZNK10tensorflow8grappler15CGraphOptimizer19UsesFunctionLibraryEv"
_VTABLE_WORDS = 10
_ABORTED = 10
_AGAIN_S = 0.05
_OFF = rewriter_config_pb2.RewriterConfig.OFF
_PASSES_OFF = ("remapping", "layout_optimizer", "arithmetic_optimization", "shape_optimization", "constant_folding")
_TRISTATES = 19
# A second plugin of a type would end the process: other builds of TensorFlow leave GPUs to plugins of their vendors.
_DEVICE_TYPES = ("CPU", "GPU") if tf.test.is_built_with_gpu_support() else ("CPU",)
CLUSTERING_FLAGS = (
    "tf_xla_auto_jit",
    "tf_xla_cpu_global_jit",
    "tf_xla_min_cluster_size",
    "tf_xla_max_cluster_size",
    "tf_xla_ops_to_cluster",
    "tf_xla_cluster_exclude_ops",
    "tf_xla_disable_deadness_safety_checks_for_debugging",
    "tf_xla_clustering_fuel",
    "tf_xla_deterministic_cluster_names",
    "tf_xla_check_cluster_input_numerics",
    "tf_xla_check_cluster_output_numerics",
    "tf_xla_print_cluster_outputs",
)
"""Flags whose value changes what a function becomes: a call under other values is instantiated anew."""


class _Buffer(ctypes.Structure):
    """TF_Buffer."""

    _fields_ = [("data", ctypes.c_void_p), ("length", ctypes.c_size_t), ("deallocator", ctypes.c_void_p)]


class _Configs(ctypes.Structure):
    """TP_OptimizerConfigs: tri-states in the header's order, 0 default, 1 off, 2 on."""

    _fields_ = [("struct_size", ctypes.c_size_t), ("ext", ctypes.c_void_p), ("states", ctypes.c_int * _TRISTATES)]


class _Optimizer(ctypes.Structure):
    """TP_Optimizer."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("ext", ctypes.c_void_p),
        ("create", ctypes.c_void_p),
        ("optimize", ctypes.c_void_p),
        ("destroy", ctypes.c_void_p),
    ]


class _Registration(ctypes.Structure):
    """TP_OptimizerRegistrationParams."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("ext", ctypes.c_void_p),
        ("major", ctypes.c_int32),
        ("minor", ctypes.c_int32),
        ("patch", ctypes.c_int32),
        ("device_type", ctypes.c_char_p),
        ("configs", ctypes.POINTER(_Configs)),
        ("optimizer", ctypes.POINTER(_Optimizer)),
    ]


_YES = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p)
_INIT = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Registration), ctypes.c_void_p)
_OPTIMIZE = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.POINTER(_Buffer), ctypes.c_void_p, ctypes.POINTER(_Buffer), ctypes.c_void_p
)


class _Plugin:
    """The registered plugin; made once a process and kept for ever, as TensorFlow keeps its addresses."""

    def __init__(self) -> None:
        directory = tf.sysconfig.get_lib()
        self.cc = ctypes.CDLL(os.path.join(directory, "libtensorflow_cc.so.2"))
        self.framework = ctypes.CDLL(os.path.join(directory, "libtensorflow_framework.so.2"))
        self.libc = ctypes.CDLL(None)
        self.libc.malloc.restype = ctypes.c_void_p
        self.libc.malloc.argtypes = [ctypes.c_size_t]
        self.framework.TF_SetStatus.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p]
        self.framework.TF_GetCode.argtypes = [ctypes.c_void_p]
        self.framework.TF_NewStatus.restype = ctypes.c_void_p
        self.framework.TF_DeleteStatus.argtypes = [ctypes.c_void_p]
        self.transform: Transform | None = None
        self._yes = _YES(lambda this: True)
        self._callbacks: list[Any] = []
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))
        for position, device_type in enumerate(_DEVICE_TYPES):
            self._register(device_type, _DEVICE_TYPES[:position])

    def _register(self, device_type: str, before: tuple[str, ...]) -> None:
        """For graphs with nodes on `device_type` and none on the types `before`, which have a plugin too."""
        try:
            register = getattr(self.cc, _SYMBOL)
        except AttributeError:
            raise VersionError(
                "this TensorFlow does not export grappler's InitGraphPlugin", "Install tensorflow>=2.21,<2.22"
            ) from None
        if not before:
            self._ask_for_library()
        optimize = _OPTIMIZE(functools.partial(self._on_graph, before))
        init = _INIT(functools.partial(self._fill, device_type, optimize))
        self._callbacks += [optimize, init]
        register.restype = None
        register.argtypes = [ctypes.c_void_p, _INIT]
        status = (ctypes.c_int64 * 2)()  # absl::Status, returned through a hidden first argument
        register(ctypes.addressof(status), init)

    def _ask_for_library(self) -> None:
        """Let plugins see and extend the graph's function library.

        TensorFlow's adaptor of plugins answers UsesFunctionLibrary() with no, so they get stubs and what they add is
        lost; nor can functions be added to a graph's library later. That one answer, a slot of an exported
        virtual table that holds an exported function, is replaced; anything unexpected is an error.
        """
        table = ctypes.addressof(ctypes.c_char.in_dll(self.cc, _VTABLE))
        answer = ctypes.cast(getattr(self.cc, _USES_LIBRARY), ctypes.c_void_p).value
        slots = (ctypes.c_void_p * _VTABLE_WORDS).from_address(table)
        found = [k for k, value in enumerate(slots) if value == answer]
        page = os.sysconf("SC_PAGESIZE")
        start = table - table % page
        size = ctypes.c_size_t(table + _VTABLE_WORDS * 8 - start)
        readable, writable = 1, 3
        if len(found) != 1 or self.libc.mprotect(ctypes.c_void_p(start), size, writable):
            raise VersionError(
                "this TensorFlow keeps the function library from graph optimizer plugins",
                "Install tensorflow>=2.21,<2.22",
            )
        slots[found[0]] = ctypes.cast(self._yes, ctypes.c_void_p).value
        self.libc.mprotect(ctypes.c_void_p(start), size, readable)

    def _fill(self, device_type: str, optimize: Any, registration: Any, status: int) -> None:
        params = registration.contents
        params.struct_size = ctypes.sizeof(_Registration)
        params.device_type = device_type.encode()
        params.configs.contents.struct_size = ctypes.sizeof(_Configs)
        optimizer = params.optimizer.contents
        optimizer.struct_size = ctypes.sizeof(_Optimizer)
        optimizer.optimize = ctypes.cast(optimize, ctypes.c_void_p).value

    def _on_graph(
        self, before: tuple[str, ...], optimizer: int, source: Any, item: int, target: Any, status: int
    ) -> None:
        """TensorFlow's call, on any thread. No exception may leave: the original graph then runs, and it is said."""
        if self.transform is None:
            self.framework.TF_SetStatus(status, _ABORTED, b"tfxla_cluster is not enabled")
            return
        try:
            graph = graph_pb2.GraphDef.FromString(ctypes.string_at(source.contents.data, source.contents.length))
            asked_before = any(devices.place_of(node.device).type in before for node in graph.node) if before else False
            changed = None if asked_before else self.transform(graph, *self._preserved(item))
        except KeyboardInterrupt:  # again, once the main thread has left this call
            threading.Timer(_AGAIN_S, _thread.interrupt_main).start()
            changed = None
        except BaseException as error:  # noqa: BLE001 - nothing may propagate into TensorFlow's C++
            _report(error)
            changed = None
        if changed is None:
            self.framework.TF_SetStatus(status, _ABORTED, b"no change")
            return
        self._give(target.contents, changed.SerializeToString())

    def _give(self, target: _Buffer, data: bytes) -> None:
        """Fill a TF_Buffer; `free` takes the deallocator's first argument and ignores the length behind it."""
        target.data = self.libc.malloc(len(data))
        ctypes.memmove(target.data, data, len(data))
        target.length = len(data)
        target.deallocator = ctypes.cast(self.libc.free, ctypes.c_void_p).value

    def _preserved(self, item: int) -> tuple[frozenset[str], frozenset[str]]:
        """(names to keep, those fetched). A tensor that is both fed and fetched never gets here: the Python
        session answers it itself."""
        fetched = frozenset(name.partition(":")[0] for name in self._names(item, "TF_GetFetchNodesList"))
        return frozenset(self._names(item, "TF_GetNodesToPreserveList")) | fetched, fetched

    def _names(self, item: int, function: str) -> list[str]:
        status = ctypes.c_void_p(self.framework.TF_NewStatus())
        count, size = ctypes.c_int(), ctypes.c_size_t()
        handle = ctypes.c_void_p(item)
        try:
            getattr(self.cc, function + "Size")(handle, ctypes.byref(count), ctypes.byref(size), status)
            values = (ctypes.c_void_p * max(count.value, 1))()
            lengths = (ctypes.c_size_t * max(count.value, 1))()
            storage = ctypes.create_string_buffer(max(size.value, 1))
            getattr(self.cc, function)(handle, values, lengths, count, storage, size, status)
            if self.framework.TF_GetCode(status):
                raise RuntimeError(f"{function} failed")
            return [ctypes.string_at(values[i] or 0, lengths[i]).decode() for i in range(count.value)]
        finally:
            self.framework.TF_DeleteStatus(status)


def _report(error: BaseException) -> None:
    reason = bugs.failed("clustering a graph", error)
    trace.once(f"graph pass: {reason}", f"a graph is left to TensorFlow, because clustering it failed ({reason})")


def _say_if_switched_off() -> None:
    # The dict itself: the public getter takes 30 us, and this is on the path of each call.
    if context.context()._optimizer_experimental_options.get("disable_meta_optimizer"):
        trace.once(
            "disable_meta_optimizer",
            "graphs are left to TensorFlow while its optimizer option "
            "disable_meta_optimizer is set: clustering runs inside that optimizer",
        )


_plugin: _Plugin | None = None
_lock = threading.Lock()


def enable(transform: Transform) -> None:
    """Send every graph to `transform` from now on (replacing an earlier one). Raises VersionError."""
    global _plugin
    with _lock:
        _plugin = _plugin or _Plugin()
        _plugin.transform = transform
        _Options.install()


def disable() -> None:
    """Graphs are left alone again; functions go back to what TensorFlow made of them before."""
    with _lock:
        if _plugin is not None:
            _plugin.transform = None
        _Options.remove()


class _Options:
    """Our addition to the config of function calls, by patching FunctionCallOptions.as_attrs."""

    original: Callable[[Any], dict[str, Any]] | None = None
    suffixes: ClassVar[dict[tuple[Any, ...], bytes]] = {}

    @classmethod
    def install(cls) -> None:
        if cls.original is not None:
            return
        cls.original = original = context.FunctionCallOptions.as_attrs

        def as_attrs(options: Any) -> dict[str, Any]:
            attrs = original(options)
            attrs["config_proto"] += cls.suffix()
            _say_if_switched_off()
            return attrs

        context.FunctionCallOptions.as_attrs = as_attrs

    @classmethod
    def remove(cls) -> None:
        if cls.original is not None:
            context.FunctionCallOptions.as_attrs = cls.original
            cls.original = None

    @classmethod
    def suffix(cls) -> bytes:
        """A serialised ConfigProto to append: protos merge when their bytes are joined."""
        ours = not devices.has_missing() or bool(devices.decide(context.context().device_name or ""))
        key = (ours, *map(flags.get, CLUSTERING_FLAGS))
        if key not in cls.suffixes:
            version = zlib.crc32(repr(key[1:]).encode())
            cls.suffixes[key] = call_config(version, _PASSES_OFF if ours else ()).SerializeToString()
        return cls.suffixes[key]


def call_config(version: int, off: Iterable[str]) -> config_pb2.ConfigProto:
    """What function calls get while enabled; `version` tells apart calls under different flags. `off`: passes."""
    config = config_pb2.ConfigProto()
    rewrite = config.graph_options.rewrite_options
    for name in off:
        setattr(rewrite, name, _OFF)
    rewrite.use_plugin_optimizers = rewriter_config_pb2.RewriterConfig.ON
    rewrite.min_graph_nodes = -1
    config.experimental.session_metadata.name = "tfxla_cluster"
    config.experimental.session_metadata.version = version
    return config
