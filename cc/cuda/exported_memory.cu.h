// Device memory that other processes read: lent to this process' users, and mapped in the peers.
#ifndef ADASUM_CUDA_EXPORTED_MEMORY_CU_H_
#define ADASUM_CUDA_EXPORTED_MEMORY_CU_H_

#include <cuda_runtime_api.h>

#include <map>
#include <mutex>

#include "cc/core/memory.h"

namespace adasum {

// CUDA leaves undefined what happens when memory is freed that another process still has mapped,
// and ranks close their communicators at times of their own. So what was allocated here is never
// freed: it is lent again. Sizes are powers of two, so that all that a growing user has left behind
// is less than what it has. Any thread may call it.
class ExportedMemory : public Memory {
 public:
  // On the current device.
  void* Allocate(int64_t num_bytes) override;
  void Free(void* bytes) override;
  // A peer may still read it, for all that is known: Free will not lend it again.
  void Withhold(void* bytes);

 private:
  struct Block {
    int device;
    int64_t num_bytes;
    enum { kLent, kFree, kWithheld } state;
  };

  std::mutex mutex_;
  std::map<void*, Block> blocks_;
};

// That of this process. Never destroyed: a communicator may outlast static destructors.
ExportedMemory& TheExportedMemory();

// A peer's exported memory in this process' address space, for the current device.
class IpcMapping {
 public:
  // Throws Internal where CUDA can't: another host, no way between the devices.
  explicit IpcMapping(const cudaIpcMemHandle_t& handle);
  ~IpcMapping();
  IpcMapping(const IpcMapping&) = delete;
  IpcMapping& operator=(const IpcMapping&) = delete;

  const void* base() const { return base_; }

 private:
  void* base_ = nullptr;
};

}  // namespace adasum

#endif  // ADASUM_CUDA_EXPORTED_MEMORY_CU_H_
