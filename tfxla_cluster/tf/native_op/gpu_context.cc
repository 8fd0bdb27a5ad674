// The stream, the device and the allocator of the GPU that TensorFlow runs a kernel on, for machine code.
//
// The C API refuses the stream of TensorFlow's own GPU (TF_GetStream), so this asks the C++ object behind the C API's
// context: tensorflow/c/kernels.cc makes a TF_OpKernelContext* of an OpKernelContext* by reinterpret_cast.
// Signatures: GPU_API of builder.py. Functions with a result of int64_t give 0 where nothing failed.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tensorflow/core/framework/op_kernel.h"
#include "xla/stream_executor/stream.h"
#include "xla/stream_executor/stream_executor.h"

namespace {

using stream_executor::DeviceMemoryBase;
using stream_executor::Stream;
using tensorflow::OpKernelContext;

// What the kernels of one execution allocate lives until all of them are on the stream: TensorFlow's allocator gives
// memory out again in the order of the stream.
struct Execution {
  OpKernelContext* context;
  std::vector<tensorflow::Tensor> temporaries;
};

OpKernelContext* ContextOf(void* context) { return reinterpret_cast<OpKernelContext*>(context); }

Stream* StreamOf(void* context) {
  tensorflow::DeviceContext* device = ContextOf(context)->op_device_context();
  return device == nullptr ? nullptr : device->stream();
}

void* Allocate(void* execution, int64_t bytes) {
  auto* owner = static_cast<Execution*>(execution);
  tensorflow::Tensor tensor;
  const tensorflow::TensorShape shape({std::max<int64_t>(bytes, 1)});  // of no bytes an address, too
  if (bytes < 0 || !owner->context->allocate_temp(tensorflow::DT_UINT8, shape, &tensor).ok()) return nullptr;
  owner->temporaries.push_back(tensor);
  return tensor.data();
}

bool OnHost(void* context, int64_t input) {
  return StreamOf(context) == nullptr || ContextOf(context)->input_memory_type(input) == tensorflow::HOST_MEMORY;
}

}  // namespace

extern "C" {

// CUDA's number of the device that the kernel runs on; -1 where it has no stream.
int64_t tfxla_device(void* context) {
  Stream* stream = StreamOf(context);
  return stream == nullptr ? -1 : stream->parent()->device_ordinal();
}

// Fills the words of a launch: stream, allocate, its owner, 0. It ends with tfxla_end.
void tfxla_begin(void* context, int64_t* launch) {
  Stream* stream = StreamOf(context);
  launch[0] = stream == nullptr ? 0 : reinterpret_cast<int64_t>(stream->platform_specific_handle().stream);
  launch[1] = reinterpret_cast<int64_t>(&Allocate);
  launch[2] = reinterpret_cast<int64_t>(new Execution{ContextOf(context), {}});
  launch[3] = 0;
}

void tfxla_end(int64_t* launch) { delete reinterpret_cast<Execution*>(launch[2]); }

// Memory of the device until tfxla_end; null where there is none.
void* tfxla_allocate(int64_t* launch, int64_t bytes) { return Allocate(reinterpret_cast<void*>(launch[2]), bytes); }

// Whether an input's elements are in the host's memory.
int64_t tfxla_on_host(void* context, int64_t input) { return OnHost(context, input); }

// Copies an input's elements to the host, from the device once all that is on the stream is done.
int64_t tfxla_read(void* context, int64_t input, void* target, const void* source, int64_t bytes) {
  if (bytes == 0) return 0;
  if (OnHost(context, input)) {
    std::memcpy(target, source, bytes);
    return 0;
  }
  Stream* stream = StreamOf(context);
  const DeviceMemoryBase from(const_cast<void*>(source), bytes);
  return !(stream->Memcpy(target, from, bytes).ok() && stream->BlockHostUntilDone().ok());
}

// Copies within the device, behind what is on the stream.
int64_t tfxla_copy(void* context, void* target, const void* source, int64_t bytes) {
  if (bytes == 0) return 0;
  Stream* stream = StreamOf(context);
  if (stream == nullptr) {
    std::memcpy(target, source, bytes);
    return 0;
  }
  DeviceMemoryBase to(target, bytes);
  const DeviceMemoryBase from(const_cast<void*>(source), bytes);
  return !stream->Memcpy(&to, from, bytes).ok();
}
}
