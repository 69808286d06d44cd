// Arithmetic on host memory, vectorised for the CPU it runs on.
#ifndef ADASUM_ARITHMETIC_CPU_ARITHMETIC_H_
#define ADASUM_ARITHMETIC_CPU_ARITHMETIC_H_

#include "cc/arithmetic/cpu_kernels.h"
#include "cc/core/arithmetic.h"

namespace adasum {

// The widest kernels that this CPU runs. TF_ADASUM_INSTRUCTION_SET=baseline|avx2|avx512 lowers
// the choice, for tests and for ranks of unlike CPUs that should round alike.
const CpuKernels& ChooseCpuKernels();

// Stateless but for the choice of kernels: any number of threads may share one.
class CpuArithmetic : public Arithmetic {
 public:
  explicit CpuArithmetic(const CpuKernels& kernels = ChooseCpuKernels()) : kernels_(kernels) {}

  void AddMoments(DType dtype, const std::vector<Piece>& pieces, Moments* moments) override;
  void Combine(DType dtype, const std::vector<Piece>& pieces,
               const Coefficients* coefficients) override;
  void Add(DType dtype, const std::vector<Piece>& pieces) override;
  void LogicalAnd(const std::vector<Piece>& pieces) override;
  void Divide(DType dtype, void* values, int64_t num_elements, int64_t divisor) override;
  void Copy(void* to, const void* from, int64_t num_bytes) override;

 private:
  const CpuKernels& kernels_;
};

}  // namespace adasum

#endif  // ADASUM_ARITHMETIC_CPU_ARITHMETIC_H_
