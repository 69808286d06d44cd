// Memory of this process, as Linux counts it.
#ifndef ADASUM_TESTS_SCALE_RESIDENT_H_
#define ADASUM_TESTS_SCALE_RESIDENT_H_

#include <cstdint>

namespace adasum {
namespace test {

// Bytes that are resident, those that K processes have mapped counted as one K-th, and the tables
// of their pages. Throws std::runtime_error where /proc does not tell.
int64_t ResidentBytes();

}  // namespace test
}  // namespace adasum

#endif  // ADASUM_TESTS_SCALE_RESIDENT_H_
