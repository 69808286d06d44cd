// Copies between host and devices.

#include <cstdint>
#include <cstring>

#include "tests/cuda_stand_in/devices.h"
#include "tests/cuda_stand_in/streams.h"

using namespace cuda_stand_in;

namespace {

enum class Host { kPinned, kAny };

// The place of one side of a copy. Copies may go from and to any device.
char* Side(const void* bytes, int64_t num_bytes, bool is_on_device, Host host) {
  if (is_on_device) return OnDevice(bytes, num_bytes, kAnyDevice);
  if (host == Host::kPinned && !IsPinned(bytes, num_bytes)) {
    Die("a copy that is not asynchronous: its host memory is not pinned, or too short");
  }
  return static_cast<char*>(const_cast<void*>(bytes));
}

void Copy(void* to, const void* from, int64_t num_bytes, cudaMemcpyKind kind, Host host) {
  bool is_onto = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  bool is_off = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (kind == cudaMemcpyDefault) {
    is_onto = IsDeviceMemory(to);
    is_off = IsDeviceMemory(from);
  }
  std::memcpy(Side(to, num_bytes, is_onto, host), Side(from, num_bytes, is_off, host), num_bytes);
}

}  // namespace

cudaError_t cudaMemcpy(void* to, const void* from, size_t num_bytes, cudaMemcpyKind kind) {
  Copy(to, from, num_bytes, kind, Host::kAny);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t num_bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  Enqueue(stream, [=](int) { Copy(to, from, num_bytes, kind, Host::kPinned); });
  return cudaSuccess;
}

cudaError_t cudaMemset(void* to, int value, size_t num_bytes) {
  std::memset(OnDevice(to, num_bytes, CurrentDevice()), value, num_bytes);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t num_bytes, cudaStream_t stream) {
  Enqueue(stream,
          [=](int device) { std::memset(OnDevice(to, num_bytes, device), value, num_bytes); });
  return cudaSuccess;
}
