#include "cc/compression/codec.h"

#include <map>

#include "cc/core/error.h"

namespace adasum {
namespace {

struct Entry {
  std::string usage;
  CodecMaker make;
};

// Filled while the library is loaded, read-only afterwards.
std::map<std::string, Entry>& Registry() {
  static std::map<std::string, Entry> registry;
  return registry;
}

}  // namespace

RegisterCodec::RegisterCodec(const std::string& name, const std::string& usage, CodecMaker make) {
  Registry()[name] = {usage, make};
}

std::vector<std::string> CodecNames() {
  std::vector<std::string> names;
  for (const auto& entry : Registry()) names.push_back(entry.first);
  return names;
}

std::unique_ptr<Codec> MakeCodec(const std::string& text, DType dtype,
                                 const CodecKernels& kernels) {
  if (dtype != DType::kFloat32 && dtype != DType::kFloat64) {
    throw Error(ErrorCode::kInvalidArgument,
                std::string("Expected float32 or float64 for a codec. Received: ") +
                    DTypeName(dtype) + ". Cast the tensors, or leave compression out.");
  }
  const size_t colon = text.find(':');
  const auto found = Registry().find(text.substr(0, colon));
  std::string expected;
  if (found == Registry().end()) {
    for (const auto& entry : Registry()) {
      expected += (expected.empty() ? "one of: " : "; ") + entry.second.usage;
    }
  } else {
    const std::string argument = colon == std::string::npos ? "" : text.substr(colon + 1);
    std::unique_ptr<Codec> codec = found->second.make(argument, dtype, kernels);
    if (codec != nullptr) return codec;
    expected = found->second.usage;
  }
  throw Error(ErrorCode::kInvalidArgument,
              "Expected as codec " + expected + ". Received: " + text + ".");
}

}  // namespace adasum
