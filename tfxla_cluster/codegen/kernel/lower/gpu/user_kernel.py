"""custom-call of a user's own Triton kernel: his text is the kernel's body."""

from __future__ import annotations

from ..... import data_checks, user_kernels
from .....errors import UnsupportedError, UserKernelError
from .....ir.dtype import S64
from .....ir.node import Instr
from .....ir.shape import Shape
from .....target import Target
from .....user_kernels import KernelCall
from ...ir import Buffer, Kernel, TritonCall, Var
from ...unit import Unit, UnitKernel, UnitRef

_OPTIONS = ("num_stages", "num_ctas", "enable_fp_fusion")


def lower_user_kernel(instr: Instr, target: Target) -> Unit:
    """One kernel; an operand that is one buffer with a result is not read apart from it.

    UnsupportedError for another custom call, UserKernelError where the call's kernel is not known or what it says
    does not fit its operands.
    """
    if instr.attrs["custom_call_target"] == data_checks.TARGET:
        return Unit(())  # data are not checked on GPUs yet
    if instr.attrs["custom_call_target"] != user_kernels.TARGET:
        raise UnsupportedError(f"custom-call {instr.attrs['custom_call_target']} has no GPU kernel ({instr.name})")
    call = user_kernels.from_json(instr.attrs.get("backend_config", ""))
    source = user_kernels.find(call)
    aliased = dict(call.aliases)
    operands = [shape for o in instr.operands for shape in _arrays(o.shape)]
    outputs = tuple(Buffer("out", n, shape.element_type) for n, shape in enumerate(_arrays(instr.shape)))
    read = [n for n in range(len(operands)) if n not in aliased]
    inputs = tuple(Buffer("in", k, operands[n].element_type) for k, n in enumerate(read))
    places = {f"in {n}": buffer for n, buffer in zip(read, inputs)}
    places |= {f"out {n}": buffer for n, buffer in enumerate(outputs)}
    places |= {f"in {n}": outputs[result] for n, result in call.aliases}
    given = {**call.arguments, **call.constexprs}
    body = TritonCall(
        call.name,
        source.text,
        tuple((name, _argument(call, places, text)) for name, text in given.items()),
        call.grid[1:],
        tuple((name, getattr(call, name)) for name in _OPTIONS),
        source.places,
    )
    tasks = call.grid[0] if all(call.grid) else 0
    kernel = Kernel(call.name, inputs, outputs, (), (), tasks, Var(S64, "task"), (body,), warps=call.num_warps)
    step = UnitKernel(
        kernel, tuple(UnitRef("operand", n) for n in read), tuple(UnitRef("result", n) for n in range(len(outputs)))
    )
    return Unit((step,), inplace=tuple((result, operand) for operand, result in call.aliases))


def _arrays(shape: Shape) -> tuple[Shape, ...]:
    return shape.elements if shape.is_tuple else (shape,)


def _argument(call: KernelCall, places: dict[str, Buffer], text: str) -> Buffer | str:
    """The buffer that 'in 0' or 'out 0' names, else the text."""
    kind, _, number = text.partition(" ")
    if kind not in ("in", "out") or not number.isdigit():
        return text
    if text not in places:
        raise UserKernelError(f"kernel {call.name} has no operand or result '{text}'")
    return places[text]
