// Pieces and stacks, part by part.
#ifndef ADASUM_ARITHMETIC_SLICES_H_
#define ADASUM_ARITHMETIC_SLICES_H_

#include <algorithm>

#include "cc/core/arithmetic.h"
#include "cc/core/bytes.h"

namespace adasum {

// Calls visit(address) for every further address of the result.
template <typename Visit>
void ForEachCopy(const Piece& piece, Visit visit) {
  if (piece.copy != nullptr) visit(piece.copy);
}

template <typename Visit>
void ForEachCopy(const Stack& stack, Visit visit) {
  for (int i = 0; i < kMostOperands && stack.copies[i] != nullptr; ++i) visit(stack.copies[i]);
}

// Of its first element, where that matters.
inline int64_t PositionOf(const Piece&) { return 0; }
inline int64_t PositionOf(const Stack& stack) { return stack.position; }

// Whether the result itself, unlike its copies, goes past the caches.
inline bool IsPastCaches(const Piece&) { return false; }
inline bool IsPastCaches(const Stack& stack) { return stack.is_past_caches; }

// Calls visit(begin, size) for the tiles of a part: they end where the position is a multiple of
// `tile` elements.
template <typename Part, typename Visit>
void ForEachTileOf(const Part& part, int64_t tile, Visit visit) {
  int64_t end = 0;
  for (int64_t begin = 0; begin < part.num_elements; begin = end) {
    end = std::min(begin + tile - (PositionOf(part) + begin) % tile, part.num_elements);
    visit(begin, end - begin);
  }
}

// `num_elements` from element `begin` on.
inline Piece Slice(const Piece& piece, int64_t begin, int64_t num_elements, int64_t element_bytes) {
  const int64_t skip = begin * element_bytes;
  return {piece.segment,
          At(piece.left, skip),
          At(piece.right, skip),
          piece.out == nullptr ? nullptr : At(piece.out, skip),
          piece.copy == nullptr ? nullptr : At(piece.copy, skip),
          num_elements};
}

inline Stack Slice(const Stack& stack, int64_t begin, int64_t num_elements, int64_t element_bytes) {
  const int64_t skip = begin * element_bytes;
  Stack slice{stack.segment,
              {},
              stack.out == nullptr ? nullptr : At(stack.out, skip),
              {},
              num_elements,
              stack.position + begin,
              stack.is_past_caches};
  ForEachCopy(stack, [&, i = 0](void* copy) mutable { slice.copies[i++] = At(copy, skip); });
  for (int i = 0; i < kMostOperands && stack.operands[i] != nullptr; ++i) {
    slice.operands[i] = At(stack.operands[i], skip);
  }
  return slice;
}

}  // namespace adasum

#endif  // ADASUM_ARITHMETIC_SLICES_H_
