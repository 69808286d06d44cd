// How an MPI tag is made of a group's number (mpi_contexts.h) and a lane. Also for what is
// preloaded to watch messages (benchmarks/late_wire.cc).
#ifndef ADASUM_TRANSPORT_MPI_TAGS_H_
#define ADASUM_TRANSPORT_MPI_TAGS_H_

#include "cc/core/transport.h"

namespace adasum {

// Beside the lanes, for a rank that leaves (Transport::Leave).
constexpr int kLeaveLane = kMaxLanes;
constexpr int kTagsOfContext = kMaxLanes + 1;

constexpr int TagOf(int context, int lane) { return context * kTagsOfContext + lane; }
constexpr int LaneOf(int tag) { return tag % kTagsOfContext; }

}  // namespace adasum

#endif  // ADASUM_TRANSPORT_MPI_TAGS_H_
