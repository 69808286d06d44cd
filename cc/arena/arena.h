// Memory of this process that the other ranks of its host can read where it lies.
#ifndef ADASUM_ARENA_ARENA_H_
#define ADASUM_ARENA_ARENA_H_

#include <cstdint>

namespace adasum {

// Shared memory of this process, from which large blocks are served. Other processes of its user
// map it by /proc/PID/fd/FD. The file's first 8 bytes are the token; a page for it comes before all
// blocks. fd -1: there is none.
struct ArenaMemory {
  int fd = -1;
  char* base = nullptr;
  int64_t num_bytes = 0;
  uint64_t token = 0;
};

// How the preloaded library (preload.cc) is called by this one, in C.
struct ArenaTable {
  ArenaMemory (*memory)();
  void* (*allocate)(int64_t num_bytes, int64_t alignment);
  bool (*free)(void* block);
  bool (*holds)(const void* bytes, int64_t num_bytes);
};
// The function of that library that returns it. Another number for each change of the table.
constexpr char kArenaTableFunction[] = "tf_adasum_arena_1";
using ArenaTableFunction = const ArenaTable*();

// Any thread may call it. In a forked child there is none: memory() says so. What the parent had in
// it the child sees as the parent changes it, page by page until it writes there itself.
class Arena {
 public:
  // The process's one: the preloaded library's if there is one, else this library's own, made at
  // the first call.
  static Arena& OfProcess();

  ArenaMemory memory() const { return table_->memory(); }
  // At least so many bytes, aligned to a page or to `alignment`, a power of two. Null if they do
  // not fit, or there is no arena: the caller takes other memory.
  void* Allocate(int64_t num_bytes, int64_t alignment) {
    return table_->allocate(num_bytes, alignment);
  }
  // False if the block is not the arena's.
  bool Free(void* block) { return table_->free(block); }
  // Whether all these bytes lie in it.
  bool Holds(const void* bytes, int64_t num_bytes) const { return table_->holds(bytes, num_bytes); }

 private:
  explicit Arena(const ArenaTable* table) : table_(table) {}
  const ArenaTable* table_;
};

}  // namespace adasum

#endif  // ADASUM_ARENA_ARENA_H_
