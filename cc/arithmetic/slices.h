// Pieces and stacks, part by part.
#ifndef ADASUM_ARITHMETIC_SLICES_H_
#define ADASUM_ARITHMETIC_SLICES_H_

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

// The part that begins `skip` bytes into it.
inline Piece Slice(const Piece& piece, int64_t skip, int64_t num_elements) {
  return {piece.segment,
          At(piece.left, skip),
          At(piece.right, skip),
          piece.out == nullptr ? nullptr : At(piece.out, skip),
          piece.copy == nullptr ? nullptr : At(piece.copy, skip),
          num_elements};
}

inline Stack Slice(const Stack& stack, int64_t skip, int64_t num_elements) {
  Stack slice{
      stack.segment, {}, stack.out == nullptr ? nullptr : At(stack.out, skip), {}, num_elements};
  ForEachCopy(stack, [&, i = 0](void* copy) mutable { slice.copies[i++] = At(copy, skip); });
  for (int i = 0; i < kMostOperands && stack.operands[i] != nullptr; ++i) {
    slice.operands[i] = At(stack.operands[i], skip);
  }
  return slice;
}

}  // namespace adasum

#endif  // ADASUM_ARITHMETIC_SLICES_H_
