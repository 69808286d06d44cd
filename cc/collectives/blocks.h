// A long list of tensors, reduced in blocks that suit the wire.
#ifndef ADASUM_COLLECTIVES_BLOCKS_H_
#define ADASUM_COLLECTIVES_BLOCKS_H_

#include <cstdint>

#include "cc/algorithms/collective_context.h"
#include "cc/core/transport.h"

namespace adasum {

// About how much moves at a time: what stays in a core's cache between the passes over it (pack,
// moments, combine, deliver) where the ranks read each other's memory. Over a network one long
// message is worth more than a warm cache.
int64_t BlockBytes(const Transport& transport);

// Reduces the leaf's tensors in blocks of whole tensors; all leaves cut alike, since their shapes
// were found equal.
void ReduceInBlocks(const LeafTensors& tensors, const CollectiveContext& context);

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_BLOCKS_H_
