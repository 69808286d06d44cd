// Arithmetic that notes its passes over memory in a timeline.
#ifndef ADASUM_ARITHMETIC_TRACED_ARITHMETIC_H_
#define ADASUM_ARITHMETIC_TRACED_ARITHMETIC_H_

#include "cc/core/arithmetic.h"
#include "cc/core/timeline.h"

namespace adasum {

// `inner` and `timeline` must outlive this. Bytes are those of the results.
class TracedArithmetic : public Arithmetic {
 public:
  TracedArithmetic(Arithmetic* inner, Timeline* timeline) : inner_(inner), timeline_(timeline) {}

  int Width() const override { return inner_->Width(); }
  int ChunksAhead() const override { return inner_->ChunksAhead(); }
  void AddMoments(DType dtype, const std::vector<Piece>& pieces, Moments* moments) override {
    TimelineSpan span(timeline_, "moments", -1, Bytes(dtype, pieces));
    inner_->AddMoments(dtype, pieces, moments);
  }
  void AwaitMoments() override { inner_->AwaitMoments(); }
  void AddGrams(DType dtype, int n, const std::vector<Stack>& stacks, double* grams) override {
    TimelineSpan span(timeline_, "moments", -1, Bytes(dtype, stacks));
    inner_->AddGrams(dtype, n, stacks, grams);
  }
  void CombineStacks(DType dtype, int n, const std::vector<Stack>& stacks,
                     const double* weights) override {
    TimelineSpan span(timeline_, "combine", -1, Bytes(dtype, stacks));
    inner_->CombineStacks(dtype, n, stacks, weights);
  }
  void Combine(DType dtype, const std::vector<Piece>& pieces,
               const Coefficients* coefficients) override {
    TimelineSpan span(timeline_, "combine", -1, Bytes(dtype, pieces));
    inner_->Combine(dtype, pieces, coefficients);
  }
  void Add(DType dtype, const std::vector<Piece>& pieces) override {
    TimelineSpan span(timeline_, "add", -1, Bytes(dtype, pieces));
    inner_->Add(dtype, pieces);
  }
  void Min(DType dtype, const std::vector<Piece>& pieces) override {
    TimelineSpan span(timeline_, "min", -1, Bytes(dtype, pieces));
    inner_->Min(dtype, pieces);
  }
  void Max(DType dtype, const std::vector<Piece>& pieces) override {
    TimelineSpan span(timeline_, "max", -1, Bytes(dtype, pieces));
    inner_->Max(dtype, pieces);
  }
  void Multiply(DType dtype, const std::vector<Piece>& pieces) override {
    TimelineSpan span(timeline_, "multiply", -1, Bytes(dtype, pieces));
    inner_->Multiply(dtype, pieces);
  }
  void LogicalAnd(const std::vector<Piece>& pieces) override {
    TimelineSpan span(timeline_, "and", -1, Bytes(DType::kBool, pieces));
    inner_->LogicalAnd(pieces);
  }
  void Divide(DType dtype, const std::vector<Piece>& pieces, int64_t divisor) override {
    TimelineSpan span(timeline_, "divide", -1, Bytes(dtype, pieces));
    inner_->Divide(dtype, pieces, divisor);
  }
  void Copy(void* to, const void* from, int64_t num_bytes) override {
    TimelineSpan span(timeline_, "copy", -1, num_bytes);
    inner_->Copy(to, from, num_bytes);
  }
  void Deliver(void* to, const void* from, int64_t num_bytes) override {
    TimelineSpan span(timeline_, "deliver", -1, num_bytes);
    inner_->Deliver(to, from, num_bytes);
  }
  void CopyPiecesPastCaches(DType dtype, const std::vector<Piece>& pieces) override {
    TimelineSpan span(timeline_, "copy", -1, Bytes(dtype, pieces));
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

  Arithmetic* inner_;
  Timeline* timeline_;
};

}  // namespace adasum

#endif  // ADASUM_ARITHMETIC_TRACED_ARITHMETIC_H_
