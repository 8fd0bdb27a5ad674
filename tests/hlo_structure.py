"""Cases of opcodes that move elements, of gather and scatter."""

# ruff: noqa: E501  (lines of HLO text stay whole)
from __future__ import annotations

from tests.hlo_case import EXACT, Case, combiner, module

_MOVES = {
    "broadcast": "x = f32[3,5] parameter(0)\n ROOT r = f32[2,3,4,5] broadcast(x), dimensions={1,3}",
    "broadcast-scalar": "x = bf16[] parameter(0)\n ROOT r = bf16[3,0,2] broadcast(x), dimensions={}",
    "reshape": "x = f32[3,4] parameter(0)\n ROOT r = f32[2,1,6] reshape(x)",
    "transpose": "x = s32[2,3,5] parameter(0)\n ROOT r = s32[5,2,3] transpose(x), dimensions={2,0,1}",
    "reverse": "x = f32[3,4] parameter(0)\n ROOT r = f32[3,4] reverse(x), dimensions={1,0}",
    "slice": "x = f32[9,7] parameter(0)\n ROOT r = f32[4,3] slice(x), slice={[1:8:2], [4:7]}",
    "pad": "x = f32[3,4] parameter(0)\n v = f32[] parameter(1)\n ROOT r = f32[8,3] pad(x, v), padding=1_2_1x-1_0",
    "pad-negative": "x = f32[4,3] parameter(0)\n v = f32[] parameter(1)\n ROOT r = f32[5,7] pad(x, v), padding=-1_-1_1x2_2",
    "concatenate": "x = f32[2,3] parameter(0)\n y = f32[2,0] parameter(1)\n z = f32[2,5] parameter(2)\n"
    " ROOT r = f32[2,8] concatenate(x, y, z), dimensions={1}",
    "iota": "ROOT r = bf16[3,300] iota(), iota_dimension=1",
    "iota-pred": "ROOT r = s8[2,130] iota(), iota_dimension=1",
}
_GATHERS = {
    "dynamic-slice": "x = f32[5,7] parameter(0)\n i = s32[] parameter(1)\n j = s32[] parameter(2)\n"
    " ROOT r = f32[2,3] dynamic-slice(x, i, j), dynamic_slice_sizes={2,3}",
    "dynamic-update-slice": "x = f32[5,7] parameter(0)\n u = f32[2,3] parameter(1)\n i = s32[] parameter(2)\n"
    " j = s32[] parameter(3)\n ROOT r = f32[5,7] dynamic-update-slice(x, u, i, j)",
    "gather-rows": "x = f32[6,4] parameter(0)\n i = s32[9] parameter(1)\n ROOT r = f32[9,4] gather(x, i),"
    " offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}",
    "gather-windows": "x = f32[6,5,4] parameter(0)\n i = s32[2,7] parameter(1)\n ROOT r = f32[3,7,4] gather(x, i),"
    " offset_dims={0,2}, collapsed_slice_dims={1}, start_index_map={2,0}, index_vector_dim=0,"
    " slice_sizes={3,1,4}",
    "gather-batch": "x = f32[3,6,4] parameter(0)\n i = s32[3,2,1] parameter(1)\n ROOT r = f32[3,2,4] gather(x, i),"
    " offset_dims={2}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0},"
    " start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1,4}",
}


def structure() -> list[Case]:
    cases = [Case(name, module(body), EXACT) for name, body in _MOVES.items()]
    cases += [Case(name, module(body), EXACT, low=-3, high=9) for name, body in _GATHERS.items()]
    for op in ("add", "minimum"):
        cases.append(
            Case(
                f"scatter-{op}",
                module(
                    "x = f32[6,4] parameter(0)\n i = s32[9,1] parameter(1)\n u = f32[9,4] parameter(2)\n"
                    " ROOT r = f32[6,4] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0},"
                    " scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f",
                    combiner(op, "f32"),
                ),
                ulps=8,
                low=-2,
                high=8,
                finite=True,
            )
        )
    cases.append(
        Case(
            "scatter-windows",
            module(
                "x = s32[6,5] parameter(0)\n i = s32[2,3] parameter(1)\n u = s32[3,2,3] parameter(2)\n"
                " ROOT r = s32[6,5] scatter(x, i, u), update_window_dims={1,2}, inserted_window_dims={},"
                " scatter_dims_to_operand_dims={0,1}, index_vector_dim=0, to_apply=f",
                combiner("add", "s32"),
            ),
            EXACT,
            low=-1,
            high=5,
        )
    )
    return cases
