#include "cc/arena/heap.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace adasum {
namespace {

// Programs expect low descriptors of what they open themselves, or have closed (0 to 2).
constexpr int kLeastDescriptor = 100;
// Blocks that no longer fit together as they did cost no page faults up to here.
constexpr int64_t kSlackPages = (32 << 20) / Heap::kPageBytes;
// The least that is given back at once.
constexpr int64_t kLeastGivenPages = (4 << 20) / Heap::kPageBytes;
// What was in use is forgotten after this many allocations to twice as many: several steps of
// training.
constexpr int64_t kPeriod = 4096;

class Lock {
 public:
  explicit Lock(pthread_mutex_t* mutex) : mutex_(mutex) { pthread_mutex_lock(mutex_); }
  ~Lock() { pthread_mutex_unlock(mutex_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  pthread_mutex_t* mutex_;
};

// free() leaves errno as it was.
class KeepErrno {
 public:
  ~KeepErrno() { errno = kept_; }

 private:
  const int kept_ = errno;
};

uint64_t RandomToken() {
  uint64_t token = 0;
  // Without waiting for a young system's entropy: it tells files apart, and is no secret.
  if (getrandom(&token, sizeof(token), GRND_NONBLOCK) != sizeof(token)) {
    token = static_cast<uint64_t>(getpid()) << 32 ^ reinterpret_cast<uintptr_t>(&token);
  }
  return token;
}

void* MapTable(int64_t num_bytes) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  return mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE, kFlags, -1, 0);
}

}  // namespace

bool Heap::MakeFile(int64_t num_bytes) {
  int fd = memfd_create("tf_adasum_arena", MFD_CLOEXEC);
  if (fd < 0) return false;
  const int high = fcntl(fd, F_DUPFD_CLOEXEC, kLeastDescriptor);
  if (high >= 0) {
    close(fd);
    fd = high;
  }
  struct stat status;
  // Anybody's otherwise, who gets so far as to see our descriptors.
  if (fd < 3 || fchmod(fd, S_IRUSR | S_IWUSR) != 0 || ftruncate(fd, num_bytes) != 0 ||
      fstat(fd, &status) != 0) {
    close(fd);
    return false;
  }
  fd_ = fd;
  device_ = status.st_dev;
  inode_ = status.st_ino;
  return true;
}

// The program may have closed what it did not open, and the number may be another file's now.
bool Heap::IsOwnFile() const {
  struct stat status;
  return fd_ >= 0 && fstat(fd_, &status) == 0 && status.st_dev == device_ &&
         status.st_ino == inode_ && static_cast<uint64_t>(status.st_size) == size_;
}

bool Heap::Start(int64_t num_bytes) {
  KeepErrno keep;
  constexpr int64_t kMostPages = int64_t{1} << 31;
  const int64_t num_pages = std::min(num_bytes / kPageBytes, kMostPages);
  if (num_pages < 3) return false;
  num_bytes = num_pages * kPageBytes;
  if (!MakeFile(num_bytes)) return false;
  constexpr int kFlags = MAP_SHARED | MAP_NORESERVE;
  void* base = mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE, kFlags, fd_, 0);
  table_ = base == MAP_FAILED ? MAP_FAILED : MapTable(PageRuns::TableBytes(num_pages));
  if (table_ == MAP_FAILED) {
    if (base != MAP_FAILED) munmap(base, num_bytes);
    close(fd_);
    fd_ = -1;
    return false;
  }
  // A dump would read, and so fill, all pages that nobody has.
  madvise(base, num_bytes, MADV_DONTDUMP);
  runs_.Start(table_, num_pages);
  token_ = RandomToken();
  *static_cast<uint64_t*>(base) = token_;
  begin_.store(reinterpret_cast<uintptr_t>(base), std::memory_order_relaxed);
  size_.store(num_bytes, std::memory_order_release);
  return true;
}

