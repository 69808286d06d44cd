#include "cc/cuda/exported_memory.cu.h"

#include "cc/cuda/kernels/cuda_check.cu.h"
#include "cc/cuda/resources.cu.h"

namespace adasum {
namespace {

// A handle stands for the whole run of memory that the driver cut an allocation from: smaller ones
// would show peers their neighbours too.
constexpr int64_t kLeastBytes = int64_t{2} << 20;

int64_t PowerOfTwo(int64_t num_bytes) {
  int64_t power = kLeastBytes;
  while (power < num_bytes) power *= 2;
  return power;
}

}  // namespace

void* ExportedMemory::Allocate(int64_t num_bytes) {
  const int64_t wanted = PowerOfTwo(num_bytes);
  int device = 0;
  CheckCuda(cudaGetDevice(&device), "cudaGetDevice");
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto& [bytes, block] : blocks_) {
    if (block.state != Block::kFree || block.device != device) continue;
    if (block.num_bytes != wanted) continue;
    block.state = Block::kLent;
    return bytes;
  }
  void* bytes = TheDeviceMemory().Allocate(wanted);
  blocks_[bytes] = {device, wanted, Block::kLent};
  return bytes;
}

void ExportedMemory::Free(void* bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  Block& block = blocks_.at(bytes);
  if (block.state == Block::kLent) block.state = Block::kFree;
}

void ExportedMemory::Withhold(void* bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  blocks_.at(bytes).state = Block::kWithheld;
}

ExportedMemory& TheExportedMemory() {
  static ExportedMemory* memory = new ExportedMemory;
  return *memory;
}

IpcMapping::IpcMapping(const cudaIpcMemHandle_t& handle) {
  CheckCuda(cudaIpcOpenMemHandle(&base_, handle, cudaIpcMemLazyEnablePeerAccess),
            "cudaIpcOpenMemHandle");
}

IpcMapping::~IpcMapping() { cudaIpcCloseMemHandle(base_); }

}  // namespace adasum
