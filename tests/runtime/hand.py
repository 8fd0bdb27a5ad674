"""Kernels written by hand in LLVM IR, for tests that must not depend on code generation."""

from __future__ import annotations

import llvmlite.binding as llvm

from tfxla_cluster.ir.dim import Dim
from tfxla_cluster.ir.dtype import F32
from tfxla_cluster.ir.shape import Shape, array
from tfxla_cluster.runtime.plan import KernelStep, LaunchPlan, Ref

# void NAME(Context* ctx, void** inputs, void** outputs, const int64_t* sizes): sizes[0] elements a task.
_ELEMENTWISE = """
define void @{name}(ptr %ctx, ptr %ins, ptr %outs, ptr %sizes) {{
entry:
  %begin = load i64, ptr %ctx
  %endp = getelementptr i64, ptr %ctx, i64 1
  %end = load i64, ptr %endp
  %n = load i64, ptr %sizes
  %first = mul i64 %begin, %n
  %last = mul i64 %end, %n
  %a = load ptr, ptr %ins
  %bp = getelementptr ptr, ptr %ins, i64 {second}
  %b = load ptr, ptr %bp
  %o = load ptr, ptr %outs
  br label %head
head:
  %i = phi i64 [ %first, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %last
  br i1 %more, label %body, label %exit
body:
  %pa = getelementptr {t}, ptr %a, i64 %i
  %pb = getelementptr {t}, ptr %b, i64 %i
  %po = getelementptr {t}, ptr %o, i64 %i
  %x = load {t}, ptr %pa
  %y = load {t}, ptr %pb
  %r = {op}
  store {t} %r, ptr %po
  %next = add i64 %i, 1
  br label %head
exit:
  ret void
}}
"""
_OTHER = """
define void @fail(ptr %ctx, ptr %ins, ptr %outs, ptr %sizes) {
  %sp = getelementptr i64, ptr %ctx, i64 5
  %s = load ptr, ptr %sp
  store i32 7, ptr %s
  ret void
}
define void @count_down(ptr %ctx, ptr %ins, ptr %outs, ptr %sizes) {
  ; inputs[0]: s32; outputs[0]: s32 = input - 1; outputs[1]: pred = input > 0
  %a = load ptr, ptr %ins
  %x = load i32, ptr %a
  %y = sub i32 %x, 1
  %p = icmp sgt i32 %x, 0
  %q = zext i1 %p to i8
  %o = load ptr, ptr %outs
  store i32 %y, ptr %o
  %o1 = getelementptr ptr, ptr %outs, i64 1
  %f = load ptr, ptr %o1
  store i8 %q, ptr %f
  ret void
}
define void @scratch_index(ptr %ctx, ptr %ins, ptr %outs, ptr %sizes) {
  ; fills sizes[0] words of scratch with the first task's number and stores the last word of it
  %n = load i64, ptr %sizes
  %task = load i64, ptr %ctx
  %scp = getelementptr ptr, ptr %ctx, i64 2
  %sc = load ptr, ptr %scp
  %last = sub i64 %n, 1
  %p = getelementptr i64, ptr %sc, i64 %last
  store i64 %task, ptr %p
  %v = load i64, ptr %p
  %o = load ptr, ptr %outs
  %oo = getelementptr i64, ptr %o, i64 %task
  store i64 %v, ptr %oo
  ret void
}
define void @positive_count(ptr %ctx, ptr %ins, ptr %outs, ptr %sizes) {
entry:
  ; outputs[0]: the positive elements of inputs[0], packed; outputs[1]: how many, s32
  %n = load i64, ptr %sizes
  %a = load ptr, ptr %ins
  %o = load ptr, ptr %outs
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %join ]
  %k = phi i64 [ 0, %entry ], [ %k2, %join ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %exit
body:
  %pa = getelementptr float, ptr %a, i64 %i
  %x = load float, ptr %pa
  %p = fcmp ogt float %x, 0.0
  br i1 %p, label %take, label %join
take:
  %po = getelementptr float, ptr %o, i64 %k
  store float %x, ptr %po
  %k1 = add i64 %k, 1
  br label %join
join:
  %k2 = phi i64 [ %k, %body ], [ %k1, %take ]
  %next = add i64 %i, 1
  br label %head
exit:
  %c = trunc i64 %k to i32
  %o1p = getelementptr ptr, ptr %outs, i64 1
  %o1 = load ptr, ptr %o1p
  store i32 %c, ptr %o1
  ret void
}
"""
_OPS = {
    "add": ("float", 1, "fadd float %x, %y"),
    "mul": ("float", 1, "fmul float %x, %y"),
    "twice": ("float", 0, "fadd float %x, %y"),
}


class HandCode:
    """Loaded machine code of the kernels above."""

    def __init__(self) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine(opt=2)
        parts = [_ELEMENTWISE.format(name=n, t=t, second=s, op=op) for n, (t, s, op) in _OPS.items()]
        module = llvm.parse_assembly("\n".join([*parts, _OTHER]))
        self._engine = llvm.create_mcjit_compiler(module, machine)
        self._engine.finalize_object()

    def address(self, symbol: str) -> int:
        return int(self._engine.get_function_address(symbol))


def vector(n: Dim) -> Shape:
    return array(F32, (n,))


def kernel(symbol: str, inputs: list[Ref], outputs: list[Ref], per_task: Dim, tasks: Dim, cost: Dim = 1) -> KernelStep:
    return KernelStep(symbol, tuple(inputs), tuple(outputs), (per_task,), tasks, cost, instr=symbol)


def sum_plan(tasks: int, per_task: int) -> LaunchPlan:
    """out = (a + b) * b, with a temporary."""
    n, temp = tasks * per_task, Ref("temp", 0, 0)
    a, b, out = Ref("input", 0), Ref("input", 1), Ref("output", 0)
    steps = (
        kernel("add", [a, b], [temp], per_task, tasks, per_task),
        kernel("mul", [temp, b], [out], per_task, tasks, per_task),
    )
    return LaunchPlan("sum", (vector(n), vector(n)), (vector(n),), (), steps, (), n * 4)
