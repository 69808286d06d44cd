#include "cc/cuda/peer_buffers.cu.h"

#include <cstring>
#include <utility>

namespace adasum {

ExportedBuffer::~ExportedBuffer() {
  if (is_shown_ && bytes_ != nullptr) TheExportedMemory().Withhold(bytes_);
}

void* ExportedBuffer::Get(int64_t num_bytes) {
  const void* before = std::exchange(bytes_, nullptr);  // gone should there be no more
  bytes_ = scratch_.Get(num_bytes);
  num_bytes_ = num_bytes;
  if (bytes_ == before) return bytes_;
  has_handle_ = cudaIpcGetMemHandle(&handle_, bytes_) == cudaSuccess;
  if (!has_handle_) cudaGetLastError();  // so that the next call does not report it again
  return bytes_;
}

bool ExportedBuffer::Holds(const void* bytes, int64_t num_bytes) const {
  const int64_t offset = OffsetOf(bytes);
  return bytes_ != nullptr && offset >= 0 && offset + num_bytes <= num_bytes_;
}

int64_t ExportedBuffer::OffsetOf(const void* bytes) const {
  return static_cast<const char*>(bytes) - static_cast<const char*>(bytes_);
}

const void* PeerBuffers::Open(int peer, const cudaIpcMemHandle_t& handle) {
  Opened& opened = opened_[peer];
  if (opened.mapping != nullptr && std::memcmp(&opened.handle, &handle, sizeof(handle)) == 0) {
    return opened.mapping->base();
  }
  opened.mapping.reset();
  opened.mapping = std::make_unique<IpcMapping>(handle);
  opened.handle = handle;
  return opened.mapping->base();
}

}  // namespace adasum
