// Memory of the devices, pinned memory, and what processes open of each other's.
//
// An allocation is a file in memory, mapped twice: at the address that callers know, where nobody
// may touch it, and at another one that only copies and kernels are told. The file's last page
// counts the processes that have opened it.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <random>

#include "tests/cuda_stand_in/devices.h"

namespace cuda_stand_in {
namespace {

constexpr int64_t kPage = 4096;

struct LastPage {
  std::atomic<int64_t> num_openings;
  uint64_t id;
};

struct Allocation {
  int64_t num_bytes;  // whole pages, without the last one
  int device;
  int fd;
  char* alias;
  bool is_opened;  // of another process
  int num_uses = 1;
  LastPage* last_page() const { return reinterpret_cast<LastPage*>(alias + num_bytes); }
};

// As bytes in cudaIpcMemHandle_t.
struct Handle {
  uint64_t id;
  int64_t num_bytes;
  int32_t pid;
  int32_t fd;
  int32_t device;
};
static_assert(sizeof(Handle) <= sizeof(cudaIpcMemHandle_t), "travels in its place");

std::mutex mutex;
int64_t free_bytes = kAllBytes;
int64_t num_mallocs = 0;

std::map<uintptr_t, Allocation>& Allocations() {
  static auto* allocations = new std::map<uintptr_t, Allocation>;
  return *allocations;
}
std::map<uintptr_t, int64_t>& PinnedRuns() {
  static auto* runs = new std::map<uintptr_t, int64_t>;
  return *runs;
}

uintptr_t Number(const void* bytes) { return reinterpret_cast<uintptr_t>(bytes); }

// The entry that begins at or before the address.
template <typename Map>
typename Map::iterator Before(Map& map, uintptr_t address) {
  auto next = map.upper_bound(address);
  return next == map.begin() ? map.end() : std::prev(next);
}

// Maps a file of device memory and enters it in the books; returns the address for callers.
void* Enter(int fd, int64_t num_bytes, int device, bool is_opened) {
  void* alias = mmap(nullptr, num_bytes + kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  void* address = mmap(nullptr, num_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (alias == MAP_FAILED || address == MAP_FAILED) Die("mmap failed");
  Allocations()[Number(address)] = {num_bytes, device, fd, static_cast<char*>(alias), is_opened};
  return address;
}

void Leave(std::map<uintptr_t, Allocation>::iterator entry) {
  const Allocation& allocation = entry->second;
  munmap(reinterpret_cast<void*>(entry->first), allocation.num_bytes);
  munmap(allocation.alias, allocation.num_bytes + kPage);
  close(allocation.fd);
  Allocations().erase(entry);
}

}  // namespace

char* OnDevice(const void* bytes, int64_t num_bytes, int device) {
  std::lock_guard<std::mutex> lock(mutex);
  const auto found = Before(Allocations(), Number(bytes));
  if (found == Allocations().end()) Die("expected device memory, received another address");
  const Allocation& allocation = found->second;
  const int64_t offset = Number(bytes) - found->first;
  if (offset + num_bytes > allocation.num_bytes) Die("an access behind the end of an allocation");
  if (device != kAnyDevice && device != allocation.device) {
    Die("a kernel on device " + std::to_string(device) + " got memory of device " +
        std::to_string(allocation.device));
  }
  return allocation.alias + offset;
}

bool IsDeviceMemory(const void* bytes) {
  std::lock_guard<std::mutex> lock(mutex);
  const auto found = Before(Allocations(), Number(bytes));
  return found != Allocations().end() &&
         Number(bytes) - found->first < uintptr_t(found->second.num_bytes);
}

bool IsPinned(const void* bytes, int64_t num_bytes) {
  std::lock_guard<std::mutex> lock(mutex);
  const auto found = Before(PinnedRuns(), Number(bytes));
  return found != PinnedRuns().end() &&
         int64_t(Number(bytes) - found->first) + num_bytes <= found->second;
}

void SetFreeBytes(int64_t num_bytes) {
  std::lock_guard<std::mutex> lock(mutex);
  free_bytes = num_bytes;
}

int64_t NumMallocs() {
  std::lock_guard<std::mutex> lock(mutex);
  return num_mallocs;
}

}  // namespace cuda_stand_in

using namespace cuda_stand_in;

cudaError_t cudaMalloc(void** bytes, size_t num_bytes) {
  const int64_t wanted = (num_bytes + kPage - 1) / kPage * kPage;
  std::lock_guard<std::mutex> lock(mutex);
  ++num_mallocs;
  if (wanted > free_bytes) return Failed(cudaErrorMemoryAllocation);
  const int fd = memfd_create("cuda_stand_in", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, wanted + kPage) != 0) return Failed(cudaErrorMemoryAllocation);
  free_bytes -= wanted;
  *bytes = Enter(fd, wanted, CurrentDevice(), false);
  const Allocation& allocation = Allocations()[Number(*bytes)];
  std::random_device random;
  allocation.last_page()->id = (uint64_t{random()} << 32) | random();
  // As of earlier users: nobody may count on zeros.
  std::memset(allocation.alias, 0x5a, wanted);
  return cudaSuccess;
}

cudaError_t cudaFree(void* bytes) {
  if (bytes == nullptr) return cudaSuccess;
  cudaDeviceSynchronize();
  std::lock_guard<std::mutex> lock(mutex);
  const auto found = Allocations().find(Number(bytes));
  if (found == Allocations().end() || found->second.is_opened) Die("cudaFree of another address");
  if (found->second.last_page()->num_openings > 0) {
    Die("cudaFree of memory that another process has open");
  }
  free_bytes += found->second.num_bytes;
  Leave(found);
  return cudaSuccess;
}

cudaError_t cudaMallocHost(void** bytes, size_t num_bytes) {
  *bytes = std::malloc(num_bytes);
  std::lock_guard<std::mutex> lock(mutex);
  PinnedRuns()[Number(*bytes)] = num_bytes;
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* bytes) {
  if (bytes == nullptr) return cudaSuccess;
  cudaDeviceSynchronize();
  std::lock_guard<std::mutex> lock(mutex);
  if (PinnedRuns().erase(Number(bytes)) == 0) Die("cudaFreeHost of another address");
  std::free(bytes);
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* bytes) {
  attributes->type = IsDeviceMemory(bytes) ? cudaMemoryTypeDevice
                     : IsPinned(bytes, 1)  ? cudaMemoryTypeHost
                                           : cudaMemoryTypeUnregistered;
  return cudaSuccess;
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* bytes) {
  const char* wanted = std::getenv("CUDA_STAND_IN_IPC");
  if (wanted != nullptr && *wanted == '0') return Failed(cudaErrorNotSupported);
  std::lock_guard<std::mutex> lock(mutex);
  const auto found = Allocations().find(Number(bytes));
  if (found == Allocations().end() || found->second.is_opened) {
    return Failed(cudaErrorInvalidValue);
  }
  const Allocation& allocation = found->second;
  const Handle own{allocation.last_page()->id, allocation.num_bytes, getpid(), allocation.fd,
                   allocation.device};
  std::memset(handle, 0, sizeof(*handle));
  std::memcpy(handle, &own, sizeof(own));
  return cudaSuccess;
}

cudaError_t cudaIpcOpenMemHandle(void** bytes, cudaIpcMemHandle_t handle, unsigned flags) {
  Handle theirs;
  std::memcpy(&theirs, &handle, sizeof(theirs));
  const char* wanted = std::getenv("CUDA_STAND_IN_IPC");
  const bool is_blind = wanted != nullptr && std::strcmp(wanted, "blind") == 0;
  if (is_blind || theirs.pid == getpid()) return Failed(cudaErrorInvalidValue);
  if (theirs.device != CurrentDevice() && (flags & cudaIpcMemLazyEnablePeerAccess) == 0) {
    return Failed(cudaErrorMapBufferObjectFailed);
  }
  std::lock_guard<std::mutex> lock(mutex);
  for (auto& [address, allocation] : Allocations()) {
    if (!allocation.is_opened || allocation.last_page()->id != theirs.id) continue;
    ++allocation.num_uses;
    *bytes = reinterpret_cast<void*>(address);
    return cudaSuccess;
  }
  const std::string path =
      "/proc/" + std::to_string(theirs.pid) + "/fd/" + std::to_string(theirs.fd);
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  struct stat status = {};
  if (fd < 0 || fstat(fd, &status) != 0 || status.st_size != theirs.num_bytes + kPage) {
    if (fd >= 0) close(fd);
    return Failed(cudaErrorMapBufferObjectFailed);
  }
  *bytes = Enter(fd, theirs.num_bytes, theirs.device, true);
  const auto found = Allocations().find(Number(*bytes));
  if (found->second.last_page()->id != theirs.id) {
    Leave(found);
    return Failed(cudaErrorMapBufferObjectFailed);
  }
  ++found->second.last_page()->num_openings;
  return cudaSuccess;
}

cudaError_t cudaIpcCloseMemHandle(void* bytes) {
  std::lock_guard<std::mutex> lock(mutex);
  const auto found = Allocations().find(Number(bytes));
  if (found == Allocations().end() || !found->second.is_opened) {
    Die("cudaIpcCloseMemHandle of another address");
  }
  if (--found->second.num_uses > 0) return cudaSuccess;
  --found->second.last_page()->num_openings;
  Leave(found);
  return cudaSuccess;
}
