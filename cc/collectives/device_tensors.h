// The tensors of a request where they are not in host memory.
#ifndef ADASUM_COLLECTIVES_DEVICE_TENSORS_H_
#define ADASUM_COLLECTIVES_DEVICE_TENSORS_H_

#include <functional>
#include <memory>
#include <string>

#include "cc/algorithms/reduce_leaves.h"
#include "cc/core/arithmetic.h"
#include "cc/core/backoff.h"
#include "cc/core/transport.h"

namespace adasum {

// What one leaf has to do, with arithmetic and wire for device memory, and scratch that lies in it.
struct ReduceOnDevice {
  std::string leaf;  // for errors
  std::function<Room(const Arithmetic&, const Transport&)> room;
  std::function<void(Arithmetic&, Transport&, LeafScratch&)> reduce;
};

// One request. Made where the tensors are handed over, when the work that fills them may be under
// way only.
class DeviceTensors {
 public:
  virtual ~DeviceTensors() = default;

  // Calls reduce.reduce with what leaf `replica` of this process works with and returns when its
  // results are there; `transport` is the leaf's wire for host memory. Several replicas may run
  // at the same time. Throws what that throws, when no work on the tensors is left; and
  // ResourceExhausted, on all leaves of `transport` alike and before any of them has sent
  // something, where the device of one lacks the memory for reduce.room.
  virtual void Run(int replica, Transport& transport, const WaitControl& waits,
                   const ReduceOnDevice& reduce) = 0;
};

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_DEVICE_TENSORS_H_
