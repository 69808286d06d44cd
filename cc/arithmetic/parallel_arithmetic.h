// Arithmetic on several cores: the calling thread's, and those of whoever lends some.
#ifndef ADASUM_ARITHMETIC_PARALLEL_ARITHMETIC_H_
#define ADASUM_ARITHMETIC_PARALLEL_ARITHMETIC_H_

#include <functional>
#include <vector>

#include "cc/core/arithmetic.h"

namespace adasum {

// Runs a function on another thread, soon or late or never; null where there is no other thread.
using LendThread = std::function<void(std::function<void()>)>;

// Calls task(i) once for every i in [0, num_tasks), on this thread and on up to `num_helpers` that
// `lend` provides; returns when all have returned, and throws what the first of them threw. No
// task waits for a helper: what helpers have not begun, this thread does.
void ForEachTask(int64_t num_tasks, int num_helpers, const LendThread& lend,
                 const std::function<void(int64_t)>& task);

// Cuts pieces into slices whose size depends on nothing but theirs: a result is the same, bit by
// bit, whoever helps. `inner` must outlive this and take calls from several threads.
class ParallelArithmetic : public Arithmetic {
 public:
  // `width`: how many cores, at least 1; `lend` may be null.
  ParallelArithmetic(Arithmetic* inner, int width, LendThread lend)
      : inner_(inner), width_(width), lend_(std::move(lend)) {}

  int Width() const override { return width_; }
  void RunTasks(const char* name, int64_t num_bytes, int64_t num_tasks,
                const std::function<void(int64_t, Arithmetic&)>& task) override;
  void AddMoments(DType dtype, const std::vector<Piece>& pieces, Moments* moments) override;
  void AddGrams(DType dtype, int n, const std::vector<Stack>& stacks, double* grams) override;
  void Combine(DType dtype, const std::vector<Piece>& pieces,
               const Coefficients* coefficients) override;
  void CombineStacks(DType dtype, int n, const std::vector<Stack>& stacks,
                     const double* weights) override;
  void Add(DType dtype, const std::vector<Piece>& pieces) override;
  void Min(DType dtype, const std::vector<Piece>& pieces) override;
  void Max(DType dtype, const std::vector<Piece>& pieces) override;
  void Multiply(DType dtype, const std::vector<Piece>& pieces) override;
  void LogicalAnd(const std::vector<Piece>& pieces) override;
  void Divide(DType dtype, const std::vector<Piece>& pieces, int64_t divisor) override;
  void Copy(void* to, const void* from, int64_t num_bytes) override;
  void Deliver(void* to, const void* from, int64_t num_bytes) override;
  bool HasCaches() const override { return inner_->HasCaches(); }
  void CopyPiecesPastCaches(DType dtype, const std::vector<Piece>& pieces) override;
  void Finish() override { inner_->Finish(); }

 private:
  // Calls work(slices) for groups of slices that together make up the parts.
  template <typename Part>
  void ForEachGroup(DType dtype, const std::vector<Part>& parts,
                    const std::function<void(const std::vector<Part>&)>& work);
  // Calls work(slices, sums) for groups of slices, and adds their `num_sums` sums to those of their
  // segments.
  template <typename Part, typename Work>
  void SumSlices(DType dtype, const std::vector<Part>& parts, int64_t num_sums, double* totals,
                 Work work);
  void Run(int64_t num_tasks, const std::function<void(int64_t)>& task);
  // Calls copy(begin, n) for parts of `num_bytes`.
  void ForEachPart(int64_t num_bytes, const std::function<void(int64_t, int64_t)>& copy);

  Arithmetic* inner_;
  const int width_;
  const LendThread lend_;
};

}  // namespace adasum

#endif  // ADASUM_ARITHMETIC_PARALLEL_ARITHMETIC_H_
