#include "cc/core/memory.h"

#include <cstdlib>
#include <new>

namespace adasum {
namespace {

class Host : public Memory {
 public:
  void* Allocate(int64_t num_bytes) override {
    constexpr int64_t kPage = 4096;
    void* bytes = std::aligned_alloc(kPage, (num_bytes + kPage - 1) / kPage * kPage);
    if (bytes == nullptr) throw std::bad_alloc();
    return bytes;
  }
  void Free(void* bytes) override { std::free(bytes); }
};

}  // namespace

Memory& HostMemory() {
  static Host host;
  return host;
}

}  // namespace adasum
