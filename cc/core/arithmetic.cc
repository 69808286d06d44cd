#include "cc/core/arithmetic.h"

#include "cc/core/error.h"

namespace adasum {
namespace {

[[noreturn]] void RefuseStacks() {
  throw Error(ErrorCode::kInternal, "This arithmetic combines two vectors at a time.");
}

}  // namespace

void Arithmetic::AddGrams(DType, int, const std::vector<Stack>&, double*) { RefuseStacks(); }

void Arithmetic::CombineStacks(DType, int, const std::vector<Stack>&, const double*) {
  RefuseStacks();
}

}  // namespace adasum
