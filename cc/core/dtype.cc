#include "cc/core/dtype.h"

#include "cc/core/error.h"

namespace adasum {
namespace {

struct Entry {
  DType dtype;
  const char* name;
  int64_t bytes;
  bool floating;
};

constexpr Entry kEntries[] = {
    {DType::kFloat16, "float16", 2, true}, {DType::kBFloat16, "bfloat16", 2, true},
    {DType::kFloat32, "float32", 4, true}, {DType::kFloat64, "float64", 8, true},
    {DType::kInt32, "int32", 4, false},    {DType::kInt64, "int64", 8, false},
    {DType::kBool, "bool", 1, false},
};

const Entry& Find(DType dtype) { return kEntries[static_cast<int32_t>(dtype)]; }

}  // namespace

int64_t ElementBytes(DType dtype) { return Find(dtype).bytes; }

const char* DTypeName(DType dtype) { return Find(dtype).name; }

bool IsFloating(DType dtype) { return Find(dtype).floating; }

DType ParseDType(const std::string& name) {
  for (const Entry& entry : kEntries) {
    if (name == entry.name) return entry.dtype;
  }
  throw Error(ErrorCode::kInvalidArgument,
              "Expected a dtype among float16, bfloat16, float32, float64, int32, int64, bool. "
              "Received: " +
                  name + ". Cast to one of these.");
}

}  // namespace adasum
