// Copies between host and devices.

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

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

// As a GPU does it: what comes from pageable memory is on its way when this returns, and no more.
cudaError_t cudaMemcpy(void* to, const void* from, size_t num_bytes, cudaMemcpyKind kind) {
  cudaStreamSynchronize(nullptr);
  if (kind != cudaMemcpyHostToDevice || IsPinned(from, num_bytes)) {
    Copy(to, from, num_bytes, kind, Host::kAny);
    return cudaSuccess;
  }
  const char* bytes = static_cast<const char*>(from);
  const auto staged = std::make_shared<std::vector<char>>(bytes, bytes + num_bytes);
  Enqueue(DefaultStream(), [=](int) { Copy(to, staged->data(), num_bytes, kind, Host::kAny); });
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t num_bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  Enqueue(stream, [=](int) { Copy(to, from, num_bytes, kind, Host::kPinned); });
  return cudaSuccess;
}

// Returns before it is done.
cudaError_t cudaMemset(void* to, int value, size_t num_bytes) {
  return cudaMemsetAsync(to, value, num_bytes, DefaultStream());
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t num_bytes, cudaStream_t stream) {
  Enqueue(stream,
          [=](int device) { std::memset(OnDevice(to, num_bytes, device), value, num_bytes); });
  return cudaSuccess;
}
