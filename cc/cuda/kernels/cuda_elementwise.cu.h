// Everything that works element by element, on all pieces of a list in one launch: combine, add,
// logical and, divide, copies and conversions (pack and unpack).
#ifndef ADASUM_CUDA_KERNELS_CUDA_ELEMENTWISE_CU_H_
#define ADASUM_CUDA_KERNELS_CUDA_ELEMENTWISE_CU_H_

#include "cc/cuda/kernels/cuda_elements.cu.h"
#include "cc/cuda/kernels/cuda_moments.cu.h"
#include "cc/cuda/kernels/cuda_operations.cu.h"
#include "cc/cuda/kernels/cuda_work.h"

namespace adasum {
namespace cuda {

// How results get to their second address, if they have one.
enum class Second {
  kNone,
  kInGroups,  // aligned as the first
  kEach,      // element by element, from the registers that hold a group
};

template <typename Operation>
struct Places {
  typename Operation::Out* out;
  typename Operation::Out* copy;  // null for Second::kNone
};

// Groups `group`, `group` + kThreads, ... kUnroll of them: all loads before the first store.
template <Second kSecond, int kUnroll, int kCount, typename Operation, typename Function>
__device__ inline void ApplyGroups(const Function& function, int group,
                                   const typename Operation::In* left,
                                   const typename Operation::In* right, Places<Operation> to) {
  Group<typename Operation::In, kCount> a[kUnroll], b[kUnroll];
#pragma unroll
  for (int i = 0; i < kUnroll; ++i) {
    const int element = (group + i * kThreads) * kCount;
    a[i].LoadAligned(left + element);
    if (Operation::kReadsRight) b[i].LoadAligned(right + element);
  }
#pragma unroll
  for (int i = 0; i < kUnroll; ++i) {
    const int element = (group + i * kThreads) * kCount;
    Group<typename Operation::Out, kCount> c;
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      c.values[k] = function(a[i].values[k], (Operation::kReadsRight ? b : a)[i].values[k]);
    }
    c.StoreAligned(to.out + element);
    if (kSecond == Second::kInGroups) c.StoreAligned(to.copy + element);
    if (kSecond == Second::kEach) c.StoreEach(to.copy + element);
  }
}

// Elements [begin, end) one by one.
template <Second kSecond, typename Operation, typename Function>
__device__ inline void ApplyEach(const Function& function, int begin, int end,
                                 const typename Operation::In* left,
                                 const typename Operation::In* right, Places<Operation> to) {
  for (int i = begin + threadIdx.x; i < end; i += kThreads) {
    const typename Operation::Out result =
        function(left[i], (Operation::kReadsRight ? right : left)[i]);
    to.out[i] = result;
    if (kSecond != Second::kNone) to.copy[i] = result;
  }
}

// Elements in 16 bytes of the wider of both types.
template <typename Operation>
constexpr int kGroupOfBoth = kGroupOf<typename Operation::In> < kGroupOf<typename Operation::Out>
                                 ? kGroupOf<typename Operation::In>
                                 : kGroupOf<typename Operation::Out>;

// The `head` elements up to the first aligned one, the groups, and the rest. Each element is read
// and written by one thread, so that both addresses may be operands.
template <Second kSecond, typename Operation, typename Function>
__device__ inline void ApplyParts(const Function& function, int head, int count,
                                  const typename Operation::In* left,
                                  const typename Operation::In* right, Places<Operation> to) {
  constexpr int kCount = kGroupOfBoth<Operation>;
  constexpr int kUnroll = Operation::kUnroll;
  const int num_groups = (count - head) / kCount;
  const typename Operation::In* left_groups = left + head;
  const typename Operation::In* right_groups = Operation::kReadsRight ? right + head : left_groups;
  const Places<Operation> to_groups = {to.out + head,
                                       kSecond == Second::kNone ? nullptr : to.copy + head};
  int group = threadIdx.x;
  for (; group + (kUnroll - 1) * kThreads < num_groups; group += kUnroll * kThreads) {
    ApplyGroups<kSecond, kUnroll, kCount>(function, group, left_groups, right_groups, to_groups);
  }
  for (; group < num_groups; group += kThreads) {
    ApplyGroups<kSecond, 1, kCount>(function, group, left_groups, right_groups, to_groups);
  }
  ApplyEach<kSecond>(function, 0, head, left, right, to);
  ApplyEach<kSecond>(function, head + num_groups * kCount, count, left, right, to);
}

// Elements one by one where the operands' alignments differ.
template <typename Operation, typename Function>
__device__ inline void ApplyChunk(const Function& function, const typename Operation::In* left,
                                  const typename Operation::In* right, Places<Operation> to,
                                  int count) {
  using In = typename Operation::In;
  using Out = typename Operation::Out;
  constexpr int kCount = kGroupOfBoth<Operation>;
  const int past = static_cast<int>(reinterpret_cast<uintptr_t>(to.out) / sizeof(Out) % kCount);
  int head = past == 0 ? 0 : kCount - past;
  bool is_aligned = Group<In, kCount>::Aligns(left + head);
  if (Operation::kReadsRight) is_aligned &= Group<In, kCount>::Aligns(right + head);
  if (!is_aligned || head > count) head = count;
  if (!Operation::kStoresTwice || to.copy == nullptr) {
    return ApplyParts<Second::kNone>(function, head, count, left, right, to);
  }
  to.copy = Global<Out>(to.copy);
  if (Group<Out, kCount>::Aligns(to.copy + head)) {
    ApplyParts<Second::kInGroups>(function, head, count, left, right, to);
  } else {
    ApplyParts<Second::kEach>(function, head, count, left, right, to);
  }
}

template <typename Operation>
__global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor)
    ElementwiseKernel(CudaWork work, Operation operation, int64_t chunk_elements) {
  using In = typename Operation::In;
  using Out = typename Operation::Out;
  for (int64_t index = blockIdx.x; index < work.num_chunks; index += gridDim.x) {
    const CudaChunk chunk = work.chunks[index];
    const CudaPiece piece = work.pieces[chunk.piece];
    const int64_t begin = chunk.index * chunk_elements;
    const int64_t behind = piece.num_elements - begin;
    const In* left = Global<const In>(piece.left) + begin;
    const In* right = Operation::kReadsRight ? Global<const In>(piece.right) + begin : left;
    const bool has_copy = Operation::kStoresTwice && piece.copy != nullptr;
    const Places<Operation> to = {Global<Out>(piece.out) + begin,
                                  has_copy ? static_cast<Out*>(piece.copy) + begin : nullptr};
    ApplyChunk<Operation>(operation.OfPiece(chunk.piece), left, right, to,
                          static_cast<int>(behind < chunk_elements ? behind : chunk_elements));
  }
}

}  // namespace cuda
}  // namespace adasum

#endif  // ADASUM_CUDA_KERNELS_CUDA_ELEMENTWISE_CU_H_
