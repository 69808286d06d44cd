// A range that the cores of a leaf work through side by side, each on a tile of its own, which
// stays in its first caches meanwhile.
#ifndef ADASUM_ALGORITHMS_TILES_H_
#define ADASUM_ALGORITHMS_TILES_H_

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <vector>

#include "cc/core/arithmetic.h"
#include "cc/core/segments.h"

namespace adasum {

constexpr int64_t kTileBytes = int64_t{32} << 10;

// Memory for what a core makes on the way: a room of `room_bytes` for each core that works at once,
// all of them behind `begin`.
class Rooms {
 public:
  Rooms(char* begin, int64_t room_bytes, int count) {
    for (int i = 0; i < count; ++i) free_.push_back(begin + i * room_bytes);
  }

  // One of them, for the scope; also where that is left by an exception, behind which other tiles
  // are still worked on.
  class Lease {
   public:
    explicit Lease(Rooms* rooms) : rooms_(*rooms) {
      std::lock_guard<std::mutex> lock(rooms_.mutex_);
      room_ = rooms_.free_.back();
      rooms_.free_.pop_back();
    }
    ~Lease() {
      std::lock_guard<std::mutex> lock(rooms_.mutex_);
      rooms_.free_.push_back(room_);
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    char* room() const { return room_; }

   private:
    Rooms& rooms_;
    char* room_;
  };

 private:
  std::mutex mutex_;
  std::vector<char*> free_;
};

// Calls work(tile, room, arithmetic) for tiles of `tile` elements that make up the range. A room
// has `room_bytes`, and there are as many behind `rooms` as the arithmetic is wide.
template <typename Work>
void ForEachTile(Range range, int64_t tile, Arithmetic& arithmetic, char* rooms, int64_t room_bytes,
                 Work work) {
  Rooms free(rooms, room_bytes, arithmetic.Width());
  const int64_t num_tiles = (range.size() + tile - 1) / tile;
  arithmetic.RunTasks(
      "combine", num_tiles * kTileBytes, num_tiles, [&](int64_t i, Arithmetic& of_core) {
        const int64_t begin = range.begin + i * tile;
        const Rooms::Lease lease(&free);
        work(Range{begin, std::min(begin + tile, range.end)}, lease.room(), of_core);
      });
}

}  // namespace adasum

#endif  // ADASUM_ALGORITHMS_TILES_H_
