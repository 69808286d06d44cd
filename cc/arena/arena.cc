#include "cc/arena/arena.h"

#include <dlfcn.h>

#include "cc/arena/process_heap.h"

namespace adasum {

Arena& Arena::OfProcess() {
  static Arena arena([] {
    const void* preloaded = dlsym(RTLD_DEFAULT, kArenaTableName);
    return preloaded != nullptr ? static_cast<const ArenaTable*>(preloaded) : &OwnArenaTable();
  }());
  return arena;
}

}  // namespace adasum
