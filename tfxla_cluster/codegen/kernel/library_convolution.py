"""Convolutions that a library does, as data: what is convolved, and by which of its engines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from .choice import Choice
from .code import Params

ROUTINE = "cudnnBackendExecute"  # of a plan's step: inputs are both operands, outputs the result and the workspace
FORWARD, BY_IMAGE, BY_WINDOW = range(3)  # the result: the output, the image's gradient, the window's gradient
CUDNN_TYPES = {"f32": 0, "f64": 1, "f16": 2, "bf16": 9}  # numpy-like name of a dtype -> cudnnDataType_t


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution in two dimensions, or one of its gradients (`kind`). Images lie by batch, height, width and
    channel, windows by output channel, height, width and input channel, which there is one group of.

    `dtype`: cudnnDataType_t of the operands, `result` of what is computed; `tf32`: 1 where f32 may be multiplied as
    tf32.
    """

    kind: int
    dtype: int
    result: int
    tf32: int
    batch: int
    height: int
    width: int
    channels: int
    out_height: int
    out_width: int
    out_channels: int
    taps_high: int
    taps_wide: int
    stride_high: int
    stride_wide: int
    dilation_high: int
    dilation_wide: int
    pad_top: int
    pad_left: int
    pad_bottom: int
    pad_right: int


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine of the library's `version` with its knobs (cudnnBackendKnobType_t -> value), which takes `workspace`
    bytes; `result`: cudnnDataType_t of what it computes."""

    version: int
    workspace: int
    number: int
    knobs: tuple[tuple[int, int], ...]
    result: int

    def __str__(self) -> str:
        knobs = " ".join(f"{kind}={value}" for kind, value in self.knobs)
        return f"cuDNN {version_text(self.version)}, engine {self.number} ({knobs}), {self.workspace} bytes"

    def choice(self) -> Choice:
        """As knobs of ours, in which results keep it."""
        knobs = {f"{_KNOB}{kind}": value for kind, value in self.knobs}
        own = {"cudnn": self.version, "engine": self.number, "workspace": self.workspace, "type": self.result}
        return Choice({**own, **knobs})


_KNOB = "knob"
_OWN = {"cudnn", "engine", "workspace", "type"}


def chosen(choice: Choice) -> Engine | None:
    """What `Engine.choice` made, or nothing; of a choice with other knobs too nothing."""
    rest = {name.removeprefix(_KNOB): value for name, value in choice.items() if name not in _OWN}
    if not choice.keys() >= _OWN or not all(name.isdecimal() for name in rest):
        return None
    knobs = tuple(sorted((int(name), value) for name, value in rest.items()))
    return Engine(choice["cudnn"], choice["workspace"], choice["engine"], knobs, choice["type"])


def version_text(version: int) -> str:
    """'9.10.2' of 91002."""
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}"


def to_params(convolution: Convolution, engine: Engine) -> Params:
    """Both as a plan's step has them."""
    return (*asdict(convolution).items(), *engine.choice().items())


def from_params(params: Params) -> tuple[Convolution, Engine]:
    """Of `to_params`; ValueError for others."""
    values: Mapping[str, int] = dict(params)
    names = [field.name for field in fields(Convolution)]
    engine = chosen(Choice({name: value for name, value in values.items() if name not in names}))
    if engine is None or not set(names) <= values.keys():
        raise ValueError("not the numbers of a library's convolution")
    return Convolution(**{name: values[name] for name in names}), engine
