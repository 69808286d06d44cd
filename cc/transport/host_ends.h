// How the ranks of a host come to share memory.
#ifndef ADASUM_TRANSPORT_HOST_ENDS_H_
#define ADASUM_TRANSPORT_HOST_ENDS_H_

#include <memory>
#include <vector>

#include "cc/core/backoff.h"
#include "cc/core/transport.h"
#include "cc/transport/shm_transport.h"

namespace adasum {

// Connects `num_ends` ends of each rank with all ends of its host; collective over `ranks`.
// `index_on_host` numbers the ranks of this host from 0, -1 for others: end k of a rank is number
// index * num_ends + k. Empty, on all ranks alike, where memory can't be shared on one of them:
// another process namespace, more than `most_ends` of the rank's own on a host.
std::vector<std::unique_ptr<ShmTransport>> ConnectHostEnds(Transport& ranks,
                                                           const std::vector<int>& index_on_host,
                                                           int num_ends, int most_ends,
                                                           const WaitControl& waits);

}  // namespace adasum

#endif  // ADASUM_TRANSPORT_HOST_ENDS_H_
