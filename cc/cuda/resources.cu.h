// The CUDA runtime's objects, each freed by its owner's end. They belong to the device that is
// current when they are made.
#ifndef ADASUM_CUDA_RESOURCES_CU_H_
#define ADASUM_CUDA_RESOURCES_CU_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>

#include "cc/core/backoff.h"
#include "cc/core/memory.h"
#include "cc/cuda/kernels/cuda_check.cu.h"

namespace adasum {

// Makes a device current for this thread, until the end of the scope.
//
// From CUDA 12 on cudaSetDevice makes a context on its device, some 500 MB of memory, and device 0
// is current on every new thread: so a device is made current again only where a scope was on it
// before. TensorFlow calls with the device of the op current, for which nothing is set at all.
class DeviceScope {
 public:
  explicit DeviceScope(int device) : device_(device) {
    CheckCuda(cudaGetDevice(&before_), "cudaGetDevice");
    if (device_ != before_) CheckCuda(cudaSetDevice(device_), "cudaSetDevice");
    used_devices_ |= Bit(device_);
  }
  ~DeviceScope() {
    if (device_ != before_ && (used_devices_ & Bit(before_)) != 0) cudaSetDevice(before_);
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  static uint64_t Bit(int device) { return uint64_t{1} << (device % 64); }
  static inline std::atomic<uint64_t> used_devices_{0};

  const int device_;
  int before_ = 0;
};

// Marks a point in a stream; takes no times.
class Event {
 public:
  Event() {
    CheckCuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreate");
  }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void Record(cudaStream_t stream) {
    CheckCuda(cudaEventRecord(event_, stream), "cudaEventRecord");
  }
  // Lets `stream` go on only when what was recorded is done; does not wait here.
  void Hold(cudaStream_t stream) const {
    CheckCuda(cudaStreamWaitEvent(stream, event_, 0), "cudaStreamWaitEvent");
  }
  // Waits here until what was recorded is done; at once if nothing was.
  void Await(const WaitControl& waits, int rank) const {
    Backoff backoff(waits, "work on a GPU", rank);
    for (;;) {
      const cudaError_t state = cudaEventQuery(event_);
      if (state != cudaErrorNotReady) return CheckCuda(state, "Work on a GPU");
      backoff.Pause();
    }
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// Work in order, beside that of other streams and of the default one.
class Stream {
 public:
  Stream() {
    CheckCuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  ~Stream() {
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t get() const { return stream_; }
  // Goes on only when all that is in `other` now is done.
  void Follow(const Stream& other) {
    followed_.Record(other.get());
    followed_.Hold(stream_);
  }

 private:
  cudaStream_t stream_ = nullptr;
  Event followed_;
};

// Memory of the current device.
class DeviceMemory : public Memory {
 public:
  void* Allocate(int64_t num_bytes) override {
    void* bytes = nullptr;
    const cudaError_t code = cudaMalloc(&bytes, num_bytes);
    if (code == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      throw Error(ErrorCode::kResourceExhausted,
                  "Expected " + std::to_string(num_bytes) +
                      " free bytes of GPU memory. Received: fewer. Let TensorFlow leave some: "
                      "TF_FORCE_GPU_ALLOW_GROWTH=true.");
    }
    CheckCuda(code, "cudaMalloc");
    return bytes;
  }
  void Free(void* bytes) override { cudaFree(bytes); }
};

// Host memory that the GPU copies from and to by itself.
class PinnedMemory : public Memory {
 public:
  void* Allocate(int64_t num_bytes) override {
    void* bytes = nullptr;
    const cudaError_t code = cudaMallocHost(&bytes, num_bytes);
    if (code == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      throw Error(
          ErrorCode::kResourceExhausted,
          "Expected " + std::to_string(num_bytes) +
              " bytes of pinned host memory. Received: fewer. Run fewer ranks on this host.");
    }
    CheckCuda(code, "cudaMallocHost");
    return bytes;
  }
  void Free(void* bytes) override { cudaFreeHost(bytes); }
};

// Both have no state.
inline DeviceMemory& TheDeviceMemory() {
  static DeviceMemory memory;
  return memory;
}
inline PinnedMemory& ThePinnedMemory() {
  static PinnedMemory memory;
  return memory;
}

}  // namespace adasum

#endif  // ADASUM_CUDA_RESOURCES_CU_H_
