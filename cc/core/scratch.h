// Memory that grows to the largest size asked for and is kept, so that a training step allocates
// nothing.
#ifndef ADASUM_CORE_SCRATCH_H_
#define ADASUM_CORE_SCRATCH_H_

#include <cstdint>
#include <memory>

#include "cc/core/memory.h"

namespace adasum {

// One owner at a time.
class Scratch {
 public:
  // `memory` must outlive this.
  explicit Scratch(Memory& memory = HostMemory()) : bytes_(nullptr, Free{&memory}) {}

  void* Get(int64_t num_bytes) {
    if (num_bytes > capacity_) {
      bytes_.reset();  // before the new one: at no time do both exist
      capacity_ = 0;
      bytes_.reset(bytes_.get_deleter().memory->Allocate(num_bytes));
      capacity_ = num_bytes;
    }
    return bytes_.get();
  }
  // What Get gives without asking for more.
  int64_t capacity() const { return capacity_; }

 private:
  struct Free {
    Memory* memory;
    void operator()(void* bytes) const { memory->Free(bytes); }
  };
  std::unique_ptr<void, Free> bytes_;
  int64_t capacity_ = 0;
};

}  // namespace adasum

#endif  // ADASUM_CORE_SCRATCH_H_
