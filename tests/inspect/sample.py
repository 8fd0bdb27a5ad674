"""A small dump of ours, written by the package's own writers, for the tests of the report."""

# ruff: noqa: E501 (HLO text keeps its lines)
from __future__ import annotations

from pathlib import Path

from tfxla_cluster import flag_options, flags, trace
from tfxla_cluster.dump import manifest, module_files
from tfxla_cluster.dump.sink import ModuleDump, Sink
from tfxla_cluster.ir import text
from tfxla_cluster.ir.dim import make, sym
from tfxla_cluster.ir.node import Module
from tfxla_cluster.runtime.plan import BranchStep, CopyStep, KernelStep, LaunchPlan, LoopStep, Placed, Ref, SizeSource
from tfxla_cluster.target import Target

BEFORE = """\
HloModule cluster_0, entry_computation_layout={(f32[8,32]{1,0}, f32[32]{0})->f32[8]{0}}

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %add = f32[] add(%a, %b)
}

ENTRY %main (x: f32[8,32], y: f32[32]) -> f32[8] {
  %x = f32[8,32]{1,0} parameter(0), metadata={op_type="_Arg" op_name="x"}
  %y = f32[32]{0} parameter(1), metadata={op_type="_Arg" op_name="y"}
  %wide = f32[8,32]{1,0} broadcast(%y), dimensions={1}, metadata={op_type="Mul" op_name="model/mul"}
  %mul = f32[8,32]{1,0} multiply(%x, %wide), metadata={op_type="Mul" op_name="model/mul"}
  %zero = f32[] constant(0)
  ROOT %reduce = f32[8]{0} reduce(%mul, %zero), dimensions={1}, to_apply=%sum, metadata={op_type="Sum" op_name="model/sum"}
}
"""
AFTER = """\
HloModule cluster_0, is_scheduled=true, entry_computation_layout={(f32[8,32]{1,0}, f32[32]{0})->f32[8]{0}}

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %add = f32[] add(%a, %b)
}

%fused (p0: f32[8,32], p1: f32[32]) -> f32[8] {
  %p0 = f32[8,32]{1,0} parameter(0)
  %p1 = f32[32]{0} parameter(1)
  %wide = f32[8,32]{1,0} broadcast(%p1), dimensions={1}, metadata={op_type="Mul" op_name="model/mul"}
  %mul = f32[8,32]{1,0} multiply(%p0, %wide), metadata={op_type="Mul" op_name="model/mul"}
  %zero = f32[] constant(0)
  ROOT %reduce = f32[8]{0} reduce(%mul, %zero), dimensions={1}, to_apply=%sum, metadata={op_type="Sum" op_name="model/sum"}
}

ENTRY %main (x: f32[8,32], y: f32[32]) -> f32[8] {
  %x = f32[8,32]{1,0} parameter(0), metadata={op_type="_Arg" op_name="x"}
  %y = f32[32]{0} parameter(1), metadata={op_type="_Arg" op_name="y"}
  ROOT %multiply_reduce_fusion = f32[8]{0} fusion(%x, %y), kind=kInput, calls=%fused, metadata={op_type="Sum" op_name="model/sum"}
}
"""
GRAPH = """\
node {{
  name: "x"
  op: "_Arg"
}}
node {{
  name: "model/mul"
  op: "Mul"
  input: "x"
  input: "y:0"
  attr {{
    key: "T"
    value {{
      type: DT_FLOAT
    }}
  }}
  attr {{
    key: "_XlaCluster"
    value {{
      s: "cluster_0"
    }}
  }}
}}
node {{
  name: "model/sum"
  op: "Sum"
  input: "model/mul"
  attr {{
    key: "_XlaCluster"
    value {{
      s: "cluster_0"
    }}
  }}
}}
node {{
  name: "{left}"
  op: "AsString"
  input: "model/sum"
  input: "^model/mul"
}}
library {{
  function {{
  }}
}}
"""
LEFT = "text/as_string"


def write(directory: Path, left: str = LEFT) -> Path:
    """Write the dump; `left` names the node that is in no cluster (hostile in some tests)."""
    with flags.patch(xla_dump_to=str(directory), xla_dump_hlo_pass_re=".*"):
        _records(left)
        out = Sink(flag_options.dump_options())
        path = out.graph("mark_for_compilation", GRAPH.format(left=left))
        trace.record(
            "function",
            id=1,
            name="__inference_step_7",
            signature="f32[8,32], f32[32]",
            where="train.py:3",
            graph=path.name if path else "",
        )
        _module(out.module("cluster_0"))
        manifest.write(directory)
    return directory


