// What a rank sends in an allreduce, from the schedule alone.
#ifndef ADASUM_TESTS_CC_BYTES_SENT_H_
#define ADASUM_TESTS_CC_BYTES_SENT_H_

#include <cstdint>

#include "cc/algorithms/reduce_leaves.h"

namespace adasum {
namespace test {

// Bytes that `rank` sends in an allreduce. Of `num_moments` segments the moments are summed over
// the ranks, 24 bytes each and round; in a direct allreduce, the inner products of every two
// vectors. None for a plain sum.
int64_t BytesSent(int rank, int size, int64_t num_elements, int64_t element_bytes,
                  int64_t num_moments, Algorithm algorithm);

}  // namespace test
}  // namespace adasum

#endif  // ADASUM_TESTS_CC_BYTES_SENT_H_
