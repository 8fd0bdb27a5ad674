"""Word layouts of the GPU's launcher, behind those of `runtime.launcher.record_layout`: offsets in 8-byte words."""

from __future__ import annotations

from ..launcher.record_layout import RECORD, table

# What the record of a GPU's executable has behind RECORD:
#   driver: table of addresses of DRIVER_CALLS; context: the device's; host_slots: HOST_SLOTS words, each the address
#   of 64 bytes of page-locked memory or 0 while an execution has it
#   parameters_word: where in the front the addresses of a launch's arguments lie; inputs_word: the inputs' table
#   input_count, output_count; input_bytes: table of value slots, the bytes of each input
#   graphs: 0, or the words of GRAPHS; key_word: where in the front the key of a graph lies
#   capture_streams: CAPTURE_STREAMS words, each a stream to capture on or 0 while an execution has it
_GPU_RECORD = """
    driver context host_slots parameters_word inputs_word input_count input_bytes output_count graphs key_word
    capture_streams"""
GPU_RECORD = {name: len(RECORD) + index for name, index in table(_GPU_RECORD).items()}
HOST_SLOTS = 64
CAPTURE_STREAMS = 16

# The CUDA graphs of an executable. calls: executions so far; next: the slot for a new graph; exact: 1 where equal
# keys may use a graph as it is; then how often a graph was launched as it was, updated and made, how often none was
# free, and how often one could not be made. Behind them GRAPH_SLOTS slots of GRAPH_SLOT and a key: what the addresses
# in the graph come from, that is the arena, sizes, inputs and outputs.
GRAPHS = table("calls next exact key_words replayed updated made busy failed")
GRAPH_SLOTS = 4
GRAPH_SLOT = table("taken executable")
FIRST_GRAPH_CALL = 2  # executions before: the driver may still load kernels, which a capture does not allow
MOST_FAILURES = 4  # after which no further graph is tried

# What a kernel step's code word points at. function: 0 for a library. product, convolution: 0, or the words of PRODUCT
# or CONVOLUTION. routine: 0, or what runs on the host and puts result_bytes bytes into its first output. threads: of a
# block. ctas: blocks of a cluster. attributes: of cuLaunchKernelEx, attribute_count of them. scratch_bytes: of global
# memory that each block needs. grid_y, grid_z: blocks along the second and third axis.
KERNEL = table("""
    function threads shared_bytes ctas attributes attribute_count scratch_bytes routine result_bytes grid_y grid_z
    product convolution""")
MOST_RESULT_BYTES = 64

# What a call of cublasLtMatmul takes besides the addresses of the operands and the stream: itself, then its arguments
# (one, zero: where these factors lie; right, left, result: descriptors of what they lie as).
PRODUCT = table("function handle operation one zero right left result algorithm workspace_bytes")

# A convolution by cuDNN: its handle for the device and the word that is 1 while a thread has that; the engine's plan;
# identifiers of operands 0 and 1 and of the result; then functions of the library.
CONVOLUTION = table("""
    lock handle plan identifiers workspace_bytes set_stream create set finalize execute destroy""")

# Functions of the driver that the machine code calls, in the order of their table.
DRIVER_CALLS = table("""
    cuCtxGetCurrent cuCtxSetCurrent cuLaunchKernel cuLaunchKernelEx cuMemcpyDtoDAsync_v2 cuMemcpyDtoHAsync_v2
    cuMemcpyHtoDAsync_v2 cuStreamSynchronize cuEventCreate cuEventRecord cuEventSynchronize cuEventElapsedTime
    cuEventDestroy_v2 cuMemAllocAsync cuMemFreeAsync cuStreamBeginCapture_v2 cuStreamEndCapture
    cuGraphInstantiateWithFlags cuGraphExecUpdate_v2 cuGraphExecDestroy cuGraphDestroy cuGraphLaunch""")

# The caller's words: the stream to launch on, `void* allocate(void* owner, int64 bytes)` of device memory that lives
# until the stream is through with this execution (NULL: out of memory), and its owner.
LAUNCH = table("stream allocate owner reserved")

# The owner of `gpu_workspace`: memory of earlier executions on one stream, used again in the order of requests.
# Behind these words `capacity` pairs (address, bytes).
WORKSPACE = table("next capacity stream driver")

# More of `status`: a grid of more blocks than the driver takes; CUDA_ERROR minus the CUresult of a driver's call, of
# which there are fewer than a thousand; STATUS_PRODUCT minus a cublasStatus_t, STATUS_CONVOLUTION minus a
# cudnnStatus_t.
STATUS_TOO_LARGE, STATUS_CUDA, STATUS_PRODUCT, STATUS_CONVOLUTION = -3, -1000, -2000, -10000
CUDA_OUT_OF_MEMORY = 2
MOST_BLOCKS = (1 << 31) - 1
