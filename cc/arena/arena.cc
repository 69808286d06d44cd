#include "cc/arena/arena.h"

#include <dlfcn.h>

#include "cc/arena/process_heap.h"

namespace adasum {

Arena& Arena::OfProcess() {
  static Arena arena([] {
    void* preloaded = dlsym(RTLD_DEFAULT, kArenaTableFunction);
    if (preloaded == nullptr) return &OwnArenaTable();
    return reinterpret_cast<ArenaTableFunction*>(preloaded)();
  }());
  return arena;
}

}  // namespace adasum
