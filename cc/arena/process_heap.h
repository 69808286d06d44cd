// The heap of this process, of this copy of the code: _native.so has one, the preloaded library
// another.
#ifndef ADASUM_ARENA_PROCESS_HEAP_H_
#define ADASUM_ARENA_PROCESS_HEAP_H_

#include "cc/arena/arena.h"
#include "cc/arena/heap.h"

namespace adasum {

// Not started before the first that asks for memory, or for what the heap is.
extern Heap process_heap;

// Starts it, once; false if there may be none, or the system refuses.
bool StartProcessHeap();

const ArenaTable& OwnArenaTable();

}  // namespace adasum

#endif  // ADASUM_ARENA_PROCESS_HEAP_H_
