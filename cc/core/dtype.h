// The element types that the reductions know, independent of any framework.
#ifndef ADASUM_CORE_DTYPE_H_
#define ADASUM_CORE_DTYPE_H_

#include <cstdint>
#include <string>

namespace adasum {

enum class DType : int32_t { kFloat16, kBFloat16, kFloat32, kFloat64, kInt32, kInt64, kBool };

// Size of one element in bytes.
int64_t ElementBytes(DType dtype);

// NumPy's name of the type, "bfloat16" included.
const char* DTypeName(DType dtype);

// The inverse of DTypeName; throws InvalidArgument for a name it does not know.
DType ParseDType(const std::string& name);

bool IsFloating(DType dtype);

}  // namespace adasum

#endif  // ADASUM_CORE_DTYPE_H_
