"""Direct calls: builtins of Python that run a program's executables on EagerTensors (machine code: `direct_code`).

A `Slot` is one such builtin with the plans that it tries. A plan says which arguments it is for, and which program
runs then.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import tensorflow as tf

from . import direct_code, profiler
from .builder import EAGER_API, PLAN_WORDS, PYTHON_C_API, TABLE_WORDS, plan_word, table_word
from .direct_code import CONSTANT, TENSOR
from .library import Library
from .op import Program
from .records import Words
from .state_code import ATTRIBUTE, FALSE, FIELD, FLAG, ITEM, SAME, TRUE

__all__ = ["FALSE", "SAME", "TRUE", "Condition", "DirectPlan", "Slot", "State", "is_available"]

# Where TensorFlow's C++ library and its Python module have what has a C++ name.
_SYMBOLS = {
    "GetEagerContextThreadLocalData": "_ZN10tensorflow30GetEagerContextThreadLocalDataEP7_object",
    "TFE_Py_TapeSetIsEmpty": "_Z21TFE_Py_TapeSetIsEmptyv",
    "EagerTensor_CheckExact": "_Z22EagerTensor_CheckExactPK7_object",
    "EagerTensor_Handle": "_Z18EagerTensor_HandlePK7_object",
    "EagerTensorFromHandle": "_Z21EagerTensorFromHandleP16TFE_TensorHandleb",
}
_LIBRARIES = ("libtensorflow_cc.so.2", os.path.join("python", "lib_pywrap_tensorflow_common.so"))
_METH_O = 0x0008


@dataclass(frozen=True)
class Condition:
    """What a direct call asks of its thread: the value that `names` lead to from `start` is false, true, or `wanted`
    itself (asked: FALSE, TRUE, SAME). One that is missing does not hold."""

    start: Any
    names: tuple[str, ...]
    asked: int
    wanted: Any = None


# Offset and kind of what a thread's EagerContextThreadLocalData holds.
_FIELDS = {"is_eager": (0, FLAG), "device_name": (8, FIELD), "op_callbacks": (48, FIELD)}


class State:
    """Conditions, and the name of the device on which tensors have to lie, as machine code reads them.

    context: TensorFlow's; local: its thread-local data; conditions that begin there are read in memory, where it lies
    as we know it.
    """

    def __init__(self, conditions: Sequence[Condition], host: str, context: Any, local: Any) -> None:
        is_known = _has_fields(context, local)
        rows = [id(context) if is_known else 0, len(conditions)]
        for condition in conditions:
            names = () if is_known and condition.start is local else condition.names
            rows += _place(condition, is_known and condition.start is local)
            rows += (len(names), *map(id, names), condition.asked, id(condition.wanted))
        self.host = ctypes.create_string_buffer(host.encode())
        self.words = Words(rows, keep=(tuple(conditions), context))


def _place(condition: Condition, is_field: bool) -> tuple[int, int]:
    """Where a row begins."""
    if is_field:
        offset, kind = _FIELDS[condition.names[0]]
        return kind, offset
    if isinstance(condition.start, ModuleType):
        return ITEM, id(vars(condition.start))
    return ATTRIBUTE, id(condition.start)


def _has_fields(context: Any, local: Any) -> bool:
    """Whether the thread's data lies as _FIELDS says, by what it holds now."""
    address = _machinery()["local"](context)
    for name, (offset, kind) in _FIELDS.items():
        value = getattr(local, name)
        if kind == FLAG and ctypes.c_uint8.from_address(address + offset).value != int(value):
            return False
        if kind == FIELD and ctypes.c_void_p.from_address(address + offset).value != id(value):
            return False
    return True


