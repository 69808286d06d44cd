// The library that adasumrun preloads into ranks: large aligned blocks, as TensorFlow takes for its
// tensors, come from the arena. All else goes to the next library that serves memory: libc, or what
// the user preloads.

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "cc/arena/process_heap.h"

namespace adasum {
namespace {

// Below it the rounding to pages would cost a block much of its size.
constexpr size_t kLeastServedBytes = 64 << 10;

// A function as the next library has it. Found when it is first called, which may be before any
// constructor has run.
template <typename Function>
class Next {
 public:
  explicit constexpr Next(const char* name) : name_(name) {}
  Function* get() {
    Function* function = function_.load(std::memory_order_relaxed);
    if (function == nullptr) {
      function = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name_));
      function_.store(function, std::memory_order_relaxed);
    }
    return function;
  }

 private:
  const char* name_;
  std::atomic<Function*> function_{nullptr};
};

Next<int(void**, size_t, size_t)> next_posix_memalign("posix_memalign");
Next<void*(size_t, size_t)> next_aligned_alloc("aligned_alloc");
Next<void*(size_t, size_t)> next_memalign("memalign");
Next<void(void*)> next_free("free");
Next<void*(void*, size_t)> next_realloc("realloc");
Next<size_t(void*)> next_malloc_usable_size("malloc_usable_size");

// Null where the next library is to serve it, and to judge what was asked for.
void* FromArena(size_t alignment, size_t num_bytes) {
  if (num_bytes < kLeastServedBytes || num_bytes > INT64_MAX) return nullptr;
  if (alignment == 0 || (alignment & (alignment - 1)) != 0) return nullptr;
  if (alignment % sizeof(void*) != 0 || !StartProcessHeap()) return nullptr;
  return process_heap.Allocate(num_bytes, alignment);
}

bool IsOfArena(const void* block) { return process_heap.Holds(block, 0); }

void Free(void* block) {
  // One that it does not know either is for libc to complain about.
  if (IsOfArena(block) && process_heap.Free(block)) return;
  next_free.get()(block);
}

void* Realloc(void* block, size_t num_bytes) {
  const size_t usable = process_heap.UsableBytes(block);
  if (usable == 0) return next_realloc.get()(block, num_bytes);
  // In place where at least half of it stays in use.
  if (num_bytes <= usable && num_bytes >= usable / 2) return block;
  void* moved = num_bytes == 0 ? nullptr : std::malloc(num_bytes);
  if (moved == nullptr && num_bytes > 0) return nullptr;
  if (moved != nullptr) std::memcpy(moved, block, std::min(num_bytes, usable));
  Free(block);
  return moved;
}

// Takes the path of this library out of a list with colons or spaces between.
void RemoveFrom(char* list, const char* path) {
  const size_t length = std::strlen(path);
  for (char* entry = list; *entry != '\0';) {
    const size_t size = std::strcspn(entry, ": ");
    char* next = entry + size + (entry[size] != '\0');
    if (size == length && std::strncmp(entry, path, length) == 0) {
      std::memmove(entry, next, std::strlen(next) + 1);
    } else {
      entry = next;
    }
  }
  const size_t rest = std::strlen(list);
  if (rest > 0 && (list[rest - 1] == ':' || list[rest - 1] == ' ')) list[rest - 1] = '\0';
}

bool IsPython() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
  if (length <= 0) return false;
  path[length] = '\0';
  const char* slash = std::strrchr(path, '/');
  return std::strncmp(slash == nullptr ? path : slash + 1, "python", 6) == 0;
}

// The training program is the last that needs it: what that starts, in this environment or a copy
// that Python makes of it, has no tensors of this job. Shells and tools before it hand it on.
__attribute__((constructor)) void LeaveEnvironment() {
  Dl_info own;
  static const char anchor = 0;
  char* list = std::getenv("LD_PRELOAD");
  if (list == nullptr || dladdr(&anchor, &own) == 0 || !IsPython()) return;
  RemoveFrom(list, own.dli_fname);
  if (*list == '\0') unsetenv("LD_PRELOAD");
}

}  // namespace
}  // namespace adasum

extern "C" {

// Found by its name, kArenaTableFunction.
const adasum::ArenaTable* tf_adasum_arena_1() { return &adasum::OwnArenaTable(); }

int posix_memalign(void** block, size_t alignment, size_t num_bytes) noexcept {
  void* served = adasum::FromArena(alignment, num_bytes);
  if (served == nullptr) return adasum::next_posix_memalign.get()(block, alignment, num_bytes);
  *block = served;
  return 0;
}

void* aligned_alloc(size_t alignment, size_t num_bytes) noexcept {
  void* served = adasum::FromArena(alignment, num_bytes);
  return served != nullptr ? served : adasum::next_aligned_alloc.get()(alignment, num_bytes);
}

void* memalign(size_t alignment, size_t num_bytes) noexcept {
  void* served = adasum::FromArena(alignment, num_bytes);
  return served != nullptr ? served : adasum::next_memalign.get()(alignment, num_bytes);
}

void free(void* block) noexcept { adasum::Free(block); }

// C23's, which newer C libraries have.
void free_sized(void* block, size_t) { adasum::Free(block); }
void free_aligned_sized(void* block, size_t, size_t) { adasum::Free(block); }

void* realloc(void* block, size_t num_bytes) noexcept { return adasum::Realloc(block, num_bytes); }

void* reallocarray(void* block, size_t count, size_t size) noexcept {
  size_t num_bytes = 0;
  if (__builtin_mul_overflow(count, size, &num_bytes)) {
    errno = ENOMEM;
    return nullptr;
  }
  return adasum::Realloc(block, num_bytes);
}

size_t malloc_usable_size(void* block) noexcept {
  const size_t usable = adasum::process_heap.UsableBytes(block);
  return usable > 0 ? usable : adasum::next_malloc_usable_size.get()(block);
}

}  // extern "C"
