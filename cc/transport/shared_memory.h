// Memory that the processes of one host share, without a name in the file system: nothing is left
// behind however a process ends, and the size of /dev/shm does not matter.
#ifndef ADASUM_TRANSPORT_SHARED_MEMORY_H_
#define ADASUM_TRANSPORT_SHARED_MEMORY_H_

#include <cstdint>
#include <memory>

namespace adasum {

// A mapping of an anonymous file (memfd), which the process that made it can grow.
class SharedMemory {
 public:
  // A new file of this size, mapped for writing. Throws Internal if the system refuses.
  static std::unique_ptr<SharedMemory> Create(int64_t num_bytes);

  // When a mapping gets the pages that it shows: at once, or each when it is used first.
  enum class Pages { kAtOnce, kOnUse };

  // The file that process `pid` holds open as `fd`, mapped in its current size. The owner must
  // be the same user. Throws Internal if it can't be opened.
  static std::unique_ptr<SharedMemory> OpenOf(int64_t pid, int fd, Pages pages = Pages::kAtOnce);

  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  char* base() const { return base_; }
  int64_t size() const { return size_; }
  int fd() const { return fd_; }

  // Owner: makes the file and the mapping at least this large. Addresses change, contents stay.
  void Grow(int64_t num_bytes);
  // Others: maps what the owner has grown to, if more than is mapped. Addresses change.
  void Follow(int64_t num_bytes);

 private:
  // Owns the descriptor. Throws Internal if it is none.
  explicit SharedMemory(int fd);
  // A program may close what it did not open, and the number may then be another file's.
  bool HasOwnFile() const;
  void CheckOwnFile() const;
  void Map(int64_t num_bytes, Pages pages = Pages::kAtOnce);

  int fd_;
  uint64_t device_ = 0, inode_ = 0;  // of the file
  char* base_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace adasum

#endif  // ADASUM_TRANSPORT_SHARED_MEMORY_H_
