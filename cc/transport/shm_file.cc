#include "cc/transport/shm_file.h"

#include <sstream>

#include "cc/core/error.h"
#include "cc/transport/peer_bytes.h"

namespace adasum {

ShmAddress ParseAddress(const std::string& text, int peer) {
  std::istringstream in(text);
  ShmAddress address;
  in >> address.pid >> address.file.fd >> address.file.token;
  in >> address.arena.fd >> address.arena.token >> address.token_address;
  if (!in || address.pid <= 0 || address.file.fd < 0) {
    RefuseBytes(peer, "an address of its memory", text);
  }
  return address;
}

std::unique_ptr<SharedMemory> OpenFile(int64_t pid, const FileAddress& address,
                                       SharedMemory::Pages pages, int64_t least_bytes, int peer) {
  std::unique_ptr<SharedMemory> memory = SharedMemory::OpenOf(pid, address.fd, pages);
  if (memory->size() < least_bytes) {
    RefuseBytes(peer, "a file of " + std::to_string(least_bytes) + " bytes or more",
                std::to_string(memory->size()));
  }
  if (FileHeader::Of(*memory)->token != address.token) {
    throw Error(ErrorCode::kInternal,
                "Process " + std::to_string(pid) + " here is not rank " + std::to_string(peer));
  }
  return memory;
}

}  // namespace adasum
