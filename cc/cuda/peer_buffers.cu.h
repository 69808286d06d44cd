// What a leaf shows its peers of its device memory, and what it sees of theirs.
#ifndef ADASUM_CUDA_PEER_BUFFERS_CU_H_
#define ADASUM_CUDA_PEER_BUFFERS_CU_H_

#include <cuda_runtime_api.h>

#include <map>
#include <memory>

#include "cc/core/scratch.h"
#include "cc/cuda/exported_memory.cu.h"

namespace adasum {

// Memory of the current device for peers of other processes to read, one piece at a time.
class ExportedBuffer {
 public:
  ExportedBuffer() = default;
  ~ExportedBuffer();

  // No peer may still be reading what was got before.
  void* Get(int64_t num_bytes);
  // What Get gives without asking for more.
  int64_t capacity() const { return scratch_.capacity(); }
  // Whether other processes can be told of it.
  bool has_handle() const { return has_handle_; }
  const cudaIpcMemHandle_t& handle() const { return handle_; }
  bool Holds(const void* bytes, int64_t num_bytes) const;
  int64_t OffsetOf(const void* bytes) const;

  // Between the two peers may read it. What ends in between is not lent to anybody any more.
  void Show() { is_shown_ = true; }
  void Hide() { is_shown_ = false; }

 private:
  Scratch scratch_{TheExportedMemory()};
  void* bytes_ = nullptr;
  int64_t num_bytes_ = 0;
  cudaIpcMemHandle_t handle_ = {};
  bool has_handle_ = false;
  bool is_shown_ = false;
};

// The buffers of peers in other processes, each opened once.
class PeerBuffers {
 public:
  // The start of `peer`'s buffer. Another handle than last time stands for a larger one: the peer
  // has left the old one, which is closed.
  const void* Open(int peer, const cudaIpcMemHandle_t& handle);

 private:
  struct Opened {
    cudaIpcMemHandle_t handle;
    std::unique_ptr<IpcMapping> mapping;
  };
  std::map<int, Opened> opened_;
};

}  // namespace adasum

#endif  // ADASUM_CUDA_PEER_BUFFERS_CU_H_