class DirectPlan:
    """Arguments, and the program that runs for them.

    live: a word, 0 once the plan may be taken no more. arguments: of each (dtype, dims) of a tensor, by TensorFlow's
    number of the dtype, or (value,) of one that has to be this very object. captures: EagerTensors that are the
    program's last inputs. pack: makes what is returned of the list of results; None: there is one result, returned
    itself.
    """

    def __init__(
        self,
        program: Program,
        live: Words,
        arguments: Sequence[tuple[int, tuple[int, ...]] | tuple[Any]],
        captures: Sequence[Any],
        pack: Callable[[list[Any]], Any] | None,
    ) -> None:
        handle = _machinery()["handle"]
        rows: list[int] = []
        for argument in arguments:
            if len(argument) == 1:
                rows += (CONSTANT, id(argument[0]))
            else:
                rows += (TENSOR, argument[0], len(argument[1]), *argument[1])
        described = Words(rows)
        handles = Words([handle(tensor) for tensor in captures])
        kept = (program, live, tuple(arguments), tuple(captures), pack, described, handles)
        self.words = Words([0] * len(PLAN_WORDS), keep=kept)
        values = {
            "live": live.address,
            "program": program.record.address,
            "argument_count": len(arguments),
            "arguments": described.address,
            "capture_count": len(captures),
            "captures": handles.address,
            "pack": 0 if pack is None else id(pack),
        }
        for name, value in values.items():
            self.words[plan_word(name)] = value


class Slot:
    """A builtin that takes a tuple of arguments: `call(arguments)` is what the function returns, or NotImplemented
    where no plan that it has is for them, or the thread's state forbids one; nothing is done then."""

    def __init__(self) -> None:
        self._words = Words([0, 0])
        self.plans: tuple[DirectPlan, ...] = ()
        self.state: State | None = None
        self.call: Callable[[tuple[Any, ...]], Any] = _machinery()["make"](self._words.address)

    @property
    def calls(self) -> int:
        """How many calls it served."""
        return self._words[1]

    def publish(self, plans: Sequence[DirectPlan], state: State) -> None:
        """Try these plans, in their order, from now on; calls under way keep what they found."""
        self.plans, self.state = tuple(plans), state
        table = Words([0] * len(TABLE_WORDS[:-1]) + [plan.words.address for plan in plans], keep=(self.plans, state))
        table[table_word("owner")] = id(table)
        table[table_word("state")] = state.words.address
        table[table_word("host")] = ctypes.addressof(state.host)
        table[table_word("count")] = len(plans)
        self._words[0], self._words.keep = table.address, table


def is_available() -> bool:
    """Whether this TensorFlow has what direct calls are made of."""
    return bool(_machinery())


class _MethodDef(ctypes.Structure):
    """Python's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


@functools.cache
def _machinery() -> Mapping[str, Any]:
    """`make(slot's address)`: a builtin; `handle(tensor)`: its handle; `local(context)`: the address of this thread's
    data. Empty where they cannot be made."""
    eager, level = _eager_addresses(), profiler.addresses().get("level")
    if eager is None or level is None:
        return {}
    library = Library.get()
    python = {name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in PYTHON_C_API}
    addresses = {**library.api, **eager, **python, "profiling": level}
    engine = library.load(direct_code.build(addresses, id(NotImplemented)))
    method = _MethodDef(b"direct_call", engine.get_function_address("tfxla_direct"), _METH_O, None)
    create = ctypes.pythonapi.PyCFunction_NewEx
    create.restype, create.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]

    def make(slot: int, keep: Any = (engine, method)) -> Any:
        return create(ctypes.addressof(method), slot, None)

    of_object = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)
    handle, local = of_object(eager["EagerTensor_Handle"]), of_object(eager["GetEagerContextThreadLocalData"])
    return {"make": make, "handle": handle, "local": local}


def _eager_addresses() -> dict[str, int] | None:
    """Of EAGER_API's functions; None where this TensorFlow lacks one."""
    root = tf.sysconfig.get_lib()
    found: dict[str, int] = {}
    try:
        libraries = [ctypes.CDLL(os.path.join(root, name)) for name in _LIBRARIES] + [ctypes.CDLL(None)]
    except OSError:
        return None
    for name in EAGER_API:
        symbol = _SYMBOLS.get(name, name)
        function = next((getattr(library, symbol) for library in libraries if hasattr(library, symbol)), None)
        if function is None:
            return None
        found[name] = ctypes.cast(function, ctypes.c_void_p).value or 0
    return found
