// Arithmetic on host memory, vectorised for the CPU it runs on.
#ifndef ADASUM_ARITHMETIC_CPU_ARITHMETIC_H_
#define ADASUM_ARITHMETIC_CPU_ARITHMETIC_H_

#include "cc/arithmetic/instruction_sets.h"
#include "cc/core/arithmetic.h"

namespace adasum {

// Stateless but for what it was made with: any number of threads may share one, and each calls
// Finish for itself.
class CpuArithmetic : public Arithmetic {
 public:
  // Results that are delivered, copies of others among them, go past the caches if the caller says
  // so: they are too much to be found there later, or in the way of lines of other cores.
  explicit CpuArithmetic(const CpuKernels& kernels = KernelsOf(WidestInstructionSet()),
                         bool delivers_past_caches = false)
      : kernels_(kernels), delivers_past_caches_(delivers_past_caches) {}

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
  bool HasCaches() const override { return true; }
  void CopyPiecesPastCaches(DType dtype, const std::vector<Piece>& pieces) override;
  void Finish() override;

 private:
  // For all pieces.
  void Apply(BinaryLoop loop, DType dtype, const std::vector<Piece>& pieces);
  // Calls write(part) for parts that together make up all pieces or stacks, and fills their copies.
  template <typename Part, typename Write>
  void ForEachTile(int64_t element_bytes, const std::vector<Part>& parts, Write write);

  const CpuKernels& kernels_;
  const bool delivers_past_caches_;
};

}  // namespace adasum

#endif  // ADASUM_ARITHMETIC_CPU_ARITHMETIC_H_
