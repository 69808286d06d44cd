// A heap of large blocks in a file without a name, which other processes can map.
#ifndef ADASUM_ARENA_HEAP_H_
#define ADASUM_ARENA_HEAP_H_

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "cc/arena/arena.h"
#include "cc/arena/page_runs.h"

namespace adasum {

// Serves whole pages. What is freed is kept for the next blocks, which so need no page faults, as
// long as used and kept memory together is no more than was in use at the most lately, and a
// little; beyond that the system gets it back, the oldest first.
//
// It may be in use before main and from inside of malloc's callers: it takes no memory but by mmap,
// throws nothing, and needs no constructor to run.
class Heap {
 public:
  static constexpr int64_t kPageBytes = 4096;

  constexpr Heap() = default;
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // Makes the file, of at most so many bytes; false if the system refuses. Once, before all else.
  bool Start(int64_t num_bytes);
  // Unmaps it. For tests: nobody may have a block.
  void Stop();

  ArenaMemory memory() const;
  void* Allocate(int64_t num_bytes, int64_t alignment);
  bool Free(void* block);
  bool Holds(const void* bytes, int64_t num_bytes) const {
    const uint64_t size = size_.load(std::memory_order_acquire);
    const uintptr_t offset =
        reinterpret_cast<uintptr_t>(bytes) - begin_.load(std::memory_order_relaxed);
    return num_bytes >= 0 && offset < size && static_cast<uint64_t>(num_bytes) <= size - offset;
  }
  // Of a block: what it may be used for, no less than was asked for. 0 if there is no such block.
  int64_t UsableBytes(const void* block) const;

  // Around fork(): no other thread is in the heap. The child can free what was in it, which does
  // nothing, and gets no more.
  void BeforeFork() { pthread_mutex_lock(&lock_); }
  void AfterForkInParent() { pthread_mutex_unlock(&lock_); }
  void AfterForkInChild();

  // For tests.
  int64_t used_bytes() const { return num_used_ * kPageBytes; }
  int64_t kept_bytes() const { return num_kept_ * kPageBytes; }
  bool IsSound() const { return runs_.IsSound(); }

 private:
  bool MakeFile(int64_t num_bytes);
  bool IsOwnFile() const;
  uint32_t PageOf(const void* block) const;
  // Gives kept pages back until used and kept ones are at most so many, or none is kept. With the
  // lock held, which it lets go of while the system takes the pages.
  void GiveBack(int64_t most_pages);
  void CountAllocation(int64_t num_pages, bool was_kept);

  // Constant-initialized: it may be used before constructors have run.
  mutable pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
  PageRuns runs_;
  int fd_ = -1;
  uint64_t device_ = 0, inode_ = 0, token_ = 0;
  std::atomic<uintptr_t> begin_{0};
  // Set last: 0 while there is no memory.
  std::atomic<uint64_t> size_{0};
  void* table_ = nullptr;
  std::atomic<bool> is_child_{false};
  int64_t num_used_ = 0, num_kept_ = 0;
  // Of the time now, and of the one before, counted in allocations.
  int64_t most_used_ = 0, most_used_before_ = 0;
  int64_t num_allocations_ = 0;
};

}  // namespace adasum

#endif  // ADASUM_ARENA_HEAP_H_
