// A long list of tensors, reduced in blocks that suit the wire.
#ifndef ADASUM_COLLECTIVES_BLOCKS_H_
#define ADASUM_COLLECTIVES_BLOCKS_H_

#include <cstdint>

#include "cc/algorithms/collective_context.h"
#include "cc/core/transport.h"

namespace adasum {

// About how much moves at a time. Where all ranks read each other's memory, a block stays in a
// core's cache between the passes over it (pack, moments, combine, deliver). If messages cross a
// network, also between some of the ranks only, blocks are as long as messages may be: each block
// costs a round trip per level, which is more than a warm cache saves.
int64_t BlockBytes(const Transport& transport);

// Reduces the leaf's tensors in blocks of whole tensors; all leaves cut alike, since their shapes
// were found equal.
void ReduceInBlocks(const LeafTensors& tensors, const CollectiveContext& context);

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_BLOCKS_H_
