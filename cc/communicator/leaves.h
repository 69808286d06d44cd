// The replicas of one process, side by side.
#ifndef ADASUM_COMMUNICATOR_LEAVES_H_
#define ADASUM_COMMUNICATOR_LEAVES_H_

#include <functional>

namespace adasum {

// Calls body(replica) for each replica at the same time, the calling thread included, and returns
// when all have. Rethrows the first exception; the limits of the waits inside end the others.
void ForEachReplica(int num_replicas, const std::function<void(int)>& body);

}  // namespace adasum

#endif  // ADASUM_COMMUNICATOR_LEAVES_H_
