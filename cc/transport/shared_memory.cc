#include "cc/transport/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "cc/core/error.h"

namespace adasum {
namespace {

[[noreturn]] void ThrowErrno(const std::string& call) {
  std::string advice;
  if (errno == ENOMEM || errno == ENOSPC || errno == EFBIG) {
    advice =
        ". Give the rank more memory, or longer files (ulimit -f), or set "
        "TF_ADASUM_SHARED_MEMORY=0.";
  } else if (errno == EMFILE) {
    advice = ". Let the rank open more files (ulimit -n).";
  }
  throw Error(ErrorCode::kInternal, call + ": " + std::strerror(errno) + advice);
}

// Above the numbers that programs close without having opened them, such as those of a daemon.
constexpr int kLeastDescriptor = 100;

int MovedUp(int fd) {
  const int high = fcntl(fd, F_DUPFD_CLOEXEC, kLeastDescriptor);
  if (high < 0) return fd;
  close(fd);
  return high;
}

}  // namespace

SharedMemory::SharedMemory(int fd) : fd_(MovedUp(fd)) {
  struct stat status;
  if (fstat(fd_, &status) != 0) {
    close(std::exchange(fd_, -1));
    ThrowErrno("fstat of shared memory");
  }
  device_ = status.st_dev;
  inode_ = status.st_ino;
}

bool SharedMemory::HasOwnFile() const {
  struct stat status;
  return fstat(fd_, &status) == 0 && status.st_dev == device_ && status.st_ino == inode_;
}

void SharedMemory::CheckOwnFile() const {
  if (HasOwnFile()) return;
  throw Error(ErrorCode::kInternal,
              "Expected descriptor " + std::to_string(fd_) +
                  " to be that of shared memory. Received: another file, or none. The program has "
                  "closed a descriptor that it did not open: let it close its own alone.");
}

std::unique_ptr<SharedMemory> SharedMemory::Create(int64_t num_bytes) {
  int fd = memfd_create("tf_adasum", MFD_CLOEXEC);
  if (fd < 0) ThrowErrno("memfd_create");
  std::unique_ptr<SharedMemory> memory(new SharedMemory(fd));
  // Anybody's otherwise, who gets so far as to see our descriptors.
  if (fchmod(memory->fd_, S_IRUSR | S_IWUSR) != 0) ThrowErrno("fchmod of shared memory");
  memory->Grow(num_bytes);
  return memory;
}

std::unique_ptr<SharedMemory> SharedMemory::OpenOf(int64_t pid, int fd, Pages pages) {
  std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd);
  // The process may be another host's namesake, and its descriptor a terminal or a pipe.
  int opened = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (opened < 0) ThrowErrno("open " + path);
  std::unique_ptr<SharedMemory> memory(new SharedMemory(opened));
  struct stat status;
  if (fstat(memory->fd_, &status) != 0) ThrowErrno("fstat " + path);
  if (!S_ISREG(status.st_mode)) {
    throw Error(ErrorCode::kInternal,
                "Expected " + path + " to be shared memory. Received: no regular file.");
  }
  memory->Map(status.st_size, pages);
  return memory;
}

SharedMemory::~SharedMemory() {
  if (base_ != nullptr) munmap(base_, size_);
  if (HasOwnFile()) close(fd_);
}

void SharedMemory::Grow(int64_t num_bytes) {
  if (num_bytes <= size_) return;
  CheckOwnFile();
  if (ftruncate(fd_, num_bytes) != 0) {
    ThrowErrno("ftruncate of shared memory to " + std::to_string(num_bytes) + " bytes");
  }
  Map(num_bytes);
}

void SharedMemory::Follow(int64_t num_bytes) {
  if (num_bytes <= size_) return;
  CheckOwnFile();
  // Behind its end a file has no memory: who reads there is killed.
  struct stat status;
  if (fstat(fd_, &status) != 0) ThrowErrno("fstat of shared memory");
  if (num_bytes > status.st_size) {
    throw Error(ErrorCode::kInternal, "Expected shared memory of " + std::to_string(num_bytes) +
                                          " bytes. Received: a file of " +
                                          std::to_string(status.st_size) + ".");
  }
  Map(num_bytes);
}

void SharedMemory::Map(int64_t num_bytes, Pages pages) {
  // What is all used is filled now rather than page by page in the middle of the first exchange.
  const int flags = MAP_SHARED | (pages == Pages::kAtOnce ? MAP_POPULATE : MAP_NORESERVE);
  void* base = mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE, flags, fd_, 0);
  if (base == MAP_FAILED) {
    ThrowErrno("mmap of " + std::to_string(num_bytes) + " bytes of shared memory");
  }
  // A core file shows the tensors of its own process.
  if (pages == Pages::kOnUse) madvise(base, num_bytes, MADV_DONTDUMP);
  if (base_ != nullptr) munmap(base_, size_);
  base_ = static_cast<char*>(base);
  size_ = num_bytes;
}

}  // namespace adasum
