// What a group of ranks keeps on a device that is not the host.
#ifndef ADASUM_BOOTSTRAP_DEVICE_STATE_H_
#define ADASUM_BOOTSTRAP_DEVICE_STATE_H_

#include <memory>

namespace adasum {

class DeviceTensors;  // cc/collectives/device_tensors.h

// Streams and buffers of one device, kept between requests.
class DeviceState {
 public:
  virtual ~DeviceState() = default;

  // Tensors that are there when all work now on `framework_stream` (CUDA: a cudaStream_t) is done.
  // Does not wait.
  virtual std::shared_ptr<DeviceTensors> Tensors(void* framework_stream) = 0;
};

}  // namespace adasum

#endif  // ADASUM_BOOTSTRAP_DEVICE_STATE_H_
