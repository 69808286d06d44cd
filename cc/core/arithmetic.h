// What the reductions ask of a device. Everything works on pieces: parts of segments, each with
// its two operands wherever they lie (a gradient, a packed buffer, a peer's memory), so that no
// copy is made only to bring operands together.
#ifndef ADASUM_CORE_ARITHMETIC_H_
#define ADASUM_CORE_ARITHMETIC_H_

#include <cstdint>
#include <vector>

#include "cc/core/dtype.h"

namespace adasum {

// Part of one segment. `out` may be the same address as either operand, not overlap otherwise.
struct Piece {
  int64_t segment;
  const void* left;
  const void* right;
  void* out;
  int64_t num_elements;
};

// left . right, |left|^2, |right|^2 of one segment; summed over ranks as plain doubles.
struct Moments {
  double dot = 0;
  double left_norm2 = 0;
  double right_norm2 = 0;
};

struct Coefficients {
  double left;
  double right;
};

class Arithmetic {
 public:
  virtual ~Arithmetic() = default;

  // moments[piece.segment] += the moments of each piece, accumulated in float64. Floats only.
  virtual void AddMoments(DType dtype, const std::vector<Piece>& pieces, Moments* moments) = 0;

  // out = c.left * left + c.right * right with c = coefficients[piece.segment]. Floats only.
  virtual void Combine(DType dtype, const std::vector<Piece>& pieces,
                       const Coefficients* coefficients) = 0;

  // out = left + right; logical or for bool.
  virtual void Add(DType dtype, const std::vector<Piece>& pieces) = 0;

  // out = left and right, for bool.
  virtual void LogicalAnd(const std::vector<Piece>& pieces) = 0;

  // values[i] = values[i] / divisor; integers truncate toward zero. Not for bool.
  virtual void Divide(DType dtype, void* values, int64_t num_elements, int64_t divisor) = 0;

  virtual void Copy(void* to, const void* from, int64_t num_bytes) = 0;
};

}  // namespace adasum

#endif  // ADASUM_CORE_ARITHMETIC_H_
