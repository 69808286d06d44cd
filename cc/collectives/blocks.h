// A long list of tensors, reduced in blocks that suit the wire.
#ifndef ADASUM_COLLECTIVES_BLOCKS_H_
#define ADASUM_COLLECTIVES_BLOCKS_H_

#include <cstdint>

#include "cc/algorithms/collective_context.h"
#include "cc/core/transport.h"

namespace adasum {

// About how much moves at a time. Where ranks of a host share memory, a block stays in a core's
// cache between the passes over it (pack, moments, combine, deliver), also if some of its messages
// cross a network: two hosts of two ranks over 1 Gbit/s took longer with long blocks. Without
// shared memory blocks are as long as messages may be, since every block costs round trips.
int64_t BlockBytes(const Transport& transport);

// Reduces the leaf's tensors in blocks of whole tensors; all leaves cut alike, since their shapes
// were found equal.
void ReduceInBlocks(const LeafTensors& tensors, const CollectiveContext& context);

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_BLOCKS_H_
