// The moments of all pieces of a list in one launch.
//
// The order of every sum follows from a piece's values and their offsets in the piece alone, not
// from alignment, grid or which block comes first: equal vectors have equal moments, bit by bit.
// A thread adds its groups of 16 bytes in order, a block its threads in a tree, and the block that
// is the last of a piece adds the sums of all its chunks, in their order.
#ifndef ADASUM_CUDA_KERNELS_CUDA_MOMENTS_CU_H_
#define ADASUM_CUDA_KERNELS_CUDA_MOMENTS_CU_H_

#include "cc/cuda/kernels/cuda_elements.cu.h"
#include "cc/cuda/kernels/cuda_work.h"

namespace adasum {
namespace cuda {

constexpr int kThreads = 256;
// Four blocks of 256 threads with 4 loads of 16 bytes under way each are 64 KiB for a
// multiprocessor; an H200 needs about 25 KiB to keep its memory busy.
constexpr int kBlocksPerMultiprocessor = 4;
constexpr int kWarps = kThreads / 32;
constexpr unsigned kAllLanes = 0xffffffffu;

template <typename T, int kCount>
__device__ inline void Accumulate(const Group<T, kCount>& left, const Group<T, kCount>& right,
                                  Moments* sums) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const double a = ToDouble(left.values[i]);
    const double b = ToDouble(right.values[i]);
    sums->dot = fma(a, b, sums->dot);
    sums->left_norm2 = fma(a, a, sums->left_norm2);
    sums->right_norm2 = fma(b, b, sums->right_norm2);
  }
}

// This thread's share of `count` elements. Operands that are not aligned to 16 bytes are loaded
// element by element, and added in the same order.
template <typename T, bool kAligned>
__device__ inline Moments ThreadMoments(const T* left, const T* right, int count) {
  constexpr int kCount = kGroupOf<T>;
  constexpr int kUnroll = kAligned ? 2 : 1;
  using Elements = Group<T, kCount>;
  auto load = [](Elements* group, const T* from) {
    if (kAligned) {
      group->LoadAligned(from);
    } else {
      group->LoadEach(from);
    }
  };
  Moments sums = {0, 0, 0};
  const int num_groups = count / kCount;
  int group = threadIdx.x;
  for (; group + (kUnroll - 1) * kThreads < num_groups; group += kUnroll * kThreads) {
    Elements a[kUnroll], b[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      load(&a[i], left + (group + i * kThreads) * kCount);
      load(&b[i], right + (group + i * kThreads) * kCount);
    }
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) Accumulate(a[i], b[i], &sums);
  }
  for (; group < num_groups; group += kThreads) {
    Elements a, b;
    load(&a, left + group * kCount);
    load(&b, right + group * kCount);
    Accumulate(a, b, &sums);
  }
  const int rest = num_groups * kCount + threadIdx.x;
  if (rest < count) {
    const Group<T, 1> a = {{left[rest]}}, b = {{right[rest]}};
    Accumulate(a, b, &sums);
  }
  return sums;
}

// The sum over the block's threads, in thread 0. Every thread of the block calls it; a barrier
// must lie between two calls.
__device__ inline Moments SumOfBlock(Moments sums) {
  __shared__ Moments of_warp[kWarps];
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    sums.dot += __shfl_down_sync(kAllLanes, sums.dot, distance);
    sums.left_norm2 += __shfl_down_sync(kAllLanes, sums.left_norm2, distance);
    sums.right_norm2 += __shfl_down_sync(kAllLanes, sums.right_norm2, distance);
  }
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sums;
  __syncthreads();
  if (threadIdx.x == 0) {
#pragma unroll
    for (int warp = 1; warp < kWarps; ++warp) {
      sums.dot += of_warp[warp].dot;
      sums.left_norm2 += of_warp[warp].left_norm2;
      sums.right_norm2 += of_warp[warp].right_norm2;
    }
  }
  return sums;
}

// Whether this block is the last of `num_chunks` that come here for a piece; the same answer in
// all threads. What the other blocks wrote before is visible then, but not through L1.
__device__ inline bool IsLastArrival(unsigned* arrivals, unsigned num_chunks) {
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
    __threadfence();
    // The counter wraps to zero at the last arrival: ready for the next launch.
    is_last = atomicInc(arrivals, num_chunks - 1) == num_chunks - 1;
    __threadfence();
  }
  __syncthreads();
  return is_last;
}

__device__ inline Moments ThreadShareOf(const Moments* partials, int64_t num_chunks) {
  Moments sums = {0, 0, 0};
  for (int64_t chunk = threadIdx.x; chunk < num_chunks; chunk += kThreads) {
    // From L2: another block's sums, maybe in a cache line that this multiprocessor read before.
    sums.dot += __ldcg(&partials[chunk].dot);
    sums.left_norm2 += __ldcg(&partials[chunk].left_norm2);
    sums.right_norm2 += __ldcg(&partials[chunk].right_norm2);
  }
  return sums;
}

template <typename T>
__global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor)
    MomentsKernel(CudaWork work, CudaMomentsMemory memory) {
  constexpr int64_t kElements = kCudaChunkBytes / sizeof(T);
  for (int64_t index = blockIdx.x; index < work.num_chunks; index += gridDim.x) {
    const CudaChunk chunk = work.chunks[index];
    const CudaPiece piece = work.pieces[chunk.piece];
    const int64_t begin = chunk.index * kElements;
    const T* left = Global<const T>(piece.left) + begin;
    const T* right = Global<const T>(piece.right) + begin;
    const int64_t behind = piece.num_elements - begin;
    const int count = static_cast<int>(behind < kElements ? behind : kElements);
    using Elements = Group<T, kGroupOf<T>>;
    const bool is_aligned = Elements::Aligns(left) && Elements::Aligns(right);
    const Moments sums = SumOfBlock(is_aligned ? ThreadMoments<T, true>(left, right, count)
                                               : ThreadMoments<T, false>(left, right, count));
    const bool is_whole = piece.num_chunks == 1;
    Moments* result = is_whole ? &memory.moments[chunk.piece] : &memory.partials[index];
    if (threadIdx.x == 0) *result = sums;
    if (is_whole) {
      __syncthreads();
    } else if (IsLastArrival(&memory.arrivals[chunk.piece],
                             static_cast<unsigned>(piece.num_chunks))) {
      const Moments total =
          SumOfBlock(ThreadShareOf(memory.partials + piece.first_chunk, piece.num_chunks));
      if (threadIdx.x == 0) memory.moments[chunk.piece] = total;
      __syncthreads();
    }
  }
}

}  // namespace cuda
}  // namespace adasum

#endif  // ADASUM_CUDA_KERNELS_CUDA_MOMENTS_CU_H_
