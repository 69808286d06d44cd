// Just enough of CUDA C++ to run this library's kernels on a CPU, so that their indices, their
// order of sums and their synchronisation are tested where there is no GPU. It says nothing about
// speed, nor about memory models: threads of a block take slots in one thread of the process.
//
// Include it before a .cu.h file. A block's threads are fibers that switch at barriers and
// shuffles only; a barrier that some threads never reach fails the test instead of hanging it.
#ifndef ADASUM_TESTS_CC_CUDA_EMULATION_H_
#define ADASUM_TESTS_CC_CUDA_EMULATION_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "tests/cc/elements.h"

#define __global__
#define __device__
#define __launch_bounds__(...)
// One block runs at a time.
#define __shared__ static
#define __builtin_assume(condition) static_cast<void>(condition)

struct uint2 {
  uint32_t x, y;
};
struct uint4 {
  uint32_t x, y, z, w;
};

struct __half {
  uint16_t bits;
};
struct __nv_bfloat16 {
  uint16_t bits;
};
inline float __half2float(__half value) {
  return static_cast<float>(adasum::test::kHalf.Decode(value.bits));
}
inline float __bfloat162float(__nv_bfloat16 value) {
  return static_cast<float>(adasum::test::kBrain.Decode(value.bits));
}
inline __half __float2half_rn(float value) { return {adasum::test::kHalf.Encode(value)}; }
inline __nv_bfloat16 __float2bfloat16_rn(float value) {
  return {adasum::test::kBrain.Encode(value)};
}

// As CUDA's: only x is used here.
struct EmulatedIndex {
  int x;
};
extern EmulatedIndex threadIdx;
extern EmulatedIndex blockIdx;
extern EmulatedIndex gridDim;

namespace adasum {
namespace test {

// The value that `lane` of the calling thread's warp gave to the shuffle that all are in.
double ShuffledFrom(double value, int lane);

// Runs a kernel: `body` is what one thread does. Blocks run one after the other, in an order drawn
// from `seed`. Throws std::logic_error if threads of a block wait for different barriers.
void RunGrid(int num_blocks, int num_threads, unsigned seed, const std::function<void()>& body);

}  // namespace test
}  // namespace adasum

void __syncthreads();

inline double __shfl_down_sync(unsigned, double value, int distance) {
  const int lane = threadIdx.x % 32 + distance;
  // CUDA gives a lane its own value where there is no such other.
  const double other = adasum::test::ShuffledFrom(value, lane < 32 ? lane : threadIdx.x % 32);
  return other;
}

// Blocks take slots: what one has written the next one sees.
inline void __threadfence() {}
inline double __ldcg(const double* address) { return *address; }
inline bool __isGlobal(const void*) { return true; }

inline unsigned atomicInc(unsigned* counter, unsigned limit) {
  const unsigned old = *counter;
  *counter = old >= limit ? 0 : old + 1;
  return old;
}

#endif  // ADASUM_TESTS_CC_CUDA_EMULATION_H_
