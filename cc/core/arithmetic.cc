#include "cc/core/arithmetic.h"

#include <string>

#include "cc/core/error.h"

namespace adasum {
namespace {

[[noreturn]] void RefuseStacks() {
  throw Error(ErrorCode::kInternal, "This arithmetic combines two vectors at a time.");
}
[[noreturn]] void Refuse(const char* operation) {
  throw Error(ErrorCode::kInternal, std::string("This arithmetic has no ") + operation + ".");
}

}  // namespace

void Arithmetic::AddGrams(DType, int, const std::vector<Stack>&, double*) { RefuseStacks(); }

void Arithmetic::CombineStacks(DType, int, const std::vector<Stack>&, const double*) {
  RefuseStacks();
}

void Arithmetic::Min(DType, const std::vector<Piece>&) { Refuse("minimum"); }
void Arithmetic::Max(DType, const std::vector<Piece>&) { Refuse("maximum"); }
void Arithmetic::Multiply(DType, const std::vector<Piece>&) { Refuse("product"); }

}  // namespace adasum
