// A wire that takes device memory, as an MPI does that knows CUDA: by copies through the host.
#ifndef ADASUM_TESTS_GPU_DEVICE_WIRE_CU_H_
#define ADASUM_TESTS_GPU_DEVICE_WIRE_CU_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <vector>

#include "cc/core/transport.h"
#include "cc/cuda/kernels/cuda_check.cu.h"

namespace adasum {
namespace test {

class DeviceWire : public Transport {
 public:
  explicit DeviceWire(Transport* inner) : inner_(*inner) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  bool TakesDeviceMemory(int) const override { return true; }

  void SendRecv(const Send& send, const Recv& recv) override {
    const bool sends = IsOnDevice(send.bytes, send.num_bytes);
    const bool receives = IsOnDevice(recv.bytes, recv.num_bytes);
    std::vector<char> outgoing(sends ? send.num_bytes : 0);
    std::vector<char> incoming(receives ? recv.num_bytes : 0);
    if (sends) {
      CheckCuda(cudaMemcpy(outgoing.data(), send.bytes, send.num_bytes, cudaMemcpyDeviceToHost),
                "cudaMemcpy");
      num_device_bytes += send.num_bytes;
    }
    inner_.SendRecv(
        {send.peer, sends ? outgoing.data() : send.bytes, send.num_bytes, send.lane},
        {recv.peer, receives ? incoming.data() : recv.bytes, recv.num_bytes, recv.lane});
    if (receives) {
      CheckCuda(cudaMemcpy(recv.bytes, incoming.data(), recv.num_bytes, cudaMemcpyHostToDevice),
                "cudaMemcpy");
      // From pageable memory: what cudaMemcpy has returned from may still be on its way.
      CheckCuda(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
    }
  }

  std::atomic<int64_t> num_device_bytes{0};  // sent, by any thread

 private:
  static bool IsOnDevice(const void* bytes, int64_t num_bytes) {
    if (num_bytes == 0) return false;
    cudaPointerAttributes attributes{};
    CheckCuda(cudaPointerGetAttributes(&attributes, bytes), "cudaPointerGetAttributes");
    return attributes.type == cudaMemoryTypeDevice;
  }

  Transport& inner_;
};

}  // namespace test
}  // namespace adasum

#endif  // ADASUM_TESTS_GPU_DEVICE_WIRE_CU_H_
