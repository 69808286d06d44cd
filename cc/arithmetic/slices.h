// Pieces and stacks, part by part.
#ifndef ADASUM_ARITHMETIC_SLICES_H_
#define ADASUM_ARITHMETIC_SLICES_H_

#include "cc/core/arithmetic.h"
#include "cc/core/bytes.h"

namespace adasum {

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
  Stack slice{stack.segment,
              {},
              stack.out == nullptr ? nullptr : At(stack.out, skip),
              stack.copy == nullptr ? nullptr : At(stack.copy, skip),
              num_elements};
  for (int i = 0; i < kMostOperands && stack.operands[i] != nullptr; ++i) {
    slice.operands[i] = At(stack.operands[i], skip);
  }
  return slice;
}

}  // namespace adasum

#endif  // ADASUM_ARITHMETIC_SLICES_H_