def _records(left: str) -> None:
    trace.record(
        "run",
        schema=1,
        versions={"tensorflow": "2.21.0", "tfxla_cluster": "0.1.0"},
        flags={"tf_xla_auto_jit": "2"},
        argv=["train.py", "--steps", "10"],
        host={"cpu": "znver3", "cores": 2},
    )
    trace.record(
        "cluster",
        name="cluster_0",
        function="__inference_step_7",
        nodes=["model/mul", "model/sum"],
        ops={"Mul": 1, "Sum": 1},
    )
    trace.record(
        "unclustered",
        node=left,
        op="AsString",
        rule="no-kernel",
        where="train.py:9",
        reason="no XLA kernel takes strings",
        function="__inference_step_7",
    )
    size = {"kind": "equal", "of": "argument 'x'", "axis": 0, "was": "8", "now": "9"}
    frame = {"file": "/home/me/train.py", "line": 30, "text": "step(batch)", "function": "main", "user": True}
    for number, reason, changed in ((0, "first call", []), (1, "argument 'x': dim 0 was 8, is 9", [size])):
        trace.record(
            "compile",
            id=number,
            module="cluster_0",
            cluster="cluster_0",
            function="__inference_step_7",
            guards=["argument 'x': float32[8,32]"],
            what="cluster",
            hit="",
            reason=reason,
            changed=changed,
            closest=0,
            structure="e3b0c442",
            serves={"inputs": [{"of": "argument 'x'", "dtype": "float32", "dims": [8 + number, 32], "guards": []}]},
            called=[frame, {**frame, "file": "/lib/tensorflow/f.py", "user": False}],
            costs={"compile": 31.5},
            ms=31.5,
            kernels=1,
            native=1,
            phases={"lowering": 4.0, "passes": 7.5, "codegen": 20.0},
        )
    trace.record("fallback", what="f", reason="Unique is not compiled yet", where="train.py:12")
    trace.record("error", what="compiling cluster_1", error="KeyError", message="'x'", internal=True, traceback="...")
    steps = [{"instr": "multiply_reduce_fusion", "count": 12, "ms": 3.0}, {"instr": "loop", "count": 12, "ms": 1.0}]
    trace.record("execution", module="cluster_0", id=0, count=12, ms=4.0, steps=steps)
    trace.record("stats", stats={"kernels": 1, "executions": 12, "fallback_reasons": {"Unique": 1}})


def _module(dump: ModuleDump) -> None:
    target = Target("cpu", "znver3")
    before, after = text.parse(BEFORE), text.parse(AFTER)
    module_files.before(dump, before)
    dump.pass_dump("simplify", "pipeline-start", "algsimp", BEFORE)
    dump.pass_dump("simplify", "algsimp", "pipeline-end", BEFORE.replace("multiply", "add"))
    module_files.after(dump, after, target)
    module_files.fusion_decisions(
        dump,
        [
            {"a": "mul", "b": "reduce", "ok": True, "rule": "", "reason": "one reader"},
            {"a": "wide", "b": "reduce", "ok": False, "rule": "reuse", "reason": "computed twice otherwise"},
        ],
    )
    module_files.launch_plan(dump, plan(after), after, target)
    module_files.buffers(dump, plan(after), PLACED, MOMENTS)
    root = after.entry.root.replace(sources=frozenset(("model/mul", "model/sum")))
    symbol = "multiply_reduce_fusion_k0"
    does = {"tasks": 8, "bytes": 1184, "flops": 512}
    facts = {**does, "launches": [{"instr": "multiply_reduce_fusion", **does}], "native": True}
    module_files.kernel_table(dump, [module_files.KernelRow(symbol, root, facts=facts)])
    function = f"define void @{symbol}() {{\n  ret void\n}}"
    for language, body in (
        ("kernel_ir.txt", f"kernel {symbol}\n  for i in 0..8\n"),
        ("ir-no-opt.ll", function),
        ("s", f"{symbol}:\n  vmulps %ymm0, %ymm1, %ymm2\n  retq"),
    ):
        module_files.kernel_texts(dump, language, [(f"kernel {symbol}", body)])
    parts = [("module 0 at code generation level 2", ""), (f"kernel {symbol}", function), ("called by these", "")]
    module_files.kernel_texts(dump, "ir-with-opt.ll", parts)
    module_files.timings(dump, {"lowering": 4.0, "passes": 7.5, "codegen": 20.0}, 33.0, target)
    module_files.sources(dump, after, {"model/mul": f"{__file__}:2", "model/sum": f"{__file__}:9"})


# Of the plan: when steps read, and what is in memory; the widened operand is dead before the loop's state begins.
MOMENTS = ((0, "multiply_reduce_fusion"), (2, "copy"), (4, "conditional"), (6, "copy"))
PLACED = (
    Placed("p0", 1024, Ref("input", 0), ((0, 2),)),
    Placed("p1", 128, Ref("input", 1), ((0, 2),)),
    Placed("multiply_reduce_fusion", 32, Ref("output", 0), ((1, 8),)),
    Placed("wide", 384, Ref("temp", 0, 64), ((1, 3),)),
    Placed("state", make("mul", sym("n", 8), 32), Ref("temp", 0, 128), ((3, 5), (6, 8))),
    Placed("copy", make("mul", sym("n", 8), 32), Ref("temp", 0, 128), ((5, 6),)),
    Placed("unused", 64, Ref("temp"), ()),
)


def plan(module: Module) -> LaunchPlan:
    """One kernel, and a loop with a branch, so that nested steps are there too."""
    entry = module.entry
    rows = sym("n", 8)
    kernel = KernelStep(
        "multiply_reduce_fusion_k0",
        (Ref("input", 0), Ref("input", 1)),
        (Ref("output", 0),),
        (rows,),
        rows,
        instr="multiply_reduce_fusion",
    )
    copy = CopyStep(Ref("temp", offset=64), Ref("temp", offset=make("mul", rows, 4)), 32, instr="copy")
    branch = BranchStep(Ref("temp"), True, ((copy,), ()), instr="conditional")
    loop = LoopStep((copy,), Ref("temp", offset=128), (branch,), instr="while")
    return LaunchPlan(
        "cluster_0",
        tuple(p.shape for p in entry.params),
        (entry.root.shape,),
        (SizeSource("n", 0, 0),),
        (kernel, loop),
        (b"\0" * 64,),
        make("mul", rows, 64),
        ((0, 0),),
    )
