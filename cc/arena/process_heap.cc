#include "cc/arena/process_heap.h"

#include <pthread.h>

#include "cc/arena/heap_size.h"

namespace adasum {
namespace {

pthread_once_t once = PTHREAD_ONCE_INIT;
bool is_started = false;

void Start() {
  const int64_t num_bytes = HeapBytes();
  is_started = num_bytes > 0 && process_heap.Start(num_bytes);
}

// When the library is loaded: what later libraries do around a fork comes before this, while their
// threads may still be in the heap.
const int is_watching_forks =
    pthread_atfork([] { process_heap.BeforeFork(); }, [] { process_heap.AfterForkInParent(); },
                   [] { process_heap.AfterForkInChild(); });

constexpr ArenaTable kOwnTable = {
    [] { return StartProcessHeap() ? process_heap.memory() : ArenaMemory{}; },
    [](int64_t num_bytes, int64_t alignment) {
      return StartProcessHeap() ? process_heap.Allocate(num_bytes, alignment) : nullptr;
    },
    [](void* block) { return process_heap.Free(block); },
    [](const void* bytes, int64_t num_bytes) { return process_heap.Holds(bytes, num_bytes); },
};

}  // namespace

Heap process_heap;

bool StartProcessHeap() {
  static_cast<void>(is_watching_forks);
  pthread_once(&once, &Start);
  return is_started;
}

const ArenaTable& OwnArenaTable() { return kOwnTable; }

}  // namespace adasum
