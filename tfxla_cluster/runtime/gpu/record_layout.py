"""Word layouts of the GPU's launcher, behind those of `runtime.cpu.record_layout`: offsets in 8-byte words."""

from __future__ import annotations

from ..cpu.record_layout import RECORD, table

# What the record of a GPU's executable has behind RECORD:
#   driver: table of addresses of DRIVER_CALLS; context: the device's; host_slots: HOST_SLOTS words, each the address
#   of 64 bytes of page-locked memory or 0 while an execution has it
#   parameters_word: where in the front the addresses of a launch's arguments lie; inputs_word: the inputs' table
#   input_count; input_bytes: table of value slots, the bytes of each input
_GPU_RECORD = "driver context host_slots parameters_word inputs_word input_count input_bytes"
GPU_RECORD = {name: len(RECORD) + index for name, index in table(_GPU_RECORD).items()}
HOST_SLOTS = 64

# What a kernel step's code word points at. function: 0 for a library routine, which runs on the host and puts
# result_bytes bytes into its first output. threads: of a block. ctas: blocks of a cluster. attributes: of
# cuLaunchKernelEx, attribute_count of them. scratch_bytes: of global memory that each block needs. grid_y,
# grid_z: blocks along the second and third axis.
KERNEL = table(
    "function threads shared_bytes ctas attributes attribute_count scratch_bytes routine result_bytes grid_y grid_z"
)
MOST_RESULT_BYTES = 64

# Functions of the driver that the machine code calls, in the order of their table.
DRIVER_CALLS = table("""
    cuCtxGetCurrent cuCtxSetCurrent cuLaunchKernel cuLaunchKernelEx cuMemcpyDtoDAsync_v2 cuMemcpyDtoHAsync_v2
    cuMemcpyHtoDAsync_v2 cuStreamSynchronize cuEventCreate cuEventRecord cuEventSynchronize cuEventElapsedTime
    cuEventDestroy_v2 cuMemAllocAsync cuMemFreeAsync""")

# The caller's words: the stream to launch on, `void* allocate(void* owner, int64 bytes)` of device memory that lives
# until the stream is through with this execution (NULL: out of memory), and its owner.
LAUNCH = table("stream allocate owner reserved")

# The owner of `gpu_workspace`: memory of earlier executions on one stream, used again in the order of requests.
# Behind these words `capacity` pairs (address, bytes).
WORKSPACE = table("next capacity stream driver")

# More of `status`: a grid of more blocks than the driver takes; CUDA_ERROR minus the CUresult of a driver's call.
STATUS_TOO_LARGE, STATUS_CUDA = -3, -1000
CUDA_OUT_OF_MEMORY = 2
MOST_BLOCKS = (1 << 31) - 1
