// The broadcast of a list of buffers, as a request to a communicator.
#ifndef ADASUM_COLLECTIVES_BROADCAST_H_
#define ADASUM_COLLECTIVES_BROADCAST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/engine/request.h"

namespace adasum {

struct BroadcastTensors {
  std::string name;
  std::string signature;  // dtypes and shapes, compared across ranks
  int root;               // one of the ranks
  // Read on the root, written elsewhere.
  std::vector<void*> buffers;
  std::vector<int64_t> num_bytes;
};

// Copies the root's bytes to all ranks of `transport`; collective. Where all of them share memory
// they read long buffers there; others travel down a tree of messages.
void Broadcast(Transport& transport, int root, const std::vector<void*>& buffers,
               const std::vector<int64_t>& sizes);

// The same as a request; where hosts have several ranks to one of each host first. `done` is the
// caller's to set.
Request BroadcastRequest(BroadcastTensors tensors);

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_BROADCAST_H_
