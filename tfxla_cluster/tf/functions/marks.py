"""Marks: what a program says about the sizes of a tensor's dimensions, on the tensor itself.

A mark on an EagerTensor is an attribute of the object, so that it goes with it: nothing is kept alive, no id is
remembered. A function that is called with the tensor notes it. A mark on an argument of a function that is being traced
is an attribute of the argument in its FunctionDef, in the text of `size_spec`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.framework import ops

from ...errors import UsageError
from ...size_spec import How, Mark, Predicate, Size, Source, nameless, stronger, text
from ...tf2xla import sources
from ...tf2xla.function_def import library
from . import python_ints

Marks = Mapping[tuple[int, int], Mark]
"""By (argument or input, axis)."""
_HELD = "_tfxla_marks"
_ATTRS = {How.DYNAMIC: "_tfxla_dynamic", How.MAYBE: "_tfxla_maybe_dynamic", How.STATIC: "_tfxla_static"}
_PREDICATES = "_tfxla_specialize_on"
_EAGER = ops.EagerTensor
_used: list[bool] = []
_plain: dict[str, Noted] = {}
"""By name of a function that is not compiled itself."""
# Predicates cannot be written down: those of arguments, by the number that stands in their place.
_numbers: dict[tuple[Predicate, ...], int] = {}
_F = TypeVar("_F", bound=Callable[..., None])


def _unconverted(function: _F) -> _F:
    """A function that AutoGraph leaves as it is."""
    found: _F = tf.autograph.experimental.do_not_convert(function)
    return found


@_unconverted
def mark_dynamic(
    tensor: Any,
    dim: int | Iterable[int],
    *,
    min: int | None = None,
    max: int | None = None,
    name: str = "",
    specialize_on: Iterable[Predicate] = (),
) -> None:
    """Say that the size of one or more dimensions of a tensor varies: what is compiled for it is for all its sizes, or
    the call is an error that says which line stands against that.

    tensor: one that is passed to a compiled function, or, in a function that is being traced, one of its arguments.
    dim: from 0 on, or from the last by -1 down. min, max: the sizes that one executable is for, both in it; others, of
    tensors without this mark, have their own, as 0 and 1 always have. name: sizes of one name are equal. specialize_on:
    functions of a size; sizes for which others of them are true have an executable of their own. Raises UsageError for
    what is no such tensor, dimension, name, range or predicate, and for a known size outside of min and max.
    """
    size = _size(name, min, max, specialize_on)
    for axis in _axes(tensor, dim):
        if tensor.shape[axis] is not None and tensor.shape[axis] not in size:
            raise sources.wrong(
                f"dimension {axis} is {tensor.shape[axis]}, outside of {size}", "Give a range that has it"
            )
    _mark(tensor, dim, Mark(How.DYNAMIC, size))


@_unconverted
def maybe_mark_dynamic(
    tensor: Any, dim: int | Iterable[int], *, min: int | None = None, max: int | None = None, name: str = ""
) -> None:
    """As `mark_dynamic`, where one executable for all sizes can be made; else each size has its own, and nothing is
    raised but UsageError for what is no tensor, dimension or range."""
    _mark(tensor, dim, Mark(How.MAYBE, _size(name, min, max)))


@_unconverted
def mark_static(tensor: Any, dim: int | Iterable[int] | None = None) -> None:
    """Say that each size of these dimensions of a tensor (None: of all) has an executable of its own. What
    `mark_dynamic` says outweighs it. Raises UsageError as that."""
    _mark(tensor, dim, Mark(How.STATIC))


def _size(name: str, least: int | None, most: int | None, specialize_on: Any = ()) -> Size:
    """What a mark says of a size; UsageError with the line of the program."""
    try:
        return Size(name, least, most, specialize_on)
    except UsageError as error:
        raise sources.wrong(error.message, error.remedy) from None


def _mark(tensor: Any, dim: int | Iterable[int] | None, mark: Mark) -> None:
    axes = _axes(tensor, dim)
    if isinstance(tensor, _EAGER):
        held = dict(_held(tensor))
        for axis in axes:
            held[axis] = stronger(held.get(axis), mark)
        setattr(tensor, _HELD, held)
        _used[:] = [True]
    else:
        _mark_argument(tensor, dict.fromkeys(axes, mark))


def _axes(tensor: Any, dim: int | Iterable[int] | None) -> list[int]:
    """The dimensions, from 0 on, that `dim` is; UsageError for what is no tensor or no dimension of it."""
    if not isinstance(tensor, tf.Tensor):
        raise sources.wrong(
            f"a {type(tensor).__name__} cannot be marked",
            "Mark the tensor that is passed to the function (tf.convert_to_tensor makes one); sizes of variables: "
            "--tfxla_dynamic_variables",
        )
    rank = tensor.shape.rank
    if rank is None:
        raise sources.wrong("a tensor of unknown rank cannot be marked")
    wanted = range(rank) if dim is None else list(dim) if isinstance(dim, Iterable) else [dim]
    for axis in wanted:
        if type(axis) is not int or not -rank <= axis < rank:
            raise sources.wrong(f"{axis!r} is no dimension of a tensor of shape {tensor.shape}")
    return [axis % rank for axis in wanted]


def _mark_argument(tensor: Any, marks: Mapping[int, Mark]) -> None:
    """Of a function that is being traced; a tensor that it takes from outside is marked there."""
    argument = _outermost(tensor)
    if isinstance(argument, _EAGER):
        setattr(argument, _HELD, {**_held(argument), **marks})
        _used[:] = [True]
    elif argument.op.type == "Placeholder":
        known = of_attributes({a: argument.op.get_attr(a) for a in _attributes() if a in argument.op.node_def.attr})
        for axis, mark in marks.items():
            known[axis] = stronger(known.get(axis), mark)
        for name, value in _written(known).items():
            argument.op._set_attr(name, attr_value_pb2.AttrValue(s=value))
    elif any(mark.how is not How.MAYBE for mark in marks.values()):
        raise sources.wrong(
            f"{argument.name} is computed in the function that is being traced, where sizes follow from arguments",
            "Mark an argument of the function",
        )


def _outermost(tensor: Any) -> Any:
    """What a tensor of an inner graph (a branch, a loop) is in the outermost that it comes from."""
    while not isinstance(tensor, _EAGER):
        outer = [outside for outside, inside in getattr(tensor.graph, "captures", ()) if inside is tensor]
        if not outer:
            break
        tensor = outer[0]
    return tensor


def _attributes() -> Iterator[str]:
    return itertools.chain(_ATTRS.values(), [_PREDICATES])


def _written(marks: Mapping[int, Mark]) -> dict[str, bytes]:
    """The attributes that say these marks."""
    found = {
        attr: text(tuple(Source("", axis, mark.size) for axis, mark in sorted(marks.items()) if mark.how is how))
        for how, attr in _ATTRS.items()
    }
    tests = {axis: mark.size.specialize_on for axis, mark in sorted(marks.items()) if mark.size.specialize_on}
    found[_PREDICATES] = ",".join(f"{axis}:{_numbers.setdefault(of, len(_numbers))}" for axis, of in tests.items())
    return {name: value.encode() for name, value in found.items()}


def of_attributes(attributes: Mapping[str, bytes]) -> dict[int, Mark]:
    """The marks that attributes of an argument say, by axis; predicates of another process are not known."""
    words = filter(None, attributes.get(_PREDICATES, b"").decode().split(","))
    numbers = {int(axis): int(number) for axis, _, number in (word.partition(":") for word in words)}
    predicates = {number: of for of, number in _numbers.items()}
    found = {}
    for how, attr in _ATTRS.items():
        for source in nameless(attributes.get(attr, b"").decode()):
            if source.axis is not None:
                of = predicates.get(numbers.get(source.axis, -1), ())
                size = Size(source.size.name, source.size.min, source.size.max, of)
                found[source.axis] = Mark(how, size)
    return found


def of_definition(definition: Any) -> dict[tuple[int, int], Mark]:
    """The marks in a FunctionDef, by (argument, axis)."""
    found = {}
    for number, attrs in definition.arg_attr.items():
        written = {name: attrs.attr[name].s for name in _attributes() if name in attrs.attr}
        found.update({(number, axis): mark for axis, mark in of_attributes(written).items()} if written else {})
    return found


def _held(tensor: Any) -> Mapping[int, Mark]:
    """The marks on an EagerTensor, by axis."""
    found: Mapping[int, Mark] = getattr(tensor, _HELD, {})
    return found


class Noted:
    """The marks on tensors that a function was called with, by (argument, axis)."""

    def __init__(self) -> None:
        self.marks: dict[tuple[int, int], Mark] = {}

    def note(self, tensors: Sequence[Any]) -> None:
        """It is called with these; cheap where the program marks nothing."""
        if not _used:
            return
        for number, tensor in enumerate(tensors):
            self.add({(number, axis): mark for axis, mark in _held(tensor).items()})

    def add(self, marked: Marks) -> None:
        """These too."""
        for place, mark in marked.items():
            self.marks[place] = stronger(self.marks.get(place), mark)


def note_plain(function: bytes, tensors: Sequence[Any]) -> None:
    """A function that is not compiled itself is called with these: what lies in it may be. Cheap where the program
    marks nothing."""
    if _used and any(map(_held, tensors)):
        _plain.setdefault(function.decode(), Noted()).note(tensors)


def forget(functions: Iterable[str]) -> None:
    """TensorFlow removed these functions."""
    for function in functions:
        _plain.pop(function, None)


def handed_on(function: str, given: Sequence[int]) -> dict[tuple[int, int], Mark]:
    """The marks on what a part of a plain function is given, by (input of the part, axis): of those that its trace
    says, and of tensors that it was called with. given: which argument of the function each input is, -1 none."""
    definition = library(function) if function else None
    marked = {} if definition is None else of_definition(definition)
    for place, mark in _plain[function].marks.items() if function in _plain else ():
        marked[place] = stronger(marked.get(place), mark)
    return {(k, axis): mark for k, of in enumerate(given) for (number, axis), mark in marked.items() if number == of}


@_unconverted
def mark_arguments(arguments: Any, wanted: Sequence[Source], function: str, defined: str) -> None:
    """Mark those arguments, in any nest, of a function that is being traced which `wanted` names, as `mark_dynamic`
    does. UsageError for an entry that names none; `defined`: where the function is."""
    tensors = [t for t in tf.nest.flatten(arguments, expand_composites=True) if _is_argument(t)]
    named = [(t.op.get_attr("_user_specified_name").decode(), t) for t in tensors]
    for source in wanted:
        axes = [[axis for axis in range(_rank(t)) if source.matches(name, axis)] for name, t in named]
        if not any(axes):
            raise UsageError(
                f"{function} has no argument or dimension '{source}'",
                f"It has {', '.join(f'{name}{t.shape}' for name, t in named) or 'none'}",
                defined,
            )
        for (_, tensor), found in zip(named, axes):
            _mark(tensor, found, Mark(How.DYNAMIC, source.size))


def _rank(argument: Any) -> int:
    """Of a Python integer 1: the rows that stand for it."""
    return 1 if python_ints.is_one(argument) else argument.shape.rank or 0


def _is_argument(value: Any) -> bool:
    return (
        isinstance(value, tf.Tensor)
        and not isinstance(value, _EAGER)
        and value.op.type == "Placeholder"
        and "_user_specified_name" in value.op.node_def.attr
    )
