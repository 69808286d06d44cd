// What lies where in a rank's shared file, and how its peers find the file.
#ifndef ADASUM_TRANSPORT_SHM_FILE_H_
#define ADASUM_TRANSPORT_SHM_FILE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "cc/transport/shared_memory.h"

namespace adasum {

// The start of every file. Peers look at the second line while they wait long.
struct FileHeader {
  uint64_t token;
  char padding[64 - sizeof(uint64_t)];
  std::atomic<uint64_t> has_left;  // its owner: no message comes any more

  static FileHeader* Of(const SharedMemory& memory) {
    return reinterpret_cast<FileHeader*>(memory.base());
  }
};
// Up to the boxes.
constexpr int64_t kHeaderBytes = 4096;

// One direction between two ranks: holds one piece of a message at a time. The sender writes the
// first line (and the payload), the receiver the second. A message of up to 48 bytes travels
// with the counter that announces it, in one cache line.
struct ShmBox {
  static constexpr int64_t kBytes = 16384;
  static constexpr int64_t kLine = 64;
  static constexpr int64_t kPieceBytes = kBytes - kLine - 2 * sizeof(uint64_t);

  std::atomic<uint64_t> num_taken;
  char padding[kLine - sizeof(uint64_t)];
  std::atomic<uint64_t> num_put;
  int64_t num_bytes;
  char payload[kPieceBytes];
};
static_assert(sizeof(ShmBox) == ShmBox::kBytes, "boxes lie side by side");
static_assert(std::atomic<uint64_t>::is_always_lock_free, "shared between processes");

struct FileAddress {
  int fd = -1;  // -1: there is none
  uint64_t token = 0;
};

// Where a peer's memory is.
struct ShmAddress {
  int64_t pid = 0;
  FileAddress file;
  FileAddress arena;
  int64_t token_address = 0;  // in that process
};

// Throws Internal if the text is no address. `peer` is whose it is, for the error.
ShmAddress ParseAddress(const std::string& text, int peer);

// Throws Internal if it can't be opened or is not what its address says.
std::unique_ptr<SharedMemory> OpenFile(int64_t pid, const FileAddress& address,
                                       SharedMemory::Pages pages, int64_t least_bytes, int peer);

}  // namespace adasum

#endif  // ADASUM_TRANSPORT_SHM_FILE_H_
