// How the ranks of a host come to share memory.
#ifndef ADASUM_TRANSPORT_HOST_ENDS_H_
#define ADASUM_TRANSPORT_HOST_ENDS_H_

#include <memory>
#include <vector>

#include "cc/core/backoff.h"
#include "cc/core/transport.h"
#include "cc/transport/shm_transport.h"

namespace adasum {

// What a rank wants.
struct HostEnds {
  int num_ends;         // of its own
  int num_on_host;      // of all ranks of its host
  int most_ends;        // on a host; where there are more, none
  bool shares_tensors;  // for a single end, as is
  bool copies_tensors;
};

// Connects the ends of each rank with all ends of its host; collective over `ranks`.
// `first_on_host` is the number of each rank's first end, whose others follow it, in the order of
// the ranks of this host; -1 for ranks elsewhere. Empty, on all ranks alike, where memory can't be
// shared on one of them: another process namespace, too many ends. They share tensors, and copy
// them, if all ranks want that and can.
std::vector<std::unique_ptr<ShmTransport>> ConnectHostEnds(Transport& ranks,
                                                           const std::vector<int>& first_on_host,
                                                           const HostEnds& wanted,
                                                           const WaitControl& waits);

}  // namespace adasum

#endif  // ADASUM_TRANSPORT_HOST_ENDS_H_
