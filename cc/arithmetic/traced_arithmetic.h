// Arithmetic that notes its passes over memory in a timeline, and how long they took.
#ifndef ADASUM_ARITHMETIC_TRACED_ARITHMETIC_H_
#define ADASUM_ARITHMETIC_TRACED_ARITHMETIC_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "cc/core/arithmetic.h"
#include "cc/core/timeline.h"

namespace adasum {

// How long all passes took, of all threads that call: without the waits for other ranks, in which
// the others' choices would show.
class BusyTime {
 public:
  void Add(std::chrono::nanoseconds time) { nanoseconds_.fetch_add(time.count()); }
  double seconds() const { return 1e-9 * static_cast<double>(nanoseconds_.load()); }

 private:
  std::atomic<int64_t> nanoseconds_{0};
};

// All that is passed must outlive this; `timeline` and `busy` may be null. Bytes are those of the
// results.
class TracedArithmetic : public Arithmetic {
 public:
  TracedArithmetic(Arithmetic* inner, Timeline* timeline, BusyTime* busy = nullptr)
      : inner_(inner), timeline_(timeline), busy_(busy) {}

  int Width() const override { return inner_->Width(); }
  int ChunksAhead() const override { return inner_->ChunksAhead(); }
  // Of several cores as one pass; a core alone shows what it does.
  void RunTasks(const char* name, int64_t num_bytes, int64_t num_tasks,
                const std::function<void(int64_t, Arithmetic&)>& task) override {
    if (Width() == 1) return Arithmetic::RunTasks(name, num_bytes, num_tasks, task);
    const Span span(*this, name, num_bytes);
    inner_->RunTasks(name, num_bytes, num_tasks, task);
  }
  void AddMoments(DType dtype, const std::vector<Piece>& pieces, Moments* moments) override {
    const Span span(*this, "moments", Bytes(dtype, pieces));
    inner_->AddMoments(dtype, pieces, moments);
  }
  void AwaitMoments() override { inner_->AwaitMoments(); }
  void AddGrams(DType dtype, int n, const std::vector<Stack>& stacks, double* grams) override {
    const Span span(*this, "moments", Bytes(dtype, stacks));
    inner_->AddGrams(dtype, n, stacks, grams);
  }
  void CombineStacks(DType dtype, int n, const std::vector<Stack>& stacks,
                     const double* weights) override {
    const Span span(*this, "combine", Bytes(dtype, stacks));
    inner_->CombineStacks(dtype, n, stacks, weights);
  }
  void Combine(DType dtype, const std::vector<Piece>& pieces,
               const Coefficients* coefficients) override {
    const Span span(*this, "combine", Bytes(dtype, pieces));
    inner_->Combine(dtype, pieces, coefficients);
  }
  void Add(DType dtype, const std::vector<Piece>& pieces) override {
    const Span span(*this, "add", Bytes(dtype, pieces));
    inner_->Add(dtype, pieces);
  }
  void Min(DType dtype, const std::vector<Piece>& pieces) override {
    const Span span(*this, "min", Bytes(dtype, pieces));
    inner_->Min(dtype, pieces);
  }
  void Max(DType dtype, const std::vector<Piece>& pieces) override {
    const Span span(*this, "max", Bytes(dtype, pieces));
    inner_->Max(dtype, pieces);
  }
  void Multiply(DType dtype, const std::vector<Piece>& pieces) override {
    const Span span(*this, "multiply", Bytes(dtype, pieces));
    inner_->Multiply(dtype, pieces);
  }
  void LogicalAnd(const std::vector<Piece>& pieces) override {
    const Span span(*this, "and", Bytes(DType::kBool, pieces));
    inner_->LogicalAnd(pieces);
  }
  void Divide(DType dtype, const std::vector<Piece>& pieces, int64_t divisor) override {
    const Span span(*this, "divide", Bytes(dtype, pieces));
    inner_->Divide(dtype, pieces, divisor);
  }
  void Copy(void* to, const void* from, int64_t num_bytes) override {
    const Span span(*this, "copy", num_bytes);
    inner_->Copy(to, from, num_bytes);
  }
  void Deliver(void* to, const void* from, int64_t num_bytes) override {
    const Span span(*this, "deliver", num_bytes);
    inner_->Deliver(to, from, num_bytes);
  }
  bool HasCaches() const override { return inner_->HasCaches(); }
  void CopyPiecesPastCaches(DType dtype, const std::vector<Piece>& pieces) override {
    const Span span(*this, "copy", Bytes(dtype, pieces));
    inner_->CopyPiecesPastCaches(dtype, pieces);
  }
  void Finish() override { inner_->Finish(); }

 private:
  template <typename Part>
  static int64_t Bytes(DType dtype, const std::vector<Part>& parts) {
    int64_t num_elements = 0;
    for (const Part& part : parts) num_elements += part.num_elements;
    return num_elements * ElementBytes(dtype);
  }

  class Span {
   public:
    Span(const TracedArithmetic& of, const char* name, int64_t num_bytes)
        : busy_(of.busy_), in_timeline_(of.timeline_, name, -1, num_bytes) {
      if (busy_ != nullptr) begin_ = std::chrono::steady_clock::now();
    }
    ~Span() {
      if (busy_ != nullptr) busy_->Add(std::chrono::steady_clock::now() - begin_);
    }
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;

   private:
    BusyTime* const busy_;
    const TimelineSpan in_timeline_;
    std::chrono::steady_clock::time_point begin_;
  };

  Arithmetic* inner_;
  Timeline* timeline_;
  BusyTime* busy_;
};

}  // namespace adasum

#endif  // ADASUM_ARITHMETIC_TRACED_ARITHMETIC_H_
