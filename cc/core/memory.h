// Where buffers lie: in host memory, or in that of a device.
#ifndef ADASUM_CORE_MEMORY_H_
#define ADASUM_CORE_MEMORY_H_

#include <cstdint>

namespace adasum {

class Memory {
 public:
  virtual ~Memory() = default;
  // At least `num_bytes`, aligned to a page; throws if there are none.
  virtual void* Allocate(int64_t num_bytes) = 0;
  virtual void Free(void* bytes) = 0;
};

Memory& HostMemory();

}  // namespace adasum

#endif  // ADASUM_CORE_MEMORY_H_
