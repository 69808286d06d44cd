#include "cc/cuda/cuda_place.h"

#include <map>
#include <mutex>

#include "cc/cuda/cuda_arithmetic.cu.h"
#include "cc/cuda/resources.cu.h"
#include "cc/cuda/staging_transport.cu.h"

namespace adasum {
namespace {

// Destroyed in reverse order: buffers after the streams that use them have ended.
struct Leaf {
  LeafScratch scratch{TheDeviceMemory()};
  Staging staging;
  Stream stream;
  Event done;
  std::unique_ptr<CudaArithmetic> arithmetic;
};

// Ends with nothing of the leaf's work left, however the scope is left: the tensors may be freed
// then. Kernels wait for no other rank, so that this wait is short.
class Drained {
 public:
  explicit Drained(const Leaf& leaf) : leaf_(leaf) {}
  ~Drained() {
    for (const Stream* stream : {&leaf_.staging.off, &leaf_.staging.onto, &leaf_.stream}) {
      cudaStreamSynchronize(stream->get());
    }
  }
  Drained(const Drained&) = delete;
  Drained& operator=(const Drained&) = delete;

 private:
  const Leaf& leaf_;
};

class CudaPlace : public DevicePlace, public std::enable_shared_from_this<CudaPlace> {
 public:
  explicit CudaPlace(int device) : device_(device) {}

  std::shared_ptr<DeviceTensors> Tensors(void* framework_stream) override;

  int device() const { return device_; }
  Leaf& LeafOf(int replica) {
    std::lock_guard<std::mutex> lock(mutex_);
    return leaves_[replica];
  }

 private:
  const int device_;
  std::mutex mutex_;
  std::map<int, Leaf> leaves_;
};

class CudaTensors : public DeviceTensors {
 public:
  CudaTensors(std::shared_ptr<CudaPlace> place, cudaStream_t framework_stream)
      : place_(std::move(place)) {
    DeviceScope scope(place_->device());
    ready_ = std::make_unique<Event>();
    ready_->Record(framework_stream);
  }

  void Run(int replica, Transport& transport, const WaitLimits& limits,
           const ReduceOnDevice& reduce) override {
    DeviceScope scope(place_->device());
    Leaf& leaf = place_->LeafOf(replica);
    if (!leaf.arithmetic) {
      leaf.arithmetic = std::make_unique<CudaArithmetic>(&leaf.stream, &limits, transport.rank());
    }
    Drained drained(leaf);
    ready_->Hold(leaf.stream.get());
    StagingTransport staged(&transport, &leaf.stream, &leaf.staging, &limits);
    reduce(*leaf.arithmetic, staged, leaf.scratch);
    leaf.done.Record(leaf.stream.get());
    leaf.done.Await(limits, transport.rank());
  }

 private:
  std::shared_ptr<CudaPlace> place_;
  std::unique_ptr<Event> ready_;
};

std::shared_ptr<DeviceTensors> CudaPlace::Tensors(void* framework_stream) {
  return std::make_shared<CudaTensors>(shared_from_this(),
                                       static_cast<cudaStream_t>(framework_stream));
}

}  // namespace

std::shared_ptr<DevicePlace> MakeCudaPlace(int device) {
  return std::make_shared<CudaPlace>(device);
}

}  // namespace adasum