void Heap::Stop() {
  if (size_ == 0) return;
  munmap(table_, PageRuns::TableBytes(size_ / kPageBytes));
  munmap(reinterpret_cast<void*>(begin_.load()), size_);
  size_ = 0;
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

ArenaMemory Heap::memory() const {
  KeepErrno keep;
  if (size_ == 0 || is_child_ || !IsOwnFile()) return {};
  return {fd_, reinterpret_cast<char*>(begin_.load()), static_cast<int64_t>(size_.load()), token_};
}

uint32_t Heap::PageOf(const void* block) const {
  const uintptr_t offset = reinterpret_cast<uintptr_t>(block) - begin_;
  if (offset % kPageBytes != 0) return PageRuns::kNone;
  const uint32_t page = offset / kPageBytes;
  return runs_.IsTaken(page) ? page : PageRuns::kNone;
}

void* Heap::Allocate(int64_t num_bytes, int64_t alignment) {
  if (size_ == 0 || is_child_) return nullptr;
  if (num_bytes <= 0 || static_cast<uint64_t>(num_bytes) > size_) return nullptr;
  if (static_cast<uint64_t>(alignment) > size_) return nullptr;
  KeepErrno keep;
  Lock lock(&lock_);
  const uint32_t num_pages = (num_bytes + kPageBytes - 1) / kPageBytes;
  // The file begins at a page: what is aligned to more has to be so in memory.
  const uint32_t align_pages = std::max<int64_t>(1, alignment / kPageBytes);
  if (align_pages > 1 && begin_ % alignment != 0) return nullptr;
  bool was_kept = false;
  uint32_t first = runs_.Take(num_pages, align_pages, &was_kept);
  if (first == PageRuns::kNone && num_kept_ > 0) {
    GiveBack(0);
    first = runs_.Take(num_pages, align_pages, &was_kept);
  }
  if (first == PageRuns::kNone) return nullptr;
  CountAllocation(num_pages, was_kept);
  GiveBack(std::max(most_used_, most_used_before_) + kSlackPages);
  return reinterpret_cast<void*>(begin_ + int64_t{first} * kPageBytes);
}

void Heap::CountAllocation(int64_t num_pages, bool was_kept) {
  num_used_ += num_pages;
  if (was_kept) num_kept_ -= num_pages;
  if (++num_allocations_ % kPeriod == 0) {
    most_used_before_ = most_used_;
    most_used_ = 0;
  }
  most_used_ = std::max(most_used_, num_used_);
}

void Heap::GiveBack(int64_t most_pages) {
  while (num_kept_ > 0 && num_used_ + num_kept_ > most_pages) {
    const int64_t excess = num_used_ + num_kept_ - most_pages;
    const uint32_t first = runs_.TakeOldest(std::max(excess, kLeastGivenPages));
    if (first == PageRuns::kNone) return;
    const int64_t num_pages = runs_.NumPages(first);
    num_kept_ -= num_pages;
    pthread_mutex_unlock(&lock_);
    // By address, since the descriptor may be gone.
    madvise(reinterpret_cast<void*>(begin_ + int64_t{first} * kPageBytes), num_pages * kPageBytes,
            MADV_REMOVE);
    pthread_mutex_lock(&lock_);
    runs_.Empty(first);
  }
}

bool Heap::Free(void* block) {
  if (!Holds(block, 0)) return false;
  if (is_child_) return true;
  Lock lock(&lock_);
  const uint32_t first = PageOf(block);
  if (first == PageRuns::kNone) return false;
  const int64_t num_pages = runs_.NumPages(first);
  runs_.Keep(first);
  num_used_ -= num_pages;
  num_kept_ += num_pages;
  return true;
}

int64_t Heap::UsableBytes(const void* block) const {
  if (!Holds(block, 0)) return 0;
  Lock lock(&lock_);
  const uint32_t first = PageOf(block);
  return first == PageRuns::kNone ? 0 : runs_.NumPages(first) * kPageBytes;
}

void Heap::AfterForkInChild() {
  if (size_ > 0 && !is_child_.exchange(true)) {
    // The same pages, until either side writes: what the child writes is its own.
    constexpr int kFlags = MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE;
    void* base = reinterpret_cast<void*>(begin_.load());
    const bool has_file = IsOwnFile();
    if (!has_file || mmap(base, size_, PROT_READ | PROT_WRITE, kFlags, fd_, 0) == MAP_FAILED) {
      // Better that the child ends than that it writes into the parent's tensors.
      mprotect(base, size_, PROT_READ);
    }
    madvise(base, size_, MADV_DONTDUMP);
    if (has_file) close(fd_);
    fd_ = -1;
  }
  pthread_mutex_unlock(&lock_);
}

}  // namespace adasum
