// What the reductions ask of a device. Everything works on pieces: parts of segments, each with
// its two operands wherever they lie (a gradient, a packed buffer, a peer's memory), so that no
// copy is made only to bring operands together.
#ifndef ADASUM_CORE_ARITHMETIC_H_
#define ADASUM_CORE_ARITHMETIC_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "cc/core/dtype.h"

namespace adasum {

// Part of one segment. `out` may be the same address as either operand, not overlap otherwise; so
// may `copy`, a second address for the result, null where none is wanted.
struct Piece {
  int64_t segment;
  const void* left;
  const void* right;
  void* out;
  void* copy;
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

// So many vectors may meet at once.
constexpr int kMostOperands = 8;

// As Piece, with the values of several leaves, and the result for several; null behind the last of
// either. Any address may be that of any other, or not overlap it. `out` may be null if there are
// copies: all results are delivered, then.
struct Stack {
  int64_t segment;
  const void* operands[kMostOperands] = {};
  void* out;
  void* copies[kMostOperands] = {};
  int64_t num_elements;
  // Of its first element in the part of the vector that this leaf reduces for all: inner products
  // are summed in tiles that begin at multiples of their length there, as chunks do, so that no bit
  // of them depends on how long the chunks are.
  int64_t position = 0;
  // `out` is written past the caches: for peers whose cores share none with this one.
  bool is_past_caches = false;
};

// The inner products of every two of n vectors: 0.0, 0.1, ..., 0.(n-1), 1.1, ..., (n-1).(n-1).
constexpr int GramSize(int n) { return n * (n + 1) / 2; }
constexpr int GramIndex(int n, int i, int j) {
  return i <= j ? i * n - i * (i + 1) / 2 + j : GramIndex(n, j, i);
}

class Arithmetic {
 public:
  virtual ~Arithmetic() = default;

  // How many cores work at once: as many times longer are the chunks worth taking. Equal on all
  // ranks of a collective.
  virtual int Width() const { return 1; }

  // How many chunks' work is best put ahead of the exchange that needs it: none where work is done
  // when a call returns, some where a call only puts it on a queue (a GPU's stream), so that the
  // queue has something to do while the thread exchanges.
  virtual int ChunksAhead() const { return 0; }

  // Calls task(i, arithmetic) once for each i in [0, num_tasks), as many at once as cores work at
  // once, each with an arithmetic for one core; returns when all have returned, and throws what the
  // first of them threw. `num_bytes` is how long the results of all are, `name` what a timeline
  // calls them.
  virtual void RunTasks(const char* /*name*/, int64_t /*num_bytes*/, int64_t num_tasks,
                        const std::function<void(int64_t, Arithmetic&)>& task) {
    for (int64_t i = 0; i < num_tasks; ++i) task(i, *this);
  }

  // moments[piece.segment] += the moments of each piece, accumulated in float64. Floats only. The
  // sums are there when AwaitMoments returns, added in the order of the calls; till then `moments`
  // stays where it is.
  virtual void AddMoments(DType dtype, const std::vector<Piece>& pieces, Moments* moments) = 0;
  virtual void AwaitMoments() {}

  // grams[stack.segment * GramSize(n) ...] += the inner products of the first n operands of each
  // stack, accumulated in float64; n at least 2. Floats only. This and CombineStacks are for memory
  // that all ranks share: throw Internal elsewhere.
  virtual void AddGrams(DType dtype, int n, const std::vector<Stack>& stacks, double* grams);

  // out = c.left * left + c.right * right with c = coefficients[piece.segment]. Floats only.
  virtual void Combine(DType dtype, const std::vector<Piece>& pieces,
                       const Coefficients* coefficients) = 0;

  // out = the sum of w[i] * operands[i] over the first n, with w = weights + stack.segment * n; n
  // at least 2. Floats only, and weights that the type in which they are combined can hold.
  virtual void CombineStacks(DType dtype, int n, const std::vector<Stack>& stacks,
                             const double* weights);

  // out = left + right; logical or for bool.
  virtual void Add(DType dtype, const std::vector<Piece>& pieces) = 0;

  // out = the smaller, the larger, the product of left and right; NaN where one is. For bool: and,
  // or, and. On the CPU only: throw Internal elsewhere.
  virtual void Min(DType dtype, const std::vector<Piece>& pieces);
  virtual void Max(DType dtype, const std::vector<Piece>& pieces);
  virtual void Multiply(DType dtype, const std::vector<Piece>& pieces);

  // out = left and right, for bool.
  virtual void LogicalAnd(const std::vector<Piece>& pieces) = 0;

  // out = out / divisor; integers truncate toward zero. Not for bool. Operands are not looked at.
  virtual void Divide(DType dtype, const std::vector<Piece>& pieces, int64_t divisor) = 0;

  // Copies what will be read again soon, by this rank or a peer.
  virtual void Copy(void* to, const void* from, int64_t num_bytes) = 0;

  // Copies a result to where its user will find it once the whole collective has ended.
  virtual void Deliver(void* to, const void* from, int64_t num_bytes) = 0;

  // out = left, as Copy and as Deliver do it: a list of tensors is packed, or unpacked. Right
  // operands and copies are not looked at.
  virtual void CopyPieces(DType dtype, const std::vector<Piece>& pieces) {
    for (const Piece& piece : pieces) {
      Copy(piece.out, piece.left, piece.num_elements * ElementBytes(dtype));
    }
  }
  virtual void DeliverPieces(DType dtype, const std::vector<Piece>& pieces) {
    for (const Piece& piece : pieces) {
      Deliver(piece.out, piece.left, piece.num_elements * ElementBytes(dtype));
    }
  }

  // Whether there are caches to write past, and writes are done when a call returns.
  virtual bool HasCaches() const { return false; }

  // As CopyPieces, and past the caches: for peers whose cores share none with this one.
  virtual void CopyPiecesPastCaches(DType dtype, const std::vector<Piece>& pieces) {
    CopyPieces(dtype, pieces);
  }

  // Returns when everything written is there for other threads to see.
  virtual void Finish() {}
};

}  // namespace adasum

#endif  // ADASUM_CORE_ARITHMETIC_H_
