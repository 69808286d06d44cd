#include "cc/cuda/cuda_state.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "cc/collectives/device_tensors.h"
#include "cc/cuda/cuda_arithmetic.cu.h"
#include "cc/cuda/device_transport.cu.h"
#include "cc/cuda/resources.cu.h"

namespace adasum {
namespace {

// Destroyed in reverse order: buffers after the streams that use them have ended.
struct Leaf {
  Leaf(const WaitControl* waits, int rank, const CudaOptions& options)
      : exchanges(&stream, waits, options), arithmetic(&stream, waits, rank) {}

  LeafScratch scratch{TheDeviceMemory()};
  Exchanges exchanges;
  CudaArithmetic arithmetic;
  Stream stream;
};

// What a request of a leaf takes of it.
class RequestMemory : public LeafMemory {
 public:
  RequestMemory(Leaf* leaf, const DeviceTransport* wire, const ReduceOnDevice* reduce)
      : leaf_(*leaf), wire_(*wire), reduce_(*reduce) {}

  bool IsThere() const override {
    const Room room = reduce_.room(leaf_.arithmetic, wire_);
    const Scratch* work = leaf_.scratch.work;
    const int64_t work_bytes = wire_.requires_workspace()
                                   ? leaf_.exchanges.buffer.capacity()
                                   : std::min(work[0].capacity(), work[1].capacity());
    return room.work_bytes <= work_bytes &&
           room.receive_bytes <= leaf_.scratch.receive.capacity() &&
           leaf_.arithmetic.Holds(room.num_pieces, room.piece_bytes);
  }

  void Reserve() override {
    const Room room = reduce_.room(leaf_.arithmetic, wire_);
    if (wire_.requires_workspace()) {
      leaf_.exchanges.buffer.Get(room.work_bytes);
    } else {
      // Both, lest a second request find less than the first.
      for (Scratch& work : leaf_.scratch.work) work.Get(room.work_bytes);
    }
    leaf_.scratch.receive.Get(room.receive_bytes);
    leaf_.arithmetic.Reserve(room.num_pieces, room.piece_bytes);
  }

 private:
  Leaf& leaf_;
  const DeviceTransport& wire_;
  const ReduceOnDevice& reduce_;
};

// Ends with nothing of the leaf's work left, however the scope is left: the tensors may be freed
// then. Kernels wait for no other rank, so that this wait is short.
class Drained {
 public:
  explicit Drained(Leaf& leaf) : leaf_(leaf) {}
  ~Drained() {
    const Staging& staging = leaf_.exchanges.staging;
    const Stream* const streams[] = {&staging.off, &staging.onto, &leaf_.stream};
    for (const Stream* stream : streams) cudaStreamSynchronize(stream->get());
    leaf_.arithmetic.DropMoments();
  }
  Drained(const Drained&) = delete;
  Drained& operator=(const Drained&) = delete;

 private:
  Leaf& leaf_;
};

class CudaState : public DeviceState, public std::enable_shared_from_this<CudaState> {
 public:
  CudaState(int device, const CudaOptions& options) : device_(device), options_(options) {}
  ~CudaState() override;

  std::shared_ptr<DeviceTensors> Tensors(void* framework_stream) override;

  int device() const { return device_; }
  // Made at its first request, on the current device. `waits` must outlive this.
  Leaf& LeafOf(int replica, const WaitControl& waits, int rank) {
    std::lock_guard<std::mutex> lock(mutex_);
    return leaves_.try_emplace(replica, &waits, rank, options_).first->second;
  }

 private:
  const int device_;
  const CudaOptions options_;
  std::mutex mutex_;
  std::map<int, Leaf> leaves_;
};

CudaState::~CudaState() {
  try {
    DeviceScope scope(device_);
    leaves_.clear();
  } catch (const Error&) {
    // The driver has gone before us, and all that was on the device with it.
  }
}

class CudaTensors : public DeviceTensors {
 public:
  CudaTensors(std::shared_ptr<CudaState> state, cudaStream_t framework_stream)
      : state_(std::move(state)) {
    DeviceScope scope(state_->device());
    ready_ = std::make_unique<Event>();
    ready_->Record(framework_stream);
  }

  void Run(int replica, Transport& transport, const WaitControl& waits,
           const ReduceOnDevice& reduce) override {
    DeviceScope scope(state_->device());
    Leaf& leaf = state_->LeafOf(replica, waits, transport.WorldRank(transport.rank()));
    Drained drained(leaf);
    ready_->Hold(leaf.stream.get());
    DeviceTransport wire(&transport, &leaf.stream, &leaf.exchanges, &waits);
    RequestMemory memory(&leaf, &wire, &reduce);
    wire.Open(reduce.leaf, memory);
    reduce.reduce(leaf.arithmetic, wire, leaf.scratch);
    wire.Finish();
  }

 private:
  std::shared_ptr<CudaState> state_;
  std::unique_ptr<Event> ready_;
};

std::shared_ptr<DeviceTensors> CudaState::Tensors(void* framework_stream) {
  return std::make_shared<CudaTensors>(shared_from_this(),
                                       static_cast<cudaStream_t>(framework_stream));
}

}  // namespace

std::shared_ptr<DeviceState> MakeCudaState(int device, const CudaOptions& options) {
  return std::make_shared<CudaState>(device, options);
}

}  // namespace adasum
